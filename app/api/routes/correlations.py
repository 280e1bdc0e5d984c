"""Correlations: which fields tie messages together, as rules to adopt."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.api.openapi import WRITING, answers
from app.api.routes.queries import Moment, OfVhost
from app.api.routes.submitting import ACCEPTED, Prefer, submitted
from app.api.schemas.correlations import CorrelationReport
from app.api.services import Parts
from app.api.signin.auth import Writer
from app.api.views import json_answer
from app.errors import NotFoundError
from app.jobs.reports import ReportKind
from app.stored.jobs import Json
from model.times import microseconds_of

router = APIRouter(tags=["reports"], prefix="/itc_db/correlations")

_PERIOD = 86_400_000_000  # µs, looked at by default


@router.put(
    "",
    status_code=201,
    response_model=CorrelationReport,
    responses={**WRITING, **answers(500), **ACCEPTED},
)
async def correlate(
    user: Writer,
    parts: Parts,
    prefer: Prefer,
    vhost: OfVhost,
    since: Annotated[Moment | None, Query(description="Of what was recorded from then on.")] = None,
    until: Annotated[Moment | None, Query(description="Of what was recorded before.")] = None,
) -> Response:
    """Look for fields by which messages name others, as a job; by default in the last day."""
    user.must_see(vhost, "trace")
    if await parts.store.traces.find(vhost) is None:
        raise NotFoundError("no such trace")
    end = time.time_ns() // 1_000 if until is None else microseconds_of(until)
    start = max(0, end - _PERIOD if since is None else microseconds_of(since))
    request = parts.reports.request(ReportKind.correlations, vhost, start, end, user.name, {})
    # Before the job, because not every client waits for its end.
    await asyncio.to_thread(parts.reports.forget_old, vhost)

    async def answer(result: Json) -> Response:
        return json_answer(await asyncio.to_thread(parts.reports.get, result["id"]), 201)

    return await submitted(request, prefer, parts, answer)
