"""Topology: who sent what where in a period."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.api.described import answering, json_answer
from app.api.openapi import READING_ONE, WRITING, answers
from app.api.routes.queries import Moment, OfVhost
from app.api.routes.submitting import ACCEPTED, Prefer, submitted
from app.api.services import Parts
from app.api.signin.auth import Reader, Writer
from app.errors import NotFoundError
from app.stored.jobs import Json
from model.times import microseconds_of
from model.topology import Topology

router = APIRouter(tags=["topology"], prefix="/itc_db/topology")

_PERIOD = 3_600_000_000  # µs, counted by default

Since = Annotated[Moment | None, Query(description="Counted from this time on.")]
Until = Annotated[Moment | None, Query(description="Counted before this time.")]


@router.put("", **answering(Topology, WRITING | answers(500) | ACCEPTED, status=201))
async def count_topology(
    user: Writer,
    parts: Parts,
    prefer: Prefer,
    vhost: OfVhost,
    since: Since = None,
    until: Until = None,
) -> Response:
    """Count who sends what where, as a job; by default in the last hour."""
    user.must_see(vhost, "trace")
    if await parts.store.traces.find(vhost) is None:
        raise NotFoundError("no such trace")
    end = time.time_ns() // 1_000 if until is None else microseconds_of(until)
    start = max(0, end - _PERIOD) if since is None else microseconds_of(since)
    request = parts.topologies.request(vhost, start, end, user.name)
    # Before the job, because not every client waits for its end.
    await asyncio.to_thread(parts.topologies.forget_old, vhost)

    async def answer(result: Json) -> Response:
        return json_answer(await asyncio.to_thread(parts.topologies.get, vhost, start, end), 201)

    return await submitted(request, prefer, parts, answer)


@router.get("", **answering(Topology, READING_ONE))
async def get_topology(
    user: Reader, parts: Parts, vhost: OfVhost, since: Since = None, until: Until = None
) -> Response:
    """Give what was counted for a period, or last."""
    user.must_see(vhost, "trace")
    bounds = (None if bound is None else microseconds_of(bound) for bound in (since, until))
    return json_answer(await asyncio.to_thread(parts.topologies.get, vhost, *bounds))
