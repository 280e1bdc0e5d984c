"""Traces: start, look, stop; who took part."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Annotated

import msgspec
from fastapi import APIRouter, Path, Query, Request, Response

from app.api.described import json_answer, returns
from app.api.openapi import READING, READING_ONE, WITH_BODY, WRITING, example, put, put_route
from app.api.parameters import Name, Text
from app.api.routes.bodies import AliasRequest, TraceRequest, body_of, check_words, json_body
from app.api.routes.queries import OfVhost
from app.api.services import Parts
from app.api.signin.auth import Reader, User, Writer
from app.errors import BadRequestError, NotTracedError
from app.stored.capture import Quarantined, Trace
from app.stored.causality import CopiesInHand
from app.stored.reading import EventFilter, Participant
from app.traces.life import TraceState
from app.traces.status import TraceStatus
from model.event import NOTHING_LARGE
from model.times import now

router = APIRouter(tags=["traces"])

ONE_TRACE = "/itc_db/{vhost}/undefined/undefined/undefined"

Vhost = Annotated[
    Name, Path(description="A virtual host's name, percent-encoded.", openapi_examples=example("/"))
]

OfVhostOrAll = Annotated[Text | None, Query(description="Only of this virtual host.")]

Limit = Annotated[int, Query(ge=1, le=1_000, description="Most in one answer.")]


@router.put(
    ONE_TRACE,
    **put_route(
        "It is started, or goes on by other rules.",
        "It runs already, or was reset.",
        body_of(TraceRequest, required=False),
    ),
)
async def start_trace(vhost: Vhost, user: Writer, parts: Parts, request: Request) -> Response:
    """Start capturing a virtual host."""
    wish = await json_body(request, TraceRequest)
    check_words(wish, request)
    user.must_see(vhost)
    if wish is not None and wish.reset:
        await parts.traces.upkeep.reset(vhost)
        return put(False)
    wish = wish or TraceRequest()
    created = await parts.traces.start(
        vhost,
        wish.participant,
        wish.quiet,
        bodies=wish.bodies,
        exchanges=wish.exchanges,
        queues=wish.queues,
        later=wish.later,
    )
    return put(created)


@router.get(ONE_TRACE, **returns(TraceStatus, READING_ONE))
async def get_trace(vhost: Vhost, user: Reader, parts: Parts) -> Response:
    """The state of a virtual host's trace."""
    user.must_see(vhost)
    return json_answer(await parts.traces.status(vhost))


@router.delete(ONE_TRACE, status_code=204, responses=WRITING)
async def stop_trace(vhost: Vhost, user: Writer, parts: Parts) -> None:
    """Stop capturing a virtual host. Its events stay."""
    user.must_see(vhost)
    await parts.traces.stop(vhost)


@router.get("/itc_db/traces", **returns(list[TraceStatus], READING))
async def list_traces(user: Reader, parts: Parts) -> Response:
    """List the traces that the user may see."""
    return json_answer(await visible_traces(user, parts))


async def visible_traces(user: User, parts: Parts) -> list[TraceStatus]:
    return [status for status in await parts.traces.statuses() if user.sees(status.vhost)]


@router.get("/itc_db/in_hand", **returns(CopiesInHand, READING))
async def get_in_hand(user: Reader, parts: Parts, vhost: OfVhostOrAll = None) -> Response:
    """List messages that consumers hold now, in running traces, as the broker plugin reports."""
    return json_answer(await copies_in_hand(await visible_traces(user, parts), parts, vhost))


async def copies_in_hand(
    statuses: Iterable[TraceStatus], parts: Parts, vhost: str | None = None
) -> CopiesInHand:
    """Copies that consumers hold; unknown for traces that do not run."""
    running = [status.vhost for status in statuses if status.state is TraceState.running]
    vhosts = [name for name in running if vhost in (None, name)]
    return await parts.store.copies.in_hand(vhosts, moment=now())


class PruneResult(msgspec.Struct, frozen=True):
    """Counts of removed rows, or of rows to remove; participants are those without events left."""

    vhost: str
    events: int
    participants: int
    dry_run: bool


