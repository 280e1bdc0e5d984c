"""The service itself: whether it is well, who is signed in, and which virtual hosts there are."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Response

from app.api.described import answer_of, json_answer, returns
from app.api.openapi import READING, answers
from app.api.readiness import Health
from app.api.services import Parts
from app.api.signin.auth import Reader
from app.errors import OutageError

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
