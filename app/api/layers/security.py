"""Protection of a browser from being used against its user.

State-changing requests from another site's page are refused; every answer says how little a page
of ours may load, and that nobody may frame it.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.headers import SECURITY_HEADERS, was_forwarded
from app.api.problems import problem
from app.settings import is_loopback

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class SecurityHeaders:
    """ASGI layer that puts `SECURITY_HEADERS` on every answer.

    Outermost, so that the answer after a bug has them too. Answers about messages are not for
    caches, unless their route says otherwise.
    """

    def __init__(self, app: ASGIApp, *, cross_origin: bool) -> None:
        self._app = app
        self._headers = dict(SECURITY_HEADERS)
        if cross_origin:
            # Otherwise pages of the configured origins could not read the answer.
            self._headers["cross-origin-resource-policy"] = "cross-origin"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection, as ASGI has it."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        return await self._app(scope, receive, send_with_headers)


class SameOriginWrites:
    """ASGI layer that refuses a write that a browser sends for another origin's page.

    A browser says so in ``Sec-Fetch-Site`` and ``Origin``, and a page cannot forge either. What
    is no browser sends neither and holds no signed-in user to abuse.
    """

    def __init__(self, app: ASGIApp, allowed_origins: tuple[str, ...]) -> None:
        self._app = app
        self._allowed = frozenset(origin.lower() for origin in allowed_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection, as ASGI has it."""
        if scope["type"] == "http" and scope["method"] not in _SAFE_METHODS:
            headers = Headers(scope=scope)
            if not self._may_write(headers):
                reason = "a page of another origin may not change anything here"
                return await problem(403, "cross_origin", reason)(scope, receive, send)
        return await self._app(scope, receive, send)

    def _may_write(self, headers: Headers) -> bool:
        origin = headers.get("origin")
        if origin is not None and origin.lower() in self._allowed:
            return True
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return False
        # Only the host: behind a proxy that terminates TLS the schemes may differ.
        return origin is None or _authority(origin) == headers.get("host", "").lower()


def _authority(origin: str) -> str | None:
    """Host and port of an origin; None if it has none, which matches no host."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:  # for example http://[
        return None


def _host_name(host: str) -> str:
    """The name in a ``Host`` header, without port and brackets; empty if it is invalid."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


class LoopbackHosts:
    """ASGI layer for a service that lets anybody in: it answers to loopback names only.

    Without it a page could point its own host name at this machine's address (DNS rebinding) and
    then read everything as its own origin. What a proxy passes on may come from anywhere.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection, as ASGI has it."""
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            host = headers.get("host", "")
            if not is_loopback(_host_name(host)) or was_forwarded(headers):
                reason = "with ITC_AUTH=none the service answers to localhost alone"
                return await problem(403, "cross_origin", reason)(scope, receive, send)
        return await self._app(scope, receive, send)
