"""Probes. They need no sign-in, so they name what is unavailable but not where it is."""

from __future__ import annotations

from fastapi import APIRouter, Response

from app.api.described import json_answer
from app.api.openapi import answers
from app.api.schemas.service import Health
from app.api.services import Parts

router = APIRouter(tags=["service"], prefix="/health")


@router.get("/live", response_model=Health, responses=answers(400))
async def probe_live() -> Health:
    """The process answers."""
    return Health(status="ok", checks={})


@router.get(
    "/ready",
    response_model=Health,
    responses={
        **answers(400),
        503: {"model": Health, "description": "Something is unavailable: see `checks`."},
    },
)
async def probe_ready(parts: Parts) -> Response:
    """The service can do its work: the database and the broker's management API answer."""
    checks = await parts.readiness.checks()
    well = set(checks.values()) == {"ok"} and not parts.stopping.is_set()
    body = {"status": "ok" if well else "unavailable", "checks": checks}
    return json_answer(body, 200 if well else 503)
