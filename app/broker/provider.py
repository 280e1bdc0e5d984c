"""The identity provider that the broker trusts: who signs in there brings a token back.

The broker tells its own page which provider that is, and what the page is called there. This page
uses the same (OAuth 2, code flow with PKCE), but has the service exchange the code: then it needs
to speak with nobody else, and the provider need not let it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeVar

import httpx2
import msgspec

from app.errors import NotAuthenticatedError, OutageError

TIMEOUT_SECONDS = 10.0
BELIEVED_SECONDS = 60.0  # the broker's word
USUAL_SCOPE = "openid profile"
_DISCOVERY = "/.well-known/openid-configuration"
_SETTINGS = "set_oauth_settings("  # in the script by which 4.x tells its page

T = TypeVar("T")


class OAuthSettings(msgspec.Struct, frozen=True):
    """The broker's word about its provider: ``metadata`` is where its endpoints are described.

    ``resources`` are the broker's names there, which its scopes begin with; None where it does not
    tell them.
    """

    client_id: str
    metadata: str
    scope: str
    resources: frozenset[str] | None = None


class Endpoints(msgspec.Struct, frozen=True):
    """The provider's endpoints."""

    authorization_endpoint: str
    token_endpoint: str


class ProviderClient(msgspec.Struct, frozen=True):
    """A page's part at the provider: with it somebody is sent there."""

    authorization_endpoint: str
    client_id: str
    scope: str


class _Token(msgspec.Struct):
    access_token: str


def read_settings(text: str) -> OAuthSettings | None:
    """Read what the broker tells its own page; None where nobody signs in through a provider.

    Until 3.10 it is JSON at ``/api/auth`` and names a UAA, then other fields there; 4.x has the
    same within a script. Measured on 3.10.8 and 4.3.6.
    """
    start = text.find(_SETTINGS)
    try:
        settings, _ = json.JSONDecoder().raw_decode(
            text, start + len(_SETTINGS) if start >= 0 else 0
        )
    except ValueError:
        return None
    if not isinstance(settings, dict):
        return None
    if settings.get("enable_uaa") is True:
        return _settings(settings.get("uaa_client_id"), settings.get("uaa_location"), {})
    if settings.get("oauth_enabled") is not True:
        return None
    servers = settings.get("oauth_resource_servers")
    servers = servers if isinstance(servers, dict) else {}
    server: dict[str, Any] = next(iter(servers.values()), {})
    merged = {**settings, **server}
    found = _settings(merged.get("oauth_client_id"), merged.get("oauth_provider_url"), merged)
    return found and msgspec.structs.replace(found, resources=frozenset(servers) or None)


def _settings(client_id: Any, url: Any, more: dict[str, Any]) -> OAuthSettings | None:
    metadata = more.get("oauth_metadata_url") or (f"{url.rstrip('/')}{_DISCOVERY}" if url else "")
    scope = more.get("oauth_scopes") or USUAL_SCOPE
    texts = (client_id, metadata, scope)
    if not all(isinstance(text, str) and text for text in texts):
        return None
    return OAuthSettings(client_id, metadata, scope)


@dataclass(eq=False)
class IdentityProvider:
    """The provider that the broker names, asked by the service.

    ``ask`` asks the broker for it; ``client_id`` and ``scope`` are this page's own, if any.
    """

    ask: Callable[[], Awaitable[OAuthSettings | None]]
    client_id: str | None = None
    scope: str | None = None
    _: KW_ONLY
    transport: httpx2.AsyncBaseTransport | None = None
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._settings: OAuthSettings | None = None
        self._endpoints: Endpoints | None = None  # of these settings
        self._until = 0.0

    async def resources(self) -> frozenset[str] | None:
        """The broker's names at the provider; None where it does not tell them."""
        settings = await self._look_up()
        return None if settings is None else settings.resources

    async def client(self) -> ProviderClient | None:
        """The page's part there; None if the broker names no provider. Raises `OutageError`."""
        known = await self._describe()
        if known is None:
            return None
        settings, endpoints = known
        return ProviderClient(
            endpoints.authorization_endpoint,
            self.client_id or settings.client_id,
            self.scope or settings.scope,
        )

    async def redeem(self, code: str, verifier: str, redirect_uri: str) -> str:
        """The token for a code. Raises `NotAuthenticatedError` and `OutageError`."""
        known = await self._describe()
        if known is None:
            raise NotAuthenticatedError("the broker names no identity provider")
        settings, endpoints = known
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "code_verifier": verifier,
            "redirect_uri": redirect_uri,
            "client_id": self.client_id or settings.client_id,
        }
        response = await self._send("POST", endpoints.token_endpoint, data=form)
        if response.is_client_error:
            raise NotAuthenticatedError("the identity provider refuses this sign-in: try again")
        return _decode(response, _Token).access_token

    async def _look_up(self) -> OAuthSettings | None:
        """The provider that the broker names."""
        if self.clock() >= self._until:
            settings = await self.ask()
            if settings != self._settings:
                self._settings, self._endpoints = settings, None
            self._until = self.clock() + BELIEVED_SECONDS
        return self._settings

    async def _describe(self) -> tuple[OAuthSettings, Endpoints] | None:
        settings = await self._look_up()
        if settings is None:
            return None
        if self._endpoints is None:
            self._endpoints = _decode(await self._send("GET", settings.metadata), Endpoints)
        return settings, self._endpoints

    async def _send(self, method: str, url: str, **options: Any) -> httpx2.Response:
        is_tls = url.startswith("https:") and self.transport is None
        try:
            async with httpx2.AsyncClient(
                verify=httpx2.create_ssl_context() if is_tls else False,
                timeout=TIMEOUT_SECONDS,
                transport=self.transport,
                trust_env=False,
                headers={"accept": "application/json"},
            ) as client:
                return await client.request(method, url, **options)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise OutageError("the identity provider cannot be reached") from error


def _decode(response: httpx2.Response, kind: type[T]) -> T:
    try:
        response.raise_for_status()
        return msgspec.json.decode(response.content, type=kind)
    except (httpx2.HTTPStatusError, msgspec.MsgspecError) as error:
        raise OutageError("the identity provider answers otherwise than expected") from error
