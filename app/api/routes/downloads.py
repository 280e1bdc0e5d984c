"""Files as answers."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.responses import FileResponse
from starlette.types import Message, Receive, Scope, Send

from app.api.problems import problem

_REFUSALS = {
    400: ("bad_request", "invalid Range header: expected one such as bytes=0-99"),
    416: ("range_not_satisfiable", "the range starts after the end of the file"),
}


class Download(FileResponse):
    """A file, whole or in ranges. An invalid range is refused in the same shape as all errors."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; the framework itself would refuse a range in plain text."""
        refused = False

        async def translated(message: Message) -> None:
            nonlocal refused
            if message["type"] == "http.response.start" and message["status"] in _REFUSALS:
                refused = True
                kept = Headers(raw=message["headers"])
                size = {name: kept[name] for name in ("content-range",) if name in kept}
                answer = problem(message["status"], *_REFUSALS[message["status"]], size)
                await answer(scope, receive, send)
            elif not refused:
                await send(message)

        await super().__call__(scope, receive, translated)
