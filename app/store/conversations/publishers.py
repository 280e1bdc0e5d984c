"""Publishes of participants that may go on a message they were handed, and do not name it.

Each one's newest events are looked through backwards, up to the first that names no cause: of those
who name nothing that is the first or so, and whoever names everything is known by its numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import ColumnElement, Row, Select, and_, exists, literal_column, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.database import tables
from app.store.database.searched import is_conversation
from model.conversations import MOST_PUBLISHES, PublisherRecord
from model.happened import ConversationEvent
from model.words import EdgeKind, EventType, Via
from spark_jobs.statements import REACTIONS

# Of each participant, the newest events that are looked through. If there are more and none of
# these is a publish that names nothing, one before them may be.
MOST_NEWEST = 1_000


async def publishers_of(
    connection: AsyncConnection, trace_id: int, events: Collection[ConversationEvent], via: Via
) -> dict[int, PublisherRecord]:
    """The publishes of those who took part in events, since the first of these.

    Along conversations a publish says where it belongs by its keys as well.
    """
    participants = {each.participant for each in events}
    first = min((each.id for each in events), default=0)
    who = tables.participants.c
    query = select(who.number, literal_column(REACTIONS), who.explained, who.spanned).where(
        who.trace_id == trace_id, who.number.in_(sorted(participants))
    )
    found = {}
    for number, reactions, explained, spanned in (await connection.execute(query)).all():
        record = PublisherRecord(0, reactions, explained, spanned)
        if reactions:
            newest = (await connection.execute(_newest_of(trace_id, number, first, via))).all()
            record = _with_newest(newest, record)
        found[number] = record
    return found


def _with_newest(
    newest: Sequence[Row[tuple[int, bool, bool]]], record: PublisherRecord
) -> PublisherRecord:
    """What a participant's newest events say: its last publishes, and the last that is unnamed."""
    before = int(newest[-1].id) if len(newest) == MOST_NEWEST else 0
    published = [each for each in newest if each.is_published]
    ids = tuple(int(each.id) for each in published[: MOST_PUBLISHES + 1])
    unnamed = 0
    if record.reactions > record.explained + record.spanned:
        unnamed = next((int(each.id) for each in published if not each.is_named), before)
    return record._replace(
        unnamed=unnamed,
        newest=ids[:MOST_PUBLISHES],
        since=ids[MOST_PUBLISHES] if len(ids) > MOST_PUBLISHES else before,
    )


def _newest_of(
    trace_id: int, participant: int, first: int, via: Via
) -> Select[tuple[int, bool, bool]]:
    """Of its newest events those since one, and whether each publish names a cause."""
    events, edges, keys = tables.events.c, tables.edges.c, tables.keys.c
    is_published = and_(events.type == int(EventType.published), ~events.quiet)
    names = exists().where(edges.effect_id == events.id, edges.kind != int(EdgeKind.candidate))
    is_named: ColumnElement[bool] = names
    if via is Via.conversation:
        shares = exists().where(
            keys.trace_id == trace_id, keys.event_id == events.id, is_conversation(keys.roles)
        )
        is_named = or_(names, shares)
    newest = (
        select(events.id)
        .where(events.trace_id == trace_id, events.participant == participant)
        .order_by(events.height.desc())
        .limit(MOST_NEWEST)
        .subquery()
    )
    return (
        select(
            events.id,
            is_published.label("is_published"),
            and_(is_published, is_named).label("is_named"),
        )
        .join_from(newest, tables.events, events.id == newest.c.id)
        .where(newest.c.id >= first)
        .order_by(newest.c.id.desc())
    )
