"""HEAD wherever there is GET: the same answer without its body."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadLikeGet:
    """ASGI layer that answers HEAD as it would GET, and sends no body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection, as ASGI has it."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            return await self._app(scope, receive, send)
        ended = False

        async def send_head(message: Message) -> None:
            nonlocal ended
            if message["type"] == "http.response.start":
                await send(message)
            elif not ended:
                ended = True  # the server then reports the client as gone, which ends streams
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        return await self._app({**scope, "method": "GET"}, receive, send_head)
