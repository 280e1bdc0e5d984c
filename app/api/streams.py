"""Server-sent events to clients of any speed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

import msgspec
from fastapi.sse import format_sse_event
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from app.errors import TooManyRequestsError

HEARTBEAT_SECONDS = 15.0
# For one write: a client that reads nothing for this long has its socket's buffers full.
SEND_SECONDS = 15.0
MOST_READERS = 2_000  # of the live tail; each is a task and a connection


def stream_content(text: str) -> dict[str, Any]:
    event = {name: {"type": "string"} for name in ("data", "event", "id")}
    item = {"type": "object", "properties": event}
    return {"description": text, "content": {"text/event-stream": {"itemSchema": item}}}


def heartbeat(event_id: int | None = None) -> bytes:
    """A comment that keeps proxies from closing the connection.

    With an id the reader resumes after that event, even if none passed its filter.
    """
    return format_sse_event(comment="still here", id=None if event_id is None else str(event_id))


def frame(event: str, data: object) -> bytes:
    return format_sse_event(event=event, data_str=msgspec.json.encode(data).decode())


class PiecewiseAnswer(Response):
    """An answer in pieces that ends with its client.

    Each is made once the client has taken the one before, so a slow client costs one piece.
    """

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        media_type: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(media_type=media_type, headers=headers)
        del self.headers["content-length"]
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        sending = asyncio.create_task(self._send_all(send))
        leaving = asyncio.create_task(_wait_for_disconnect(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            sending.cancel()
            await asyncio.wait({sending, leaving})
            await self._pieces.aclose()
        if not sending.cancelled():
            sending.result()

    async def _send_all(self, send: Send) -> None:
        async for part in self._pieces:
            await send({"type": "http.response.body", "body": part, "more_body": True})
            del part
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class EventStream(PiecewiseAnswer):
    """An answer of server-sent events.

    A client that does not take a write within `SEND_SECONDS` is disconnected: what it leaves
    unread is in the socket's buffer, and that is all it holds.
    """

    media_type = "text/event-stream"

    def __init__(self, frames: AsyncGenerator[bytes, None], on_close: Callable[[], None]) -> None:
        """``on_close`` is called once, however the stream ends."""
        super().__init__(frames, headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        self._on_close = on_close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(SEND_SECONDS):
                await send(message)

        try:
            with contextlib.suppress(TimeoutError):
                await super().__call__(scope, receive, send_in_time)
        finally:
            self._on_close()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class Subscribers:
    """Counts the readers of the live tail, and admits at most ``most``."""

    def __init__(self, capacity: int = MOST_READERS) -> None:
        self._capacity = capacity
        self.count = 0
        self.dropped = 0

    def admit(self) -> None:
        if self.count >= self._capacity:
            raise TooManyRequestsError("the live tail has no room for more readers")
        self.count += 1

    def leave(self) -> None:
        self.count -= 1
