"""How long messages wait and are handled, over time, and where that became longer."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response

from app.api.described import answering, json_answer
from app.api.openapi import READING_ONE
from app.api.parameters import Text
from app.api.routes.queries import Moment, OfVhost, period_of
from app.api.routes.traces import OfVhostOrAll, trace_id_of
from app.api.services import Parts
from app.api.signin.auth import Reader
from app.stored.durations import DurationMap, SlowOwners, map_of, slow_owners
from model.durations import BY_HOUR, OwnerKind, compared_periods, counted_period
from model.times import DAY, HOUR, now

router = APIRouter(tags=["events"], prefix="/itc_db")

_BASELINES = {"hour": HOUR, "day": DAY, "week": 7 * DAY}


@router.get("/slow", **answering(SlowOwners, READING_ONE))
async def list_slow(user: Reader, parts: Parts, vhost: OfVhostOrAll = None) -> Response:
    """List the queues and services that became slow in the last hour."""
    traces = await parts.store.traces.list(user.listed(vhost))
    vhosts = {each.id: each.vhost for each in traces}
    at = now()
    async with parts.searches.turn(user.name):
        rows = await parts.store.durations.recent(vhosts, at - 2 * HOUR)
        as_of = await parts.store.durations.as_of(vhosts)
        return json_answer(await asyncio.to_thread(slow_owners, rows, vhosts, at, as_of or at))


@router.get("/durations", **answering(DurationMap, READING_ONE))
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

    By the minute within the last two days, by the hour within 35 days before; of what is earlier
    there is nothing. Without a queue or a service it is only said which there are.
    """
    trace_id = await trace_id_of(vhost, user, parts)
    at = now()
    begin, end = (min(at + HOUR, max(at - BY_HOUR.kept, each)) for each in period_of(since, until))
    period = counted_period(begin, end, at)
    periods = period, *compared_periods(period, _BASELINES[baseline], at)
    durations = parts.store.durations
    owner = (OwnerKind.service, service or "") if queue is None else (OwnerKind.queue, queue)

    async def found() -> tuple[Any, ...]:
        return (
            await durations.names(trace_id, period.since, period.until),
            await durations.as_of([trace_id]),
            [await durations.of(trace_id, owner, each) for each in periods],
        )

    names, as_of, rows = await parts.store.at_once(found)
    more = {"vhost": vhost, "queue": queue, "service": service if queue is None else None}
    more |= {"as_of": as_of, **{f"{kind.name}s": names[kind] for kind in OwnerKind}}
    return json_answer(await asyncio.to_thread(map_of, periods, rows, **more))
