"""Remedies for dead letters: the command that puts each back, or the publish that did."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.database import tables
from app.store.database.chunks import chunks, rows_with
from app.store.reading.events import list_by_ids
from app.store.reading.messages import words_of
from app.stored.failures import Failure, FailureKind
from model.event import Event, Large
from model.remedies import AdminTool, remedy_of
from model.words import EdgeKind

_events, _edges = tables.events.c, tables.edges.c
_LARGE: Large = frozenset({"properties", "payload"})


async def with_remedies(
    connection: AsyncConnection,
    failures: Sequence[Failure],
    may_read: Callable[[str], bool],
    tool: AdminTool,
) -> list[Failure]:
    """The failures with remedies; these hold messages, for whoever may read them."""
    dead = [item for item in failures if item.kind is FailureKind.died and item.queue]
    publishes = await _puts_back(connection, dead)
    open_ids = [item.event for item in dead if (item.event, item.queue) not in publishes]
    letters: dict[int, Event] = {}
    for ids in chunks(open_ids):
        letters |= {e.id: e for e in (await list_by_ids(connection, ids, _LARGE)).items}
    return [_with_remedy(item, letters, publishes, may_read, tool) for item in failures]


def _with_remedy(
    failure: Failure,
    letters: Mapping[int, Event],
    publishes: Mapping[tuple[int, str | None], int],
    may_read: Callable[[str], bool],
    tool: AdminTool,
) -> Failure:
    put_back = publishes.get((failure.event, failure.queue))
    letter = letters.get(failure.event)
    if put_back is not None or failure.queue is None:
        return replace(failure, put_back=put_back)
    if letter is None or failure.kind is not FailureKind.died or not may_read(failure.vhost):
        return failure
    body = letter.payload if letter.payload_bytes else b""
    is_whole = body is not None and len(body) == letter.payload_bytes
    whole_body = body if is_whole else None
    command = remedy_of(failure.vhost, failure.queue, letter.properties, whole_body, tool)
    return replace(failure, remedy=command)


async def _puts_back(
    connection: AsyncConnection, dead: Iterable[Failure]
) -> dict[tuple[int, str | None], int]:
    """The first publish of each dead letter into the queue where it died, by event and queue."""
    named = {item.message or item.event for item in dead} | {item.event for item in dead}
    query = (
        select(_edges.cause_id, _events.id, _events.routed_queues)
        .join_from(tables.edges, tables.events, _events.id == _edges.effect_id)
        .where(_edges.kind == EdgeKind.forward, _edges.trace_id == _events.trace_id)
    )
    puts: dict[int, list[tuple[int, Sequence[str]]]] = {}
    for cause, effect, queues in await rows_with(connection, query, _edges.cause_id, named):
        puts.setdefault(cause, []).append((effect, words_of(queues or "[]")))
    found = {}
    for item in dead:
        effects = [*puts.get(item.event, ()), *puts.get(item.message or item.event, ())]
        after = [id for id, queues in effects if id > item.event and item.queue in queues]
        if after:
            found[item.event, item.queue] = min(after)
    return found
