"""``Host``: one, and one that can be, as HTTP asks for."""

from __future__ import annotations

import re

from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.problems import problem

# A name or an address, and a port. The brackets are an IPv6 address's.
_HOST = re.compile(
    rb"(?:\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._~!$&'()*+,;=%-]{0,255})(?::[0-9]{0,5})?"
)


class OneHost:
    """ASGI layer that refuses a request of HTTP/1.1 without a ``Host``, and any with a wrong one.

    Where there are two, whoever looks at the first and whoever looks at the last speak of
    different hosts.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection, as ASGI has it."""
        if scope["type"] == "http":
            hosts = [value for name, value in scope["headers"] if name == b"host"]
            least = 0 if scope["http_version"] == "1.0" else 1
            if not least <= len(hosts) <= 1:
                reason = "a request has one header Host"
                return await problem(400, "bad_request", reason)(scope, receive, send)
            if not all(_HOST.fullmatch(host) for host in hosts):
                reason = "the header Host holds no name or address of a host"
                return await problem(400, "bad_request", reason)(scope, receive, send)
        return await self._app(scope, receive, send)
