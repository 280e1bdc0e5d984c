"""Requests with spans to a collector, which may be slow, away or full, or refuse some of them.

What it refuses as it is goes again in halves, down to the span that it does not take. A collector
that refuses a request without spans as well takes nothing, for want of a header perhaps: that and
everything else is an outage, and nothing is dropped. Errors name it without what may be a secret.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import httpx2

from app.errors import OutageError
from app.version import program_version
from model.otlp import as_protobuf, refusals_in
from model.spans import ExportedSpan
from model.texts import storable

MOST_SPANS = 1_000  # of a request: below what collectors take
TIMEOUT = httpx2.Timeout(30.0, connect=5.0)
MOST_ANSWER = 65_536  # bytes of an answer that are read
HEADERS = {"content-type": "application/x-protobuf", "content-encoding": "gzip"}
LONGEST_PAUSE = 60.0  # seconds, that a collector may ask for
# Statuses that say that the request itself is wrong: to repeat it is of no use.
UNFIT = frozenset({400, 413, 422})


class RefusedSpans(NamedTuple):
    """The number of spans that the collector refused, and its last reason."""

    number: int = 0
    reason: str = ""

    def and_more(self, more: RefusedSpans) -> RefusedSpans:
        return RefusedSpans(self.number + more.number, more.reason or self.reason)


class CollectorError(OutageError):
    """The collector does not take spans now; ``pause`` is as many seconds as it asks for."""

    def __init__(self, text: str, pause: float | None = None) -> None:
        super().__init__(text)
        self.pause = pause


@dataclass(eq=False)
class Sender:
    """Sends spans to a collector; ``address`` is `Settings.collector`."""

    address: Mapping[str, object]
    transport: httpx2.AsyncBaseTransport | None = None

    def __post_init__(self) -> None:
        headers = self.address["headers"]
        self._url, self._shown = str(self.address["url"]), str(self.address["shown"])
        # trust_env: neither a proxy for the outside world nor a .netrc applies here.
        self._http = httpx2.AsyncClient(
            timeout=TIMEOUT,
            transport=self.transport,
            trust_env=False,
            follow_redirects=False,
            headers={**HEADERS, **headers} if isinstance(headers, dict) else HEADERS,
        )
        self._version = program_version()
        self._takes = False  # it has taken something of what is being sent

    async def close(self) -> None:
        await self._http.aclose()

    async def send(self, spans: Sequence[ExportedSpan], vhost: str) -> RefusedSpans:
        """Send spans; raises `CollectorError`, and then a part of them may have been taken."""
        refused, self._takes = RefusedSpans(), False
        for first in range(0, len(spans), MOST_SPANS):
            part = spans[first : first + MOST_SPANS]
            refused = refused.and_more(await self._send(part, vhost))
        return refused

    async def check(self) -> None:
        """Send no span at all; raises `CollectorError`."""
        await self._send((), "")

    async def _send(self, spans: Sequence[ExportedSpan], vhost: str) -> RefusedSpans:
        body = await asyncio.to_thread(self._pack, spans, vhost)
        status, answer, text, pause = await self._post(body)
        if 200 <= status < 300:
            self._takes = True
            return RefusedSpans(*refusals_in(answer))
        if status in UNFIT and len(spans) > 1:
            middle = len(spans) // 2
            refused = await self._send(spans[:middle], vhost)
            return refused.and_more(await self._send(spans[middle:], vhost))
        if status in UNFIT and spans:
            if not self._takes:
                await self.check()
            return RefusedSpans(1, f"{status}{text}")
        raise CollectorError(f"the collector at {self._shown} answers {status}{text}", pause)

    def _pack(self, spans: Sequence[ExportedSpan], vhost: str) -> bytes:
        return gzip.compress(as_protobuf(spans, vhost, self._version), 1, mtime=0)

    async def _post(self, body: bytes) -> tuple[int, bytes, str, float | None]:
        """The status of the answer, its beginning, what it says as text, and its retry-after."""
        try:
            async with self._http.stream("POST", self._url, content=body) as response:
                answer = b""
                async for part in response.aiter_bytes():
                    answer += part
                    if len(answer) >= MOST_ANSWER:
                        break
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            # Not the library's text, which may quote the address.
            reason = type(error).__name__
            raise CollectorError(
                f"the collector at {self._shown} cannot be reached ({reason})"
            ) from error
        return response.status_code, answer, _quote(response, answer), _seconds(response)


def _quote(response: httpx2.Response, answer: bytes) -> str:
    """The beginning of an answer that is text."""
    kind = response.headers.get("content-type", "")
    if not kind.startswith(("text/plain", "application/json")):
        return ""
    text = " ".join(storable(answer).split())[:200]
    return f": {text}" if text else ""


def _seconds(response: httpx2.Response) -> float | None:
    text = response.headers.get("retry-after", "")
    is_number = text.isascii() and text.isdecimal() and len(text) < 6
    return min(float(text), LONGEST_PAUSE) if is_number else None
