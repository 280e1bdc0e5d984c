"""What the service asks the broker's identity provider, and how it takes the answers."""

from __future__ import annotations

import json
from urllib.parse import parse_qs

import httpx2
import pytest

from app.broker.provider import IdentityProvider, OAuthSettings
from app.errors import NotAuthenticatedError, OutageError

SETTINGS = OAuthSettings("ui", "http://idp/.well-known/openid-configuration", "openid")
ENDPOINTS = {"authorization_endpoint": "http://idp/auth", "token_endpoint": "http://idp/token"}


class Idp:
    """A provider and the broker that names it; ``status`` and ``token`` are its next answer."""

    def __init__(self) -> None:
        self.named: OAuthSettings | None = SETTINGS
        self.requests: list[httpx2.Request] = []
        self.status, self.token = 200, '{"access_token": "t", "token_type": "Bearer"}'
        self.now = 0.0

    async def settings(self) -> OAuthSettings | None:
        return self.named

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        if request.url.path == "/token":
            return httpx2.Response(self.status, text=self.token)
        return httpx2.Response(200, text=json.dumps(ENDPOINTS))

    def provider(self, client_id: str | None = None) -> IdentityProvider:
        transport = httpx2.MockTransport(self.answer)
        return IdentityProvider(
            self.settings, client_id, transport=transport, clock=lambda: self.now
        )


async def test_a_code_is_exchanged_with_its_verifier_and_nobody_s_secret() -> None:
    idp = Idp()
    assert await idp.provider("itc").redeem("c", "v", "http://here/") == "t"
    form = {name: value for name, [value] in parse_qs(idp.requests[-1].content.decode()).items()}
    assert form == {
        "grant_type": "authorization_code",
        "code": "c",
        "code_verifier": "v",
        "redirect_uri": "http://here/",
        "client_id": "itc",
    }
    assert "authorization" not in idp.requests[-1].headers


async def test_endpoints_are_asked_once_until_the_broker_names_another_provider() -> None:
    idp = Idp()
    provider = idp.provider()
    client = await provider.client()
    assert client is not None
    assert (client.client_id, client.authorization_endpoint) == ("ui", "http://idp/auth")
    idp.now = 100.0
    await provider.client()
    assert len(idp.requests) == 1
    idp.named, idp.now = None, 200.0
    assert await provider.client() is None
    with pytest.raises(NotAuthenticatedError):
        await provider.redeem("c", "v", "http://here/")


@pytest.mark.parametrize(
    ("status", "text", "error"),
    [
        (400, '{"error": "invalid_grant"}', NotAuthenticatedError),
        (401, "", NotAuthenticatedError),
        (500, "", OutageError),
        (302, "", OutageError),
        (200, "<html>", OutageError),
    ],
)
async def test_a_refusal_is_told_from_an_outage(
    status: int, text: str, error: type[Exception]
) -> None:
    idp = Idp()
    idp.status, idp.token = status, text
    with pytest.raises(error):
        await idp.provider().redeem("c", "v", "http://here/")
