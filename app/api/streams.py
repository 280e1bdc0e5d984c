"""Server-sent events to clients of any speed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.errors import TooManyRequestsError

HEARTBEAT_SECONDS = 15.0
# For one write: a client that reads nothing for this long has its socket's buffers full.
SEND_SECONDS = 15.0
MOST_READERS = 2_000  # of the live tail; each is a task and a connection


def described(text: str) -> dict[str, Any]:
    event = {name: {"type": "string"} for name in ("data", "event", "id")}
    item = {"type": "object", "properties": event}
    return {"description": text, "content": {"text/event-stream": {"itemSchema": item}}}


def heartbeat(event_id: int | None = None) -> bytes:
    """A comment that keeps proxies from closing the connection.

    With an id the reader resumes after that event, even if none passed its filter.
    """
    return b": still here\n\n" if event_id is None else b": still here\nid: %d\n\n" % event_id


def frame(event: str, data: object) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event.encode(), msgspec.json.encode(data))


class EventStream(Response):
    """An answer of server-sent events that ends with its client.

    A client that does not take a write within `SEND_SECONDS` is disconnected: what it leaves
    unread is in the socket's buffer, and that is all it holds.
    """

    media_type = "text/event-stream"

    def __init__(
        self, frames: AsyncGenerator[bytes, None], closed: Callable[[], None] = lambda: None
    ) -> None:
        """``closed`` is called once, however the stream ends."""
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._frames = frames
        self._send_seconds = SEND_SECONDS
        self._closed = closed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            await send_while_connected(receive, self._send_all(send))
        finally:
            await self._frames.aclose()
            self._closed()

    async def _send_all(self, send: Send) -> None:
        try:
            async for part in self._frames:
                async with asyncio.timeout(self._send_seconds):
                    await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            return


async def send_while_connected(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Send until all is sent or the client goes away; raises what sending raises."""
    sending = asyncio.create_task(work)
    leaving = asyncio.create_task(_disconnected(receive))
    try:
        await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        sending.cancel()
        await asyncio.wait({sending, leaving})
    if not sending.cancelled():
        sending.result()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class Subscribers:
    """Counts the readers of the live tail, and admits at most ``most``."""

    def __init__(self, most: int = MOST_READERS) -> None:
        self._most = most
        self.count = 0
        self.dropped = 0

    def admit(self) -> None:
        if self.count >= self._most:
            raise TooManyRequestsError("the live tail has no room for more readers")
        self.count += 1

    def leave(self) -> None:
        self.count -= 1
