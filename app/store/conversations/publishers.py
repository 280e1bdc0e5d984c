"""Publishes of participants that may go on a message they were handed, and do not name it.

Each one's newest events are looked through backwards, up to the first that names no cause: of those
who name nothing that is the first or so, and whoever names everything is known by its numbers.
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

# Of each participant, the newest events that are looked through. If there are more and none of
# these is a publish that names nothing, one before them may be.
MOST_NEWEST = 1_000

_ITS = " FROM events AS e WHERE e.trace_id = :trace AND e.participant = who.number"
_PUBLISHES = (
    f"{_ITS} AND e.height >= who.height AND e.id >= :first"
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
    """The statement of what participants published: each looks no further back than it must."""
    # Who published for what it was handed, and the height of the oldest event that is looked at.
    who = (
        f"WITH who AS MATERIALIZED (SELECT number, {REACTIONS}"  # noqa: S608  our own words
        " AS reactions, explained, spanned,"
        " CASE WHEN reactions + explained + spanned > 0 THEN coalesce((SELECT height FROM events"
        " WHERE trace_id = :trace AND participant = number ORDER BY height DESC"
        f" LIMIT 1 OFFSET {newest - 1}), -1) END AS height"
        " FROM participants WHERE trace_id = :trace AND number IN :numbers)"
    )
    return (
        f"{who} SELECT number, reactions, explained, spanned,"  # noqa: S608  our own words
        f" (SELECT {{listed}} FROM (SELECT e.id{_PUBLISHES}"
        f" ORDER BY e.height DESC LIMIT {publishes + 1}) AS newest),"
        " CASE WHEN reactions > explained + spanned THEN"
        f" (SELECT e.id{_PUBLISHES}{_NAMES_NONE}{{none}} ORDER BY e.height DESC LIMIT 1) END,"
        f" (SELECT e.id{_ITS} AND e.height = who.height) FROM who"
    )


async def publishers_of(
    trace: Roots, events: Collection[ConversationEvent], via: Via
) -> dict[int, PublisherRecord]:
    """The publishes of those who took part in events, since the first of these.

    Along conversations a publish says where it belongs by its keys as well.
    """
    none = _HAS_NO_KEY if via is Via.conversation else ""
    statement = _records(MOST_NEWEST, MOST_PUBLISHES)
    query = text(statement.format(listed=trace.dialect.listed, none=none)).bindparams(
        bindparam("numbers", expanding=True), candidate=int(EdgeKind.candidate)
    )
    asked = {"trace": trace.trace_id, "first": min((each.id for each in events), default=0)}
    found = {}
    for some in chunks(sorted({each.participant for each in events})):
        rows = await trace.connection.execute(query, asked | {"numbers": some})
        for number, reactions, explained, spanned, listed, unnamed, before in rows:
            ids = sorted(map(int, listed.split(",")), reverse=True) if listed else []
            before = before if before and before >= asked["first"] else 0
            unnamed = (unnamed or before) if reactions > explained + spanned else 0
            found[number] = PublisherRecord(
                unnamed,
                reactions,
                explained,
                spanned,
                newest=tuple(ids[:MOST_PUBLISHES]),
                since=ids[MOST_PUBLISHES] if len(ids) > MOST_PUBLISHES else before,
            )
    return found
