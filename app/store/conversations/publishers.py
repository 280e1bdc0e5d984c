"""Publishes of participants that name no cause: each may go on any message that they were handed.

Each one's newest events are looked through backwards, up to the first such publish: of those who
name nothing that is the first or so, and whoever names everything is known by its numbers.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import exists, func, literal_column, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.database import tables
from app.store.database.searched import is_conversation
from model.conversations import PublisherRecord
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
        unnamed = 0
        if reactions > explained + spanned:
            unnamed = await _last_unnamed(connection, trace_id, number, via)
        found[number] = PublisherRecord(unnamed, reactions, explained, spanned)
    return found


async def _last_unnamed(
    connection: AsyncConnection, trace_id: int, participant: int, via: Via
) -> int:
    events, edges, keys = tables.events.c, tables.edges.c, tables.keys.c
    newest = (
        select(events.id, events.type, events.quiet)
        .where(events.trace_id == trace_id, events.participant == participant)
        .order_by(events.height.desc())
        .limit(MOST_NEWEST)
        .subquery()
    )
    its = newest.c
    named = exists().where(edges.effect_id == its.id, edges.kind != int(EdgeKind.candidate))
    conditions = [its.type == int(EventType.published), ~its.quiet, ~named]
    if via is Via.conversation:
        shares = exists().where(
            keys.trace_id == trace_id, keys.event_id == its.id, is_conversation(keys.roles)
        )
        conditions.append(~shares)
    last = select(func.max(its.id)).where(*conditions)
    found = (await connection.execute(last)).scalar()
    if found is not None:
        return int(found)
    oldest, count = (await connection.execute(select(func.min(its.id), func.count()))).one()
    return int(oldest) if count == MOST_NEWEST else 0
