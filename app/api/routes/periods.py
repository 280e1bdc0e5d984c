"""Periods of time: how many events each part had, and whether the record of one is whole."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import Field

from app.api.causality import certainty
from app.api.described import json_answer
from app.api.openapi import READING, READING_ONE
from app.api.routes.queries import HEADERS, Filter, Moment, OfVhost
from app.api.routes.traces import trace_id_of
from app.api.schemas.periods import Histogram, PeriodCertainty
from app.api.services import Parts
from app.api.signin.auth import Reader
from app.api.views import histogram_view
from app.errors import BadRequestError
from app.stored.periods import Period
from app.traces.status import TraceStatus
from model.times import iso_time, microseconds_of, now

router = APIRouter(tags=["events"], prefix="/itc_db")


class HistogramQuery(Filter):
    """Which events, and how finely they are counted."""

    buckets: Annotated[int, Field(ge=1, le=500)] = Field(
        60, description="Most parts that the period is divided into, all of one length."
    )


@router.get("/histogram", response_model=Histogram, responses=READING, openapi_extra=HEADERS)
async def count_over_time(
    query: Annotated[HistogramQuery, Query()], user: Reader, parts: Parts
) -> Response:
    """How many events there were over time, by filter.

    The period is from `since` to `until`, or from the oldest event that is kept to the newest.
    """
    asked = query.filter_for(user)
    found = await parts.searches.over_time(user.name, asked, query.buckets)
    return json_answer(histogram_view(found))


@router.get("/certainty", response_model=PeriodCertainty, responses=READING_ONE)
async def certainty_of_period(
    user: Reader,
    parts: Parts,
    vhost: OfVhost,
    since: Annotated[Moment | None, Query(description="From this time on.")] = None,
    until: Annotated[Moment | None, Query(description="Up to this time.")] = None,
) -> Response:
    """How far answers about a period of a virtual host are to be relied on."""
    begin = None if since is None else microseconds_of(since)
    end = None if until is None else microseconds_of(until)
    if begin is not None and end is not None and begin > end:
        raise BadRequestError("since is after until")
    trace_id = await trace_id_of(vhost, user, parts)
    status = await parts.traces.status(vhost)
    period = await parts.store.periods.of(trace_id, begin, end)
    soundness = await parts.store.doubts.between(trace_id, period.first or 0, period.last or 0)
    return json_answer(
        {
            "vhost": vhost,
            "since": _iso(begin),
            "until": _iso(end),
            "first_event": period.first,
            "last_event": period.last,
            **certainty(period.gaps, soundness),
            "gap_count": period.gap_count,
            "known_since": _iso(_known_since(status, period)),
            "state": status.state,
            "as_of": iso_time(now()),
        }
    )


def _known_since(status: TraceStatus, period: Period) -> int | None:
    """Where events were removed, nothing is known of the time before the oldest that is left."""
    counted = status.counters.published + status.counters.received
    return period.oldest_at if status.events < counted else status.created_at


def _iso(time: int | None) -> str | None:
    return None if time is None else iso_time(time)
