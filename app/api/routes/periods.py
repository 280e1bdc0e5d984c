"""Periods of time: how many events each part had, how long messages took, whether all is known."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Query, Response
from pydantic import Field

from app.api.certainty import ListCertainty, certainty_of_list, record_of
from app.api.described import json_answer, returns
from app.api.openapi import READING_ONE, example
from app.api.parameters import Text
from app.api.routes.queries import HEADERS, Filter, Moment, OfVhost, period_of
from app.api.routes.traces import OfVhostOrAll, trace_id_of, trace_of
from app.api.services import Parts
from app.api.signin.auth import Reader
from app.errors import BadRequestError
from app.stored.causality import QueueTraffic
from app.stored.durations import (
    DurationMap,
    SlowOwners,
    UsualOwner,
    map_of,
    slow_owners,
    usual_owners,
)
from app.stored.reading import Histogram, TracePeriod
from model.described import json_of
from model.durations import (
    BY_HOUR,
    Owner,
    OwnerKind,
    OwnerRow,
    compared_periods,
    counted_period,
)
from model.sound import Certainty
from model.times import DAY, HOUR, Microseconds, now

router = APIRouter(tags=["events"], prefix="/itc_db")


class HistogramQuery(Filter):
    """The events to count, and in how fine steps."""

    buckets: Annotated[int, Field(ge=1, le=500)] = Field(
        60, description="Most parts of equal length that the period is divided into."
    )


class PeriodCertainty(msgspec.Struct, frozen=True):
    """The reliability of answers about a period of a virtual host."""

    vhost: str
    since: Microseconds | None
    until: Microseconds | None
    known_since: Annotated[
        Microseconds | None,
        "When the trace was made, or when the oldest event that is still kept was recorded: "
        "nothing is known of the time before.",
    ]
    state: Annotated[str, "That of the trace now."]
    as_of: Microseconds


@router.get("/histogram", **returns((Histogram, ListCertainty), READING_ONE), openapi_extra=HEADERS)
async def count_over_time(
    query: Annotated[HistogramQuery, Query()], user: Reader, parts: Parts
) -> Response:
    """Count events over time, by filter.

    The period is from `since` to `until`, or from the oldest event that is kept to the newest.
    """
    criteria = query.filter_for(user)
    async with parts.searches.turn(user.name, quick=criteria.is_of_times_alone):
        counts = await parts.store.events.over_time(criteria, query.buckets)
    certainty = await certainty_of_list(criteria, parts)
    return json_answer(json_of(counts) | json_of(certainty))


@router.get("/certainty", **returns((PeriodCertainty, TracePeriod, Certainty), READING_ONE))
async def certainty_of_period(
    user: Reader,
    parts: Parts,
    vhost: OfVhost,
    since: Annotated[Moment | None, Query(description="From this time on.")] = None,
    until: Annotated[Moment | None, Query(description="Up to this time.")] = None,
) -> Response:
    """Show how reliable answers about a period of a virtual host are."""
    if since is not None and until is not None and since > until:
        raise BadRequestError("since is after until")
    record = await record_of(await trace_of(vhost, user, parts), since, until, parts)
    state = (await parts.traces.status(vhost)).state
    facts = PeriodCertainty(vhost, since, until, record.begin, state, now())
    return json_answer(json_of(facts) | json_of(record.period) | json_of(record.certainty))


@router.get("/queue", **returns(QueueTraffic, READING_ONE))
async def get_queue(
    user: Reader,
    parts: Parts,
    vhost: OfVhost,
    queue: Annotated[
        Text, Query(description="The queue's name.", openapi_examples=example("orders"))
    ],
) -> Response:
    """Show who publishes to a queue and who takes from it, and what waits there."""
    trace_id = await trace_id_of(vhost, user, parts)
    async with parts.searches.turn(user.name):
        return json_answer(await parts.store.copies.of_queue(trace_id, vhost, queue))


MOST_USUAL = 30
"""Queues, and services, of one answer."""


@router.get("/usual", **returns(list[UsualOwner], READING_ONE))
async def list_usual(
    user: Reader,
    parts: Parts,
    vhost: OfVhost,
    at: Annotated[Moment | None, Query(description="At this time, else now.")] = None,
    queues: Annotated[
        list[Text], Query(max_length=MOST_USUAL, description="Of messages from these queues.")
    ] = [],  # noqa: B006  read only
    services: Annotated[
        list[Text], Query(max_length=MOST_USUAL, description="Of messages to these services.")
    ] = [],  # noqa: B006  read only
) -> Response:
    """Show how long messages usually waited and were handled at a time, before they took longer."""
    trace_id = await trace_id_of(vhost, user, parts)
    moment = now()
    end = min(moment + HOUR, max(moment - BY_HOUR.retention, moment if at is None else at))
    period = counted_period(end - 2 * HOUR, end, moment)
    if period.resolution is BY_HOUR:
        period = counted_period(end - 2 * DAY, end, moment)
    names = {OwnerKind.queue: queues, OwnerKind.service: services}
    owners = [(kind, name) for kind, several in names.items() for name in several]

    async def read() -> dict[Owner, list[OwnerRow]]:
        return {owner: await parts.store.durations.of(trace_id, owner, period) for owner in owners}

    rows = await parts.store.at_once(read)
    return json_answer(await asyncio.to_thread(usual_owners, period, rows))


_BASELINES = {"hour": HOUR, "day": DAY, "week": 7 * DAY}


@router.get("/slow", **returns(SlowOwners, READING_ONE))
async def list_slow(user: Reader, parts: Parts, vhost: OfVhostOrAll = None) -> Response:
    """List the queues and services that became slow in the last hour."""
    traces = await parts.store.traces.list(user.vhosts_to_list(vhost))
    vhosts = {trace.id: trace.vhost for trace in traces}
    moment = now()
    async with parts.searches.turn(user.name):
        durations = await parts.store.durations.recent(vhosts, moment - 2 * HOUR)
        as_of = await parts.store.durations.as_of(vhosts)
        return json_answer(
            await asyncio.to_thread(slow_owners, *durations, vhosts, moment, as_of or moment)
        )


@router.get("/durations", **returns(DurationMap, READING_ONE))
async def get_durations(
    user: Reader,
    parts: Parts,
    vhost: OfVhost,
    queue: Annotated[Text | None, Query(description="Of messages from this queue.")] = None,
    service: Annotated[
        Text | None, Query(description="Of messages to this service, where no queue is named.")
    ] = None,
    since: Annotated[Moment | None, Query(description="From this time on.")] = None,
    until: Annotated[Moment | None, Query(description="Before this time.")] = None,
    baseline: Annotated[
        Literal["hour", "day", "week"],
        Query(description="Compared with the same time this much before."),
    ] = "hour",
) -> Response:
    """Show how long messages waited and were handled over time; by default in the last hour.

    By the minute for the last two days, by the hour for the 35 days before, nothing earlier.
    Without a queue or a service, the answer only lists which there are.
    """
    trace_id = await trace_id_of(vhost, user, parts)
    moment = now()
    begin, end = (
        min(moment + HOUR, max(moment - BY_HOUR.retention, bound))
        for bound in period_of(since, until)
    )
    period = counted_period(begin, end, moment)
    periods = period, *compared_periods(period, _BASELINES[baseline], moment)
    durations = parts.store.durations
    owner = (OwnerKind.service, service or "") if queue is None else (OwnerKind.queue, queue)

    async def read() -> tuple[Any, ...]:
        return (
            await durations.names(trace_id, period.begin, period.end),
            await durations.as_of([trace_id]),
            [await durations.of(trace_id, owner, part) for part in periods],
        )

    names, as_of, rows = await parts.store.at_once(read)
    fields = {"vhost": vhost, "queue": queue, "service": service if queue is None else None}
    fields |= {"as_of": as_of}
    for kind, owners in names.items():
        fields |= {f"{kind.name}s": owners.names, f"other_{kind.name}s": owners.others}
    return json_answer(await asyncio.to_thread(map_of, periods, rows, **fields))
