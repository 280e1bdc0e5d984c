"""Probes. They need no sign-in, so they name what is unavailable but not where it is."""

from __future__ import annotations

from fastapi import APIRouter, Response

from app.api.described import answer_of, answering, json_answer
from app.api.openapi import answers
from app.api.readiness import Health
from app.api.services import Parts

router = APIRouter(tags=["service"], prefix="/health")


@router.get("/live", **answering(Health, answers(400)))
async def probe_live() -> Response:
    """The process answers."""
    return json_answer(Health("ok", {}))


_UNAVAILABLE = answer_of(Health, description="Something is unavailable: see `checks`.")


@router.get("/ready", **answering(Health, {**answers(400), 503: _UNAVAILABLE}))
async def probe_ready(parts: Parts) -> Response:
    """The service can do its work: the database and the broker's management API answer."""
    checks = await parts.readiness.checks()
    well = set(checks.values()) == {"ok"} and not parts.stopping.is_set()
    health = Health("ok" if well else "unavailable", checks)
    return json_answer(health, 200 if well else 503)
