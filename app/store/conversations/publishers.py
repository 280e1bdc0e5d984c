"""Publishes of participants that may go on a message they were handed, and do not name it.

Each one's newest events are looked through backwards, up to the first that names no cause: of those
who name nothing that is the first or so, and whoever names everything is known by its numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import exists, func, literal_column, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from app.store.database import tables
from app.store.database.searched import is_conversation
from model.conversations import MOST_PUBLISHES, PublisherRecord
from model.words import EdgeKind, EventType, Via
from spark_jobs.statements import REACTIONS

# Of each participant, the newest events that are looked through. If there are more and none of
# these is a publish that names nothing, one before them may be.
MOST_NEWEST = 1_000


async def publishers_of(
    connection: AsyncConnection, trace_id: int, participants: Iterable[int], via: Via
) -> dict[int, PublisherRecord]:
    """The publishes of participants, by what they say of their causes.

    Along conversations a publish says where it belongs by its keys as well.
    """
    who = tables.participants.c
    query = select(who.number, literal_column(REACTIONS), who.explained, who.spanned).where(
        who.trace_id == trace_id, who.number.in_(sorted(set(participants)))
    )
    found = {}
    for number, reactions, explained, spanned in (await connection.execute(query)).all():
        record = PublisherRecord(0, reactions, explained, spanned)
        if reactions > explained + spanned:
            unnamed = await _last_unnamed(connection, trace_id, number, via)
            record = record._replace(unnamed=unnamed)
        if reactions:
            newest, since = await _newest(connection, trace_id, number)
            record = record._replace(newest=newest, since=since)
        found[number] = record
    return found


async def _newest(
    connection: AsyncConnection, trace_id: int, participant: int
) -> tuple[tuple[int, ...], int]:
    """A participant's last publishes, and the event after which they are all that there are."""
    its = _newest_of(trace_id, participant)
    published = (
        select(its.id)
        .where(its.type == int(EventType.published), ~its.quiet)
        .order_by(its.id.desc())
        .limit(MOST_PUBLISHES + 1)
    )
    ids = [int(each) for each in (await connection.execute(published)).scalars()]
    if len(ids) > MOST_PUBLISHES:
        return tuple(ids[:MOST_PUBLISHES]), ids[MOST_PUBLISHES]
    return tuple(ids), await _before_newest(connection, its)


def _newest_of(trace_id: int, participant: int) -> ReadOnlyColumnCollection[str, Any]:
    """The columns of its newest events, as many as are looked through."""
    events = tables.events.c
    return (
        select(events.id, events.type, events.quiet)
        .where(events.trace_id == trace_id, events.participant == participant)
        .order_by(events.height.desc())
        .limit(MOST_NEWEST)
        .subquery()
        .c
    )


async def _before_newest(
    connection: AsyncConnection, newest: ReadOnlyColumnCollection[str, Any]
) -> int:
    """The oldest of a participant's newest events if there may be more; 0 if these are all."""
    looked = select(func.min(newest.id), func.count())
    oldest, count = (await connection.execute(looked)).one()
    return int(oldest) if count == MOST_NEWEST else 0


async def _last_unnamed(
    connection: AsyncConnection, trace_id: int, participant: int, via: Via
) -> int:
    edges, keys = tables.edges.c, tables.keys.c
    its = _newest_of(trace_id, participant)
    named = exists().where(edges.effect_id == its.id, edges.kind != int(EdgeKind.candidate))
    conditions = [its.type == int(EventType.published), ~its.quiet, ~named]
    if via is Via.conversation:
        shares = exists().where(
            keys.trace_id == trace_id, keys.event_id == its.id, is_conversation(keys.roles)
        )
        conditions.append(~shares)
    last = select(func.max(its.id)).where(*conditions)
    found = (await connection.execute(last)).scalar()
    return int(found) if found is not None else await _before_newest(connection, its)
