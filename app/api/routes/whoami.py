"""Who is signed in, and which virtual hosts there are to choose from."""

from __future__ import annotations

from fastapi import APIRouter

from app.api.openapi import READING
from app.api.schemas.service import Whoami
from app.api.services import Parts
from app.api.signin.auth import Reader
from app.errors import OutageError

router = APIRouter(tags=["service"])


@router.get("/itc_db/whoami", response_model=Whoami, responses=READING)
async def whoami(user: Reader, parts: Parts) -> Whoami:
    """The signed-in user, and the virtual hosts there are to choose from."""
    vhosts = user.vhosts if user.vhosts is not None else await _every_vhost(parts)
    return Whoami(
        name=user.name, tags=sorted(user.tags), vhosts=sorted(vhosts), may_write=user.may_write
    )


async def _every_vhost(parts: Parts) -> frozenset[str]:
    """Without sign-in: what the service's account sees, or what it traces in an outage."""
    try:
        return await parts.broker.vhosts()
    except OutageError:
        return frozenset(status.vhost for status in await parts.traces.statuses())
