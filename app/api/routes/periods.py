"""Periods of time: how many events each part had, and whether the record of one is whole."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Response
from pydantic import Field

from app.api.described import answering, json_answer
from app.api.openapi import READING_ONE
from app.api.routes.queries import HEADERS, Filter, Moment, OfVhost
from app.api.routes.traces import trace_id_of
from app.api.services import Parts
from app.api.signin.auth import Reader
from app.errors import BadRequestError
from app.stored.reading import Histogram, TracePeriod
from app.traces.status import TraceStatus
from model.described import shown
from model.sound import Certainty
from model.times import Microseconds, now

router = APIRouter(tags=["events"], prefix="/itc_db")


class HistogramQuery(Filter):
    """The events to count, and in how fine steps."""

    buckets: Annotated[int, Field(ge=1, le=500)] = Field(
        60, description="Most parts that the period is divided into, all of one length."
    )


class PeriodCertainty(msgspec.Struct, frozen=True, kw_only=True):
    """Tell how far answers about a period of a virtual host are to be relied on."""

    vhost: str
    since: Microseconds | None
    until: Microseconds | None
    first_event: Annotated[int | None, "The first event in it; `null` if there is none."]
    last_event: int | None
    gap_count: Annotated[int, "How many gaps there are; `gaps` are the newest of them."]
    known_since: Annotated[
        Microseconds | None,
        "When the trace was made, or when the oldest event was recorded that is still kept: of "
        "what was before nothing is known.",
    ]
    state: Annotated[str, "That of the trace now."]
    as_of: Microseconds


@router.get("/histogram", **answering(Histogram, READING_ONE), openapi_extra=HEADERS)
async def count_over_time(
    query: Annotated[HistogramQuery, Query()], user: Reader, parts: Parts
) -> Response:
    """Count events over time, by filter.

    The period is from `since` to `until`, or from the oldest event that is kept to the newest.
    """
    asked = query.filter_for(user)
    async with parts.searches.turn(user.name, quick=asked.is_of_times_alone):
        return json_answer(await parts.store.events.over_time(asked, query.buckets))


@router.get("/certainty", **answering((PeriodCertainty, Certainty), READING_ONE))
async def certainty_of_period(
    user: Reader,
    parts: Parts,
    vhost: OfVhost,
    since: Annotated[Moment | None, Query(description="From this time on.")] = None,
    until: Annotated[Moment | None, Query(description="Up to this time.")] = None,
) -> Response:
    """Tell how far answers about a period of a virtual host are to be relied on."""
    if since is not None and until is not None and since > until:
        raise BadRequestError("since is after until")
    trace_id = await trace_id_of(vhost, user, parts)
    status = await parts.traces.status(vhost)
    period = await parts.store.periods.of(trace_id, since, until)
    soundness = await parts.store.doubts.between(trace_id, period.first or 0, period.last or 0)
    found = PeriodCertainty(
        vhost=vhost,
        since=since,
        until=until,
        first_event=period.first,
        last_event=period.last,
        gap_count=period.gap_count,
        known_since=_known_since(status, period),
        state=status.state,
        as_of=now(),
    )
    return json_answer(shown(found) | shown(Certainty(period.gaps, soundness)))


def _known_since(status: TraceStatus, period: TracePeriod) -> Microseconds | None:
    """Return the time before which nothing is known: of the oldest event left after a removal."""
    counted = status.counters.published + status.counters.received
    return period.oldest_at if status.events < counted else status.created_at
