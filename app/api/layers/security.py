"""Protects browsers from being used against their users, and readers of ``Host`` from forged ones.

State-changing requests from another site's page are refused. Every answer limits what a page of
ours may load, and who may frame it. A request has exactly one valid ``Host``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.problems import FRAMED_BY_NOBODY, SECURITY_HEADERS, problem
from app.api.signin.auth import was_forwarded
from app.settings import is_loopback

# A name or an address, and a port. An IPv6 address is in brackets.
_HOST = re.compile(
    rb"(?:\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._~!$&'()*+,;=%-]{0,255})(?::[0-9]{0,5})?"
)
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class SecurityHeaders:
    """ASGI layer that puts `SECURITY_HEADERS` on every answer.

    Outermost, so that the answer after a bug has them too. Answers about messages are not for
    caches, unless their route says otherwise.
    """

    def __init__(self, app: ASGIApp, *, cross_origin: bool, framed_by: Sequence[str] = ()) -> None:
        self._app = app
        self._headers = dict(SECURITY_HEADERS)
        if framed_by:
            policy = self._headers["content-security-policy"]
            origins = f"frame-ancestors {' '.join(framed_by)}"
            self._headers["content-security-policy"] = policy.replace(FRAMED_BY_NOBODY, origins)
            del self._headers["x-frame-options"]  # such browsers know no other origins
        if cross_origin:
            # Otherwise pages of the configured origins could not read the answer.
            self._headers["cross-origin-resource-policy"] = "cross-origin"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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


class Refusing:
    """ASGI layer that answers in the application's place where ``check`` refuses a request."""

    def __init__(self, app: ASGIApp, check: Callable[[Scope], Response | None]) -> None:
        self._app = app
        self._check = check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._check(scope) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)


def one_host(scope: Scope) -> Response | None:
    """Refuse an HTTP/1.1 request without ``Host``, and any with an invalid one.

    With two, a program that reads the first and one that reads the last disagree about the host.
    """
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    minimum = 0 if scope["http_version"] == "1.0" else 1
    if not minimum <= len(hosts) <= 1:
        return problem(400, "bad_request", "a request has one header Host")
    if not all(_HOST.fullmatch(host) for host in hosts):
        reason = "the header Host holds no name or address of a host"
        return problem(400, "bad_request", reason)
    return None


def same_origin(scope: Scope, origins: Container[str]) -> Response | None:
    """Refuse a write that a browser sends for another origin's page.

    A browser says so in ``Sec-Fetch-Site`` and ``Origin``, and a page cannot forge either. Other
    clients send neither, and hold no signed-in user to abuse.
    """
    headers = Headers(scope=scope)
    if scope["method"] in _SAFE_METHODS or _may_write(headers, origins):
        return None
    return problem(403, "cross_origin", "a page of another origin may not change anything here")


def _may_write(headers: Headers, origins: Container[str]) -> bool:
    origin = headers.get("origin")
    if origin is not None and origin.lower() in origins:
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


def loopback_host(scope: Scope) -> Response | None:
    """Refuse other names than loopback ones, for a service that lets anybody in.

    Otherwise a page could point its own host name at this machine's address (DNS rebinding) and
    then read everything as its own origin. What a proxy passes on may come from anywhere.
    """
    headers = Headers(scope=scope)
    try:
        name = urlsplit(f"//{headers.get('host', '')}").hostname or ""
    except ValueError:
        name = ""
    if is_loopback(name) and not was_forwarded(headers):
        return None
    return problem(403, "cross_origin", "with ITC_AUTH=none the service answers to localhost alone")
