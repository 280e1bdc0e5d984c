"""``Host``: exactly one, and a valid one, as HTTP requires."""

from __future__ import annotations

import re

from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.problems import problem

# A name or an address, and a port. An IPv6 address is in brackets.
_HOST = re.compile(
    rb"(?:\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._~!$&'()*+,;=%-]{0,255})(?::[0-9]{0,5})?"
)


class OneHost:
    """ASGI layer that refuses an HTTP/1.1 request without ``Host``, and any with an invalid one.

    With two, a program that reads the first and one that reads the last disagree about the host.
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
