"""The service itself: whether it is well, who is signed in, and which virtual hosts there are."""

from __future__ import annotations

import contextlib
from typing import Annotated

import msgspec
from fastapi import APIRouter, Request, Response
from pydantic import Field

from app.api.described import answer_of, json_answer, returns
from app.api.openapi import READING, answers
from app.api.parameters import KnownFields
from app.api.readiness import Health
from app.api.routes.bodies import body_of, json_body
from app.api.services import Parts
from app.api.signin.audit import decision_of
from app.api.signin.auth import Reader, client_of
from app.errors import BadRequestError, OutageError

router = APIRouter(tags=["service"])


class Whoami(msgspec.Struct, frozen=True):
    """The signed-in user."""

    name: str
    tags: list[str]
    vhosts: list[str]
    may_write: bool


@router.get("/itc_db/whoami", **returns(Whoami, READING))
async def whoami(user: Reader, parts: Parts) -> Response:
    """The signed-in user, and the virtual hosts there are to choose from."""
    vhosts = user.vhosts if user.vhosts is not None else await _every_vhost(parts)
    return json_answer(Whoami(user.name, sorted(user.tags), sorted(vhosts), user.may_write))


class SignInOffer(msgspec.Struct, frozen=True):
    """The identity provider at which people may sign in, instead of with a password."""

    authorization_endpoint: Annotated[
        str | None,
        "Where the broker's identity provider lets people sign in (OAuth 2, code flow with PKCE); "
        "`null` where the broker names none, or it cannot be reached.",
    ]
    client_id: Annotated[str | None, "This page's name there."]
    scope: Annotated[str | None, "The scopes to ask for."]


class Redemption(KnownFields):
    """A code of the identity provider, and what proves that the caller began the sign-in."""

    code: Annotated[str, Field(min_length=1, max_length=4_096)]
    verifier: Annotated[str, Field(pattern=r"^[A-Za-z0-9._~-]{43,128}$")]
    redirect_uri: Annotated[str, Field(pattern=r"^https?://[^\s\u0000]+$", max_length=2_048)]


class Token(msgspec.Struct, frozen=True):
    """The token that a code was exchanged for."""

    access_token: Annotated[str, "To be sent as `Authorization: Bearer …`."]


@router.get("/itc_db/sign-in", **returns(SignInOffer, answers(400)))
async def show_sign_in(parts: Parts) -> Response:
    """Tell where people may sign in instead of with a password; nobody has to be signed in."""
    client = None
    with contextlib.suppress(OutageError):  # a password may still do
        client = await parts.authenticator.oauth()
    if client is None:
        return json_answer(SignInOffer(None, None, None))
    return json_answer(SignInOffer(client.authorization_endpoint, client.client_id, client.scope))


@router.post(
    "/itc_db/sign-in",
    **returns(Token, answers(400, 401, 403, 429, 503)),
    openapi_extra=body_of(Redemption),
)
async def redeem_code(parts: Parts, request: Request) -> Response:
    """Exchange a code of the broker's identity provider for a token."""
    decision_of(request.scope).is_asked = True
    body = await json_body(request, Redemption)
    if body is None:
        raise BadRequestError("the body is an object with code, verifier and redirect_uri")
    token = await parts.authenticator.redeem(
        body.code, body.verifier, body.redirect_uri, client_of(request)
    )
    return json_answer(Token(token))


async def _every_vhost(parts: Parts) -> frozenset[str]:
    """Without sign-in: the virtual hosts that the service's account sees, or in an outage those
    that it traces.
    """
    try:
        return await parts.broker.vhosts()
    except OutageError:
        return frozenset(status.vhost for status in await parts.traces.statuses())


@router.get("/health/live", **returns(Health, answers(400)))
async def probe_live() -> Response:
    """The process answers."""
    return json_answer(Health("ok", {}))


_UNAVAILABLE = answer_of(Health, description="Something is unavailable: see `checks`.")


@router.get("/health/ready", **returns(Health, {**answers(400), 503: _UNAVAILABLE}))
async def probe_ready(parts: Parts) -> Response:
    """The service can do its work: the database and the management API answer, no trace failed.

    The service is ready without jobs, too: the answer then says what to install for them.
    """
    checks = await parts.readiness.checks()
    well = "unavailable" not in checks.values() and not parts.stopping.is_set()
    health = Health("ok" if well else "unavailable", checks)
    return json_answer(health, 200 if well else 503)
