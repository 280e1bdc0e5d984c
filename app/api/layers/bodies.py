"""Request bodies: small, and soon here."""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_CLOSE = {"connection": "close"}  # the rest of the body is not wanted


class BoundedBody:
    """ASGI layer that bounds how much of a body is read, and for how long."""

    def __init__(self, app: ASGIApp, *, max_bytes: int, seconds: float) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection, as ASGI has it."""
        if scope["type"] == "http":
            receive = self._bounded(receive)
        await self._app(scope, receive, send)

    def _bounded(self, receive: Receive) -> Receive:
        left = self._max_bytes
        complete = False

        async def bounded() -> Message:
            nonlocal left, complete
            if complete:  # what comes now is the end of the connection, any time later
                return await receive()
            try:
                async with asyncio.timeout(self._seconds):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, "the request's body takes too long", _CLOSE) from None
            left -= len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if left < 0:
                raise HTTPException(413, f"a request has at most {self._max_bytes} bytes", _CLOSE)
            return message

        return bounded
