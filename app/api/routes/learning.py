"""Reports that are learnt from a period: what normally follows what, and what a release changed."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.api.described import answering
from app.api.routes.queries import Moment, OfVhost
from app.api.routes.reports import MAKING, period_of, reported
from app.api.routes.submitting import Prefer
from app.api.services import Parts
from app.api.signin.auth import Writer
from app.errors import BadRequestError
from app.jobs.reports import ReportKind
from model.reports.learning import ComparisonReport, ExpectationsReport
from model.times import microseconds_of
from model.words import Along

router = APIRouter(tags=["reports"], prefix="/itc_db/reports")

_LONGEST_WAIT = 30 * 86_400  # s

Since = Annotated[Moment | None, Query(description="Of what began from then on.")]
Until = Annotated[Moment | None, Query(description="Of what began before.")]
Via = Annotated[
    Along,
    Query(description="What belongs together: what messages and links join, or shared keys too."),
]
Wait = Annotated[
    float,
    Query(
        ge=0,
        le=_LONGEST_WAIT,
        description="Effects are looked for up to this many seconds after the period.",
    ),
]
Cases = Annotated[int, Query(ge=10, le=1_000_000, description="Of fewer nothing is claimed.")]


@router.put("/expectations", **answering(ExpectationsReport, MAKING, status=201))
async def make_expectations(
    user: Writer,
    parts: Parts,
    prefer: Prefer,
    vhost: OfVhost,
    since: Since = None,
    until: Until = None,
    via: Via = "links",
    wait: Wait = 3_600.0,
    share: Annotated[
        float, Query(ge=0.5, le=1, description="In what share of cases an effect is expected.")
    ] = 0.95,
    cases: Cases = 100,
    rare: Annotated[
        float, Query(gt=0, le=0.2, description="Below which share something is rare.")
    ] = 0.01,
) -> Response:
    """Learn what messages lead to and what is out of the ordinary; by default in the last hour."""
    period = await period_of(vhost, since, until, user, parts)
    asked = {"via": via, "wait": wait, "share": share, "cases": cases, "rare": rare}
    return await reported(ReportKind.expectations, vhost, period, asked, user, parts, prefer)


@router.put("/comparison", **answering(ComparisonReport, MAKING, status=201))
async def make_comparison(
    user: Writer,
    parts: Parts,
    prefer: Prefer,
    vhost: OfVhost,
    since: Since = None,
    until: Until = None,
    before_since: Annotated[
        Moment | None, Query(description="Compared with what began from then on.")
    ] = None,
    before_until: Annotated[
        Moment | None, Query(description="Compared with what began before; by default `since`.")
    ] = None,
    via: Via = "links",
    wait: Wait = 3_600.0,
    cases: Cases = 100,
) -> Response:
    """Compare a period, by default the last hour, with another: by default as long, just before."""
    start, end = await period_of(vhost, since, until, user, parts)
    last = start if before_until is None else microseconds_of(before_until)
    first = last - (end - start) if before_since is None else microseconds_of(before_since)
    first = max(0, first)
    if first >= last:
        raise BadRequestError("a comparison needs a time: before_since must be before before_until")
    asked = {
        "before_since": first,
        "before_until": last,
        "via": via,
        "wait": wait,
        "cases": cases,
    }
    return await reported(ReportKind.comparison, vhost, (start, end), asked, user, parts, prefer)
