"""Correlations: which fields tie messages together, as rules to adopt."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.api.described import answering
from app.api.routes.queries import Moment, OfVhost
from app.api.routes.reports import DAY, MAKING, period_of, reported
from app.api.routes.submitting import Prefer
from app.api.services import Parts
from app.api.signin.auth import Writer
from app.jobs.reports import ReportKind
from model.reports.correlations import CorrelationReport

router = APIRouter(tags=["reports"], prefix="/itc_db/correlations")


@router.put("", **answering(CorrelationReport, MAKING, status=201))
async def correlate(
    user: Writer,
    parts: Parts,
    prefer: Prefer,
    vhost: OfVhost,
    since: Annotated[Moment | None, Query(description="Of what was recorded from then on.")] = None,
    until: Annotated[Moment | None, Query(description="Of what was recorded before.")] = None,
) -> Response:
    """Look for fields by which messages name others, as a job; by default in the last day."""
    period = await period_of(vhost, since, until, user, parts, usual=DAY)
    return await reported(ReportKind.correlations, vhost, period, {}, user, parts, prefer)
