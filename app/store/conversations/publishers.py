"""Publishes that may be reactions to a delivery, and do not name it.

Each participant's newest events are read backwards, up to the first publish without a cause. A
participant that names nothing has one at once; one that names everything is known by its numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Collection

from sqlalchemy import bindparam, text

from app.store.conversations.roots import Roots
from app.store.database.chunks import chunks
from model.conversations import MOST_PUBLISHES, PublisherRecord
from model.happened import ConversationEvent
from model.words import EdgeKind, EventType, Via
from statements import REACTIONS

# Events of each participant that are read, the newest. If none of these is a publish without a
# cause, an older one may be.
MOST_NEWEST = 1_000

_OWN_EVENTS = " FROM events AS e WHERE e.trace_id = :trace AND e.participant = who.number"
_PUBLISHES = (
    f"{_OWN_EVENTS} AND e.height >= who.height AND e.id >= :first"
    f" AND e.type = {int(EventType.published)} AND NOT e.quiet"
)
_NAMES_NONE = (
    " AND NOT EXISTS (SELECT 1 FROM edges"
    " WHERE edges.effect_id = e.id AND edges.kind <> :candidate)"
)
_HAS_NO_KEY = (
    " AND NOT EXISTS (SELECT 1 FROM keys WHERE keys.trace_id = :trace AND keys.event_id = e.id"
    " AND (keys.roles & 1) <> 0)"  # `is_conversation`, for its index
)


@functools.cache
def _records(newest: int, publishes: int) -> str:
    """The statement of participants' publishes, each read no further back than it must be."""
    # Participants with reactions, and the height of the oldest event that is read.
    statement = (
        f"WITH who AS MATERIALIZED (SELECT number, {REACTIONS}"  # noqa: S608  our own words
        " AS reactions, explained, spanned,"
        " CASE WHEN reactions + explained + spanned > 0 THEN coalesce((SELECT height FROM events"
        " WHERE trace_id = :trace AND participant = number ORDER BY height DESC"
        f" LIMIT 1 OFFSET {newest - 1}), -1) END AS height"
        " FROM participants WHERE trace_id = :trace AND number IN :numbers)"
    )
    return (
        f"{statement} SELECT number, reactions, explained, spanned,"  # noqa: S608  our own words
        f" (SELECT {{listed}} FROM (SELECT e.id{_PUBLISHES}"
        f" ORDER BY e.height DESC LIMIT {publishes + 1}) AS newest),"
        " CASE WHEN reactions > explained + spanned THEN"
        f" (SELECT e.id{_PUBLISHES}{_NAMES_NONE}{{none}} ORDER BY e.height DESC LIMIT 1) END,"
        f" (SELECT e.id{_OWN_EVENTS} AND e.height = who.height) FROM who"
    )


async def publishers_of(
    trace: Roots, events: Collection[ConversationEvent], via: Via
) -> dict[int, PublisherRecord]:
    """The publishes since the first of these events, by the participants of all."""
    # Along conversations keys, too, say where a publish belongs.
    without_key = _HAS_NO_KEY if via is Via.conversation else ""
    statement = _records(MOST_NEWEST, MOST_PUBLISHES)
    query = text(statement.format(listed=trace.dialect.listed, none=without_key)).bindparams(
        bindparam("numbers", expanding=True), candidate=int(EdgeKind.candidate)
    )
    binds = {"trace": trace.trace_id, "first": min((event.id for event in events), default=0)}
    records = {}
    for chunk in chunks(sorted({event.participant for event in events})):
        rows = await trace.connection.execute(query, binds | {"numbers": chunk})
        for number, reactions, explained, spanned, listed, unnamed, oldest in rows:
            ids = sorted(map(int, listed.split(",")), reverse=True) if listed else []
            oldest = oldest if oldest and oldest >= binds["first"] else 0
            unnamed = (unnamed or oldest) if reactions > explained + spanned else 0
            records[number] = PublisherRecord(
                unnamed,
                reactions,
                explained,
                spanned,
                newest=tuple(ids[:MOST_PUBLISHES]),
                cutoff=ids[MOST_PUBLISHES] if len(ids) > MOST_PUBLISHES else oldest,
            )
    return records
