"""Topology: who sent what where in a period."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.api.described import answering, json_answer
from app.api.openapi import READING_ONE
from app.api.routes.queries import Moment, OfVhost, period_of
from app.api.routes.submitting import MAKING, Asking
from app.api.routes.traces import trace_id_of
from app.api.services import Parts
from app.api.signin.auth import Reader
from model.topology import Topology

router = APIRouter(tags=["topology"], prefix="/itc_db/topology")

Since = Annotated[Moment | None, Query(description="Counted from this time on.")]
Until = Annotated[Moment | None, Query(description="Counted before this time.")]


@router.put("", **answering(Topology, MAKING, status=201))
async def count_topology(
    asker: Asking, vhost: OfVhost, since: Since = None, until: Until = None
) -> Response:
    """Count who sends what where, as a job; by default in the last hour."""
    await trace_id_of(vhost, asker.user, asker.parts)
    topologies, period = asker.parts.folders.topologies, period_of(since, until)
    request = topologies.request(vhost, *period, asker.user.name)
    return await asker.submit(request, topologies, lambda result: topologies.get(vhost, *period))


@router.get("", **answering(Topology, READING_ONE))
async def get_topology(
    user: Reader, parts: Parts, vhost: OfVhost, since: Since = None, until: Until = None
) -> Response:
    """Give what was counted for a period, or last."""
    user.must_see(vhost)
    get = parts.folders.topologies.get
    return json_answer(await asyncio.to_thread(get, vhost, since, until))
