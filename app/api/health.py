"""Probes. They need no sign-in, so they name what is away and not where it is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any

from fastapi import APIRouter, Response

from app.api.schemas import Condition, Health
from app.api.services import Parts
from app.api.views import json_answer
from app.errors import ItcError

router = APIRouter(tags=["service"], prefix="/health")
logger = logging.getLogger(__name__)

_PATIENCE_SECONDS = 5.0


@router.get("/live", response_model=Health)
async def probe_live() -> Health:
    """The process answers."""
    return Health(status="ok", checks={})


@router.get(
    "/ready",
    response_model=Health,
    responses={503: {"model": Health, "description": "Something is away: see `checks`."}},
)
async def probe_ready(parts: Parts) -> Response:
    """The service can do its work: the database and the broker's management API answer."""
    database, broker = await asyncio.gather(
        _condition("database", parts.store.ping()),
        _condition("broker", parts.broker.vhosts()),
    )
    well = database == broker == "ok" and not parts.stopping.is_set()
    body = {
        "status": "ok" if well else "unavailable",
        "checks": {"database": database, "broker": broker},
    }
    return json_answer(body, 200 if well else 503)


async def _condition(name: str, question: Awaitable[Any]) -> Condition:
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await question
    except (ItcError, TimeoutError) as error:
        logger.warning("not ready: %s: %s", name, error or "no answer in time")
        return "unavailable"
    return "ok"
