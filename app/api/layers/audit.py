"""The audit log's layer: notes what was decided about each request, as its answer begins."""

from __future__ import annotations

from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.signin.audit import AuditFile, Decision, line_of


class AuditedRequests:
    """ASGI layer that writes a line for each request that somebody's rights decide."""

    def __init__(self, app: ASGIApp, log: AuditFile) -> None:
        self._app = app
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        decision = scope["audit"] = Decision()
        path = quote(scope["path"], safe="/%")
        status = 0

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if decision.is_asked:
                    self._log.write(line_of(decision, scope, path, status))
            await send(message)

        await self._app(scope, receive, send_and_note)
        if status and status < 400 and decision.denied is not None:  # the stream ended for it
            self._log.write(line_of(decision, scope, path, status))
