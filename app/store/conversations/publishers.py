"""For a conversation's outcome: publishes that may react to a delivery, and do not name it.

Each participant's newest events are read backwards, up to the first publish without a cause. A
participant that names nothing has one at once; one that names everything is known by its numbers.

A publish that begins a conversation of its own is no reaction, though its participant has received
something before. It goes where its participant published to before it had received anything at all,
so it needs no cause; and it is the first message with its conversation's key, or has none, and its
participant publishes there without a cause again and again, of its newest events.

A publish that names its cause is of that one's conversation, and of no other; along keys, so is one
with a key of an earlier message. A participant that published nothing else since a delivery went on
with others.
"""

from __future__ import annotations

import functools
from collections.abc import Collection

from sqlalchemy import bindparam, text

from app.store.conversations.roots import Roots
from app.store.database.chunks import chunks
from model.conversations.consumers import MOST_PUBLISHES, PublisherRecord
from model.happened import ConversationEvent
from model.sound import Evidence
from model.words import EdgeKind, EventType, Via
from statements import MAY_BE_HALF, REACTIONS

# Events of each participant that are read, the newest. If none of these is a publish without a
# cause, an older one may be.
MOST_NEWEST = 1_000

# A participant's first events, which tell what it begins; and publishes that are again and again.
MOST_FIRST, MANY = 64, 3

_OWN_EVENTS = " FROM events AS e WHERE e.trace_id = :trace AND e.participant = who.number"
_NEWEST = (
    f"{_OWN_EVENTS} AND e.height >= who.recent"
    f" AND e.type = {int(EventType.published)} AND NOT e.quiet"
)
_PUBLISHES = f"{_NEWEST} AND e.id >= :first AND who.reactions > 0"
_NAMES_NONE = (
    " AND NOT EXISTS (SELECT 1 FROM edges"
    " WHERE edges.effect_id = e.id AND edges.kind <> :candidate)"
)
_KEYS = (  # our own words, as in all that follows
    "FROM keys WHERE keys.trace_id = :trace AND keys.event_id = e.id"
    " AND (keys.roles & 1) <> 0"  # `is_conversation`, for its index
)
_HAS_NO_KEY = f" AND NOT EXISTS (SELECT 1 {_KEYS})"
_HAS_OLD_KEY = (
    f"EXISTS (SELECT 1 FROM (SELECT keys.key {_KEYS}) AS own JOIN searched_keys AS k"  # noqa: S608
    " ON k.trace_id = :trace AND k.key = own.key AND (k.roles & 1) = 1 AND k.event_id < e.id)"
)
_LIKE_IT = (
    " FROM events AS f WHERE f.trace_id = :trace AND f.participant = who.number"
    f" AND f.type = {int(EventType.published)} AND NOT f.quiet"
    " AND f.exchange = e.exchange AND f.routing_keys = e.routing_keys"
)
_IS_REACTION = (
    " AND (EXISTS (SELECT 1 FROM edges"  # noqa: S608
    " WHERE edges.effect_id = e.id AND edges.kind <> :candidate)"
    f" OR NOT EXISTS (SELECT 1{_LIKE_IT} AND f.height < who.aware) OR {_HAS_OLD_KEY}"
    f" OR (NOT EXISTS (SELECT 1 {_KEYS}) AND (SELECT count(*) FROM (SELECT 1{_LIKE_IT}"
    " AND f.height >= who.recent AND NOT EXISTS (SELECT 1 FROM edges WHERE edges.effect_id = f.id"
    f" AND edges.kind <> :candidate) LIMIT {MANY}) AS again) < {MANY}))"
)
_FIRST_EVENTS = (
    "(SELECT height, seq, type, quiet FROM events"  # noqa: S608
    " WHERE trace_id = :trace AND participant = number"
    f" ORDER BY height LIMIT {MOST_FIRST}) AS earliest"
)
# The height before which a participant had received nothing; -1 where its first event is gone.
_AWARE = (
    f"CASE WHEN (SELECT min(seq) FROM {_FIRST_EVENTS}) = 1 THEN coalesce("  # noqa: S608
    f"(SELECT min(height) FROM {_FIRST_EVENTS}"
    f" WHERE type = {int(EventType.received)} AND NOT quiet),"
    f" (SELECT max(height) + 1 FROM {_FIRST_EVENTS})) ELSE -1 END"
)


