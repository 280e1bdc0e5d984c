"""Bodies: requests' are small and complete in time, answers to HEAD have none."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_BYTES = 65_536  # rules and assertions of a virtual host take some kilobytes
# A collector's batch of spans, before it is unpacked.
SPANS_BYTES = 1 << 22
REQUEST_SECONDS = 15.0  # for a request's head, and for its body
_CLOSE = {"connection": "close"}  # the rest of the body is not read


def larger_bodies(spans: bool) -> dict[str, int]:
    """The paths whose requests may have larger bodies, and how large."""
    return {"/v1/traces": SPANS_BYTES} if spans else {}


class BoundedBody:
    """ASGI layer that bounds how much of a body is read, and for how long in all.

    Once the answer has started, the body no longer matters, only whether the client is gone.
    """

    def __init__(self, app: ASGIApp, *, larger: Mapping[str, int]) -> None:
        self._app = app
        self._larger = larger

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            body = _Body(receive, send, self._larger.get(scope["path"], BODY_BYTES))
            receive, send = body.receive, body.send
        # A client that leaves in the middle of a body gets no answer, and is not a bug.
        with contextlib.suppress(ClientDisconnect):
            await self._app(scope, receive, send)


class _Body:
    """The body of one request, as far as it has arrived."""

    def __init__(self, receive: Receive, send: Send, max_bytes: int) -> None:
        self._receive = receive
        self._send = send
        self._max_bytes = max_bytes
        self._deadline: float | None = None  # by the loop's clock, set at the first read
        self._bytes = 0
        self._complete = False
        self._has_started = False

    async def send(self, message: Message) -> None:
        self._has_started = True
        await self._send(message)

    async def receive(self) -> Message:
        if self._complete or self._has_started:  # only the client's end can follow, at any time
            return await self._receive()
        message = await self._in_time()
        self._bytes += len(message.get("body", b""))
        self._complete = not message.get("more_body", False)
        if self._bytes > self._max_bytes and not self._has_started:
            raise HTTPException(413, f"a request has at most {self._max_bytes} bytes", _CLOSE)
        return message

    async def _in_time(self) -> Message:
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + REQUEST_SECONDS
        try:
            async with asyncio.timeout_at(self._deadline):
                return await self._receive()
        except TimeoutError:
            if self._has_started:
                return await self._receive()
            raise HTTPException(408, "the request's body takes too long", _CLOSE) from None


class HeadLikeGet:
    """ASGI layer that answers HEAD as it would GET, and sends no body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            return await self._app(scope, receive, send)
        is_sent = False

        async def send_head(message: Message) -> None:
            nonlocal is_sent
            if message["type"] == "http.response.start":
                await send(message)
            elif not is_sent:
                is_sent = True  # the server then reports the client as gone, which ends streams
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        return await self._app({**scope, "method": "GET"}, receive, send_head)
