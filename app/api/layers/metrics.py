"""Measurements of every request: the time to its answer, by method, route and status."""

from __future__ import annotations

import time

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class HttpMetrics:
    """Counts of requests, and the process's own numbers."""

    def __init__(self) -> None:
        # Otherwise each histogram gets another series that nobody needs; the call is untyped.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self.requests = Histogram(
            "itc_http_request_duration_seconds",
            "Time from a request's arrival to the first byte of its answer.",
            ("method", "route", "status"),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.connections = Gauge(
            "itc_http_connections", "Connections of clients.", registry=self.registry
        )
        self.refused = Counter(
            "itc_http_connections_refused",
            "Connections that were one too many, from their address or in total.",
            ("bound",),
            registry=self.registry,
        )
        for limit in ("address", "total"):  # or nobody would see the first one as an increase
            self.refused.labels(limit)
        self.cut = Counter(
            "itc_http_connections_cut",
            "Connections that the service ended, by what the client kept it waiting for; replaced "
            "where that made room for another.",
            ("state",),
            registry=self.registry,
        )


class MeasuredRequests:
    """ASGI layer that measures requests by route, never by path: paths contain names."""

    def __init__(self, app: ASGIApp, metrics: HttpMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        start = time.perf_counter()

        async def send_and_measure(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", "none")
                labels = (_method(scope), route, str(message["status"]))
                self._metrics.requests.labels(*labels).observe(time.perf_counter() - start)
            await send(message)

        return await self._app(scope, receive, send_and_measure)


def _method(scope: Scope) -> str:
    """The method if it is known: clients can invent others, and each would be a time series."""
    method: str = scope["method"]
    return method if method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS") else "other"
