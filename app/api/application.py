"""The web application: routes, layers and errors put together around the service's parts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

from fastapi import APIRouter, Depends, FastAPI
from starlette.middleware.cors import CORSMiddleware

from app.api import openapi, problems
from app.api.dashboard import Dashboard
from app.api.layers.audit import AuditedRequests
from app.api.layers.bodies import BoundedBody, HeadLikeGet, larger_bodies
from app.api.layers.metrics import HttpMetrics, MeasuredRequests
from app.api.layers.paths import PathSegments
from app.api.layers.security import Refusing, SecurityHeaders, loopback_host, one_host, same_origin
from app.api.parameters import check_parameters
from app.api.routes import (
    assertions,
    chain,
    conversations,
    events,
    files,
    jobs,
    links,
    metrics,
    periods,
    queue_metrics,
    redactions,
    reports,
    service,
    spans,
    traces,
    upkeep,
    where,
)
from app.api.services import ServiceParts
from app.api.signin.audit import AuditFile
from app.settings import Settings

# In the order of the document, and of matching.
ROUTERS = [
    *(module.router for module in (traces, links, redactions, assertions, events, periods, chain)),
    *(conversations.router, files.router, jobs.router, reports.topologies, reports.router),
    *(files.periods, conversations.failures, where.router, upkeep.router, upkeep.archives),
    *(spans.router, metrics.router, queue_metrics.router, service.router),
]
# Shared by all applications of a process: working the routes out takes longer than most tests.
_API = APIRouter(generate_unique_id_function=lambda route: route.name)
for _router in ROUTERS:
    _API.include_router(_router, dependencies=[Depends(check_parameters)])


def build(
    settings: Settings,
    open_services: Callable[[], AbstractAsyncContextManager[ServiceParts]],
    web: Path | None,
) -> FastAPI:
    """The application. Its parts are opened and closed by its lifespan.

    ``web`` is the dashboard's folder, None for the API alone.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_services() as services:
            app.state.services = services
            yield

    app = FastAPI(
        title="rabbitmq-itc",
        lifespan=lifespan,
        # The framework's own pages load scripts from another host.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    problems.install(app, [route for router in ROUTERS for route in router.routes])
    app.router.routes.extend(_API.routes)
    openapi.install(app)
    if web is not None:
        app.mount("/", Dashboard(web), name="dashboard")
    _add_layers(app, settings)
    return app


def _add_layers(app: FastAPI, settings: Settings) -> None:
    """Innermost first: the layer added last sees a request first."""
    app.add_middleware(BoundedBody, larger=larger_bodies(settings.otlp))
    app.state.http_metrics = HttpMetrics()
    app.add_middleware(MeasuredRequests, metrics=app.state.http_metrics)
    if settings.audit_log is not None:
        app.add_middleware(AuditedRequests, log=AuditFile(settings.audit_log))
    origins = frozenset(origin.lower() for origin in settings.cors_origins)
    app.add_middleware(Refusing, check=partial(same_origin, origins=origins))
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=("GET", "PUT", "DELETE"),
            allow_headers=("authorization", "last-event-id", "prefer", "x-requested-with"),
            expose_headers=(
                "content-disposition",
                "itc-certainty",
                "location",
                "preference-applied",
                "retry-after",
            ),
        )
    if settings.auth == "none":
        app.add_middleware(Refusing, check=loopback_host)
    app.add_middleware(HeadLikeGet)
    app.add_middleware(PathSegments)
    app.add_middleware(Refusing, check=one_host)
    app.add_middleware(
        SecurityHeaders,
        cross_origin=bool(settings.cors_origins),
        framed_by=settings.frame_ancestors,
    )