@functools.cache
def _records(newest: int, publishes: int) -> str:
    """The SQL that reads each participant's publishes, no further back than needed."""
    # Participants, and the height of the oldest event that is read.
    statement = (
        f"WITH who AS MATERIALIZED (SELECT number, {REACTIONS}"  # noqa: S608  our own words
        " AS reactions, explained, spanned,"
        " coalesce((SELECT height FROM events"
        " WHERE trace_id = :trace AND participant = number ORDER BY height DESC"
        f" LIMIT 1 OFFSET {newest - 1}), -1) AS recent, {_AWARE} AS aware,"
        f" {MAY_BE_HALF} AS may_be_half"
        " FROM participants WHERE trace_id = :trace AND number IN :numbers)"
    )
    return (
        f"{statement} SELECT number, reactions, explained, spanned,"  # noqa: S608  our own words
        f" CASE WHEN :by_keys THEN (SELECT e.id{_PUBLISHES}{_NAMES_NONE} AND NOT {_HAS_OLD_KEY}"
        f"{_IS_REACTION} ORDER BY e.height DESC LIMIT 1) END,"
        f" (SELECT {{listed}} FROM (SELECT e.id{_PUBLISHES}{_IS_REACTION}"
        f" ORDER BY e.height DESC LIMIT {publishes + 1}) AS newest),"
        " CASE WHEN reactions > explained + spanned THEN"
        f" (SELECT e.id{_PUBLISHES}{_NAMES_NONE}{_IS_REACTION}{{none}}"
        " ORDER BY e.height DESC LIMIT 1) END,"
        f" (SELECT e.id{_OWN_EVENTS} AND e.height = who.recent AND who.reactions > 0),"
        f" explained + spanned = 0 AND EXISTS (SELECT 1{_NEWEST})"
        f" AND NOT EXISTS (SELECT 1 FROM (SELECT e.*{_NEWEST}"
        f" ORDER BY e.height DESC LIMIT {MOST_FIRST}) AS e WHERE 1 = 1{_IS_REACTION}),"
        " may_be_half FROM who"
    )


async def publishers_of(
    trace: Roots, events: Collection[ConversationEvent], via: Via
) -> dict[int, PublisherRecord]:
    """For each participant in these events, what it published since the first of them."""
    # Along conversations keys, too, say where a publish belongs.
    by_keys = via is Via.conversation
    without_key = _HAS_NO_KEY if by_keys else ""
    statement = _records(MOST_NEWEST, MOST_PUBLISHES)
    query = text(statement.format(listed=trace.dialect.listed, none=without_key)).bindparams(
        bindparam("numbers", expanding=True), candidate=int(EdgeKind.candidate)
    )
    first = min((event.id for event in events), default=0)
    binds = {"trace": trace.trace_id, "first": first, "by_keys": by_keys}
    records = {}
    for chunk in chunks(sorted({event.participant for event in events})):
        rows = await trace.connection.execute(query, binds | {"numbers": chunk})
        for number, reactions, explained, spanned, unexplained, listed, *rest in rows:
            unnamed, oldest, only_begins, may_be_half = rest
            evidence = Evidence(reactions=reactions, explained=explained, spanned=spanned)
            ids = sorted(map(int, listed.split(",")), reverse=True) if listed else []
            oldest = oldest if oldest and oldest >= binds["first"] else 0
            is_explained = evidence.reactions <= evidence.explained + evidence.spanned
            unnamed = 0 if is_explained else unnamed or oldest
            records[number] = PublisherRecord(
                unnamed,
                evidence,
                newest=tuple(ids[:MOST_PUBLISHES]),
                unexplained=(unexplained or oldest) if by_keys else unnamed,
                cutoff=ids[MOST_PUBLISHES] if len(ids) > MOST_PUBLISHES else oldest,
                only_begins=bool(only_begins),
                may_be_half=bool(may_be_half),
            )
    return records