@router.delete("/itc_db", **returns(PruneResult, WRITING))
async def prune_events(
    user: Writer,
    parts: Parts,
    vhost: OfVhost,
    keep_events: Annotated[
        int | None,
        Query(
            ge=1,
            le=2**31 - 1,
            description="How many of the newest events stay.",
            openapi_examples=example(1_000),
        ),
    ] = None,
    keep_days: Annotated[
        float | None, Query(gt=0, le=36_600, description="Events younger than this many days stay.")
    ] = None,
    archived: Annotated[bool, Query(description="Only remove what is archived.")] = False,
    dry_run: Annotated[bool, Query(description="Only say what would be removed.")] = False,
) -> Response:
    """Remove a trace's oldest events; without a bound, as its retention would."""
    user.must_see(vhost)
    last_id = await _last_archived(vhost, parts) if archived else None
    pruned = await parts.traces.upkeep.prune(
        vhost,
        keep_events=keep_events,
        keep_seconds=None if keep_days is None else keep_days * 86_400,
        through=last_id,
        dry_run=dry_run,
    )
    return json_answer(PruneResult(vhost, pruned.events, pruned.participants, dry_run))


async def _last_archived(vhost: str, parts: Parts) -> int:
    """The id up to which a virtual host's events are archived, checked against the stored ones.

    Raises `NotFoundError` if nothing is archived, `ConflictError` if the archive is damaged or
    belongs to another store.
    """
    last_id = await asyncio.to_thread(parts.folders.archives.through, vhost)
    events = await parts.store.events.find(
        EventFilter(vhost=vhost), before=last_id + 1, limit=1, large=NOTHING_LARGE
    )
    newest = next(((event.id, event.recorded_at) for event in events.items), None)
    return await asyncio.to_thread(parts.folders.archives.prunable, vhost, newest)


@router.get("/itc_db/participants", **returns(list[Participant], READING_ONE))
async def list_participants(
    user: Reader,
    parts: Parts,
    vhost: OfVhost,
    before: Annotated[
        int | None, Query(ge=1, le=2**63 - 1, description="Only those last seen before this event.")
    ] = None,
    limit: Limit = 1_000,
) -> Response:
    """List the participants of a virtual host's trace, the most recently active first."""
    trace_id = await trace_id_of(vhost, user, parts)
    participants = await parts.store.participants.list(trace_id, before_id=before, limit=limit)
    return json_answer([*participants])


ONE_PARTICIPANT = "/itc_db/participants/{vhost}/{participant}"

Number = Annotated[
    int,
    Path(ge=1, le=2**31 - 1, description="A participant's number.", openapi_examples=example(1)),
]


@router.put(
    ONE_PARTICIPANT,
    status_code=204,
    responses={**WRITING, **WITH_BODY},
    openapi_extra=body_of(AliasRequest),
)
async def give_alias(
    vhost: Vhost, participant: Number, user: Writer, parts: Parts, request: Request
) -> None:
    """Set an alias that is shown instead of a participant's own name."""
    trace_id = await trace_id_of(vhost, user, parts)
    wish = await json_body(request, AliasRequest)
    if wish is None:
        raise BadRequestError('the body says the alias: {"alias": "Orders"}')
    await parts.store.aliases.give(trace_id, participant, wish.alias)


@router.delete(ONE_PARTICIPANT, status_code=204, responses=WRITING)
async def take_alias_back(vhost: Vhost, participant: Number, user: Writer, parts: Parts) -> None:
    """Remove a participant's alias, so that its own name is shown again."""
    trace_id = await trace_id_of(vhost, user, parts)
    await parts.store.aliases.take_back(trace_id, participant)


async def trace_id_of(vhost: str, user: User, parts: Parts) -> int:
    return (await trace_of(vhost, user, parts)).id


async def trace_of(vhost: str, user: User, parts: Parts) -> Trace:
    """A virtual host's trace; raises `NotFoundError`, also for one that the user may not see."""
    user.must_see(vhost)
    trace = await parts.store.traces.find(vhost)
    if trace is None:
        raise NotTracedError(vhost)
    return trace


@router.get("/itc_db/quarantine", **returns(list[Quarantined], READING_ONE))
async def list_quarantine(
    user: Reader,
    parts: Parts,
    vhost: Annotated[Text | None, Query(description="Of this virtual host.")] = None,
    before: Annotated[
        int | None, Query(ge=1, le=2**31 - 1, description="Only those before this id, for more.")
    ] = None,
    limit: Limit = 100,
) -> Response:
    """Trace messages that could not be read, newest first."""
    messages = await parts.store.quarantine.newest(
        user.vhosts_to_list(vhost), before_id=before, limit=limit
    )
    return json_answer(
        [
            message if user.content.cover(message.vhost) else message.without_content()
            for message in messages
        ]
    )
