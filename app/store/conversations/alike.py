"""Messages that nobody can tell apart: equal ones that were handed over from the same queue.

The broker gives messages no number. What a delivery's publish was is found by what they have in
common, and among equal messages in one queue first in, first out: which of them it was that died is
then not known. There is no index of what makes messages equal. Those with a message id are equal
only to others with that id, which there is an index of; the others are compared with what came
shortly before them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from sqlalchemy import LargeBinary, bindparam, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.capture import keys
from app.store.database.chunks import chunks
from app.store.reading.events import MAX_ID
from app.tracker.links.rules import MESSAGE_ID, search_key
from model.words import Match

# How many events before its publish a message without an id is compared with, and how many all of
# those that are asked about together.
BEFORE = 1_000
MOST_COMPARED = 20_000
# Nobody looks through the messages of an id that more than this many have.
MOST_ALIKE = 100

# How many events have each of some keys, up to a few.
_SHARING = (
    "WITH wanted (key) AS (VALUES {keys}) SELECT wanted.key, (SELECT count(*) FROM"
    " (SELECT 1 FROM searched_keys AS other WHERE other.trace_id = :trace"
    " AND other.key = wanted.key LIMIT :most) AS counted) AS alike FROM wanted"
)
# Deliveries of some ids' messages: of those whose publish is not known they are by themselves.
_OF_IDS = text(
    "SELECT each.id, each.cause_id, each.queue, each.participant, each.fingerprint"
    " FROM searched_keys AS keys JOIN events AS each ON each.cause_id = keys.event_id"
    " WHERE keys.trace_id = :trace AND keys.key IN :keys"
    " UNION ALL SELECT each.id, each.cause_id, each.queue, each.participant, each.fingerprint"
    " FROM searched_keys AS keys JOIN events AS each ON each.id = keys.event_id"
    " WHERE keys.trace_id = :trace AND keys.key IN :keys AND each.queue IS NOT NULL"
).bindparams(bindparam("keys", expanding=True))
_BETWEEN = text(
    "SELECT id, cause_id, queue, participant, fingerprint FROM events"
    " WHERE trace_id = :trace AND id BETWEEN :first AND :last"
    " AND queue IS NOT NULL AND fingerprint IN :marks"
).bindparams(bindparam("marks", expanding=True))


class QueueDelivery(NamedTuple):
    """A delivery; ``cause`` is the publish that it was matched with."""

    id: int
    cause: int | None
    queue: str
    participant: int
    match: Match
    fingerprint: bytes


class HandOver(NamedTuple):
    """A delivery of which it is asked what else may have been meant, before an event.

    ``publish`` is its message's, None where it is not stored any more, and ``message_id`` its id.
    """

    trace_id: int
    delivery: QueueDelivery
    before: int
    publish: int | None = None
    message_id: str | None = None


class _Other(NamedTuple):
    id: int
    cause: int | None
    queue: str
    participant: int
    fingerprint: bytes


async def handed_to(
    connection: AsyncConnection, asked: Sequence[HandOver]
) -> list[frozenset[int] | None]:
    """Whom equal messages from the same queue were handed to; None where it is not known."""
    others: list[frozenset[int] | None] = [None] * len(asked)
    places: defaultdict[int, list[int]] = defaultdict(list)
    for place, each in enumerate(asked):
        places[each.trace_id].append(place)
    of_ids = (await keys.indexed(connection)).get(MESSAGE_ID)
    since = MAX_ID if of_ids is None else of_ids.first
    for trace_id, of_trace in places.items():
        of_id, without = _by_message_id([asked[place] for place in of_trace], since)
        found = await _of_ids(connection, trace_id, of_id)
        found |= await _compared(connection, trace_id, without)
        for place in of_trace:
            others[place] = found.get(asked[place])
    return others


def _by_message_id(
    asked: Sequence[HandOver], since: int
) -> tuple[dict[HandOver, bytes], list[HandOver]]:
    """Those whose message has an id that is indexed, with its key; and the others."""
    of_id, without = {}, []
    for each in asked:
        if each.message_id and each.publish is not None and each.publish >= since:
            of_id[each] = search_key(MESSAGE_ID, each.message_id)
        else:
            without.append(each)
    return of_id, without


async def _of_ids(
    connection: AsyncConnection, trace_id: int, of_id: dict[HandOver, bytes]
) -> dict[HandOver, frozenset[int]]:
    """Whom messages with the same id were handed to."""
    sharing: dict[bytes, int] = {}
    for some in chunks(sorted(set(of_id.values()))):
        sharing |= await _sharing(connection, trace_id, some)
    shared = {key for key in of_id.values() if 1 < sharing.get(key, 0) <= MOST_ALIKE}
    deliveries: list[_Other] = []
    for some_keys in chunks(sorted(shared)):
        rows = await connection.execute(_OF_IDS, {"trace": trace_id, "keys": some_keys})
        deliveries += (_Other(*row) for row in rows)
    equal = _Equal(deliveries)
    return {
        each: equal.handed_to(each)
        for each, key in of_id.items()
        if 0 < sharing.get(key, 0) <= MOST_ALIKE
    }


async def _sharing(
    connection: AsyncConnection, trace_id: int, wanted: Sequence[bytes]
) -> dict[bytes, int]:
    """The number of events that have each of these keys, as far as anybody wants to know."""
    names = [f"key{number}" for number in range(len(wanted))]
    statement = text(_SHARING.format(keys=", ".join(f"(:{name})" for name in names)))
    statement = statement.bindparams(*(bindparam(name, type_=LargeBinary) for name in names))
    asked = {"trace": trace_id, "most": MOST_ALIKE + 1, **dict(zip(names, wanted, strict=True))}
    return {bytes(row.key): row.alike for row in await connection.execute(statement, asked)}


async def _compared(
    connection: AsyncConnection, trace_id: int, asked: Sequence[HandOver]
) -> dict[HandOver, frozenset[int]]:
    """Whom equal messages were handed to, of those that are near enough to be compared."""
    near = [*_near(asked)]
    deliveries: dict[int, _Other] = {}
    for first, last, of_span in near:
        marks = {each.delivery.fingerprint for each in of_span}
        span = {"trace": trace_id, "first": first, "last": last}
        for some in chunks(sorted(marks)):
            rows = await connection.execute(_BETWEEN, {**span, "marks": some})
            deliveries |= {row.id: _Other(*row) for row in rows}
    equal = _Equal(deliveries.values())
    return {each: equal.handed_to(each) for *_, of_span in near for each in of_span}


def _near(asked: Sequence[HandOver]) -> Iterator[tuple[int, int, list[HandOver]]]:
    """Spans of ids, with what is compared within each: the newest, as far as they are not many."""
    room = MOST_COMPARED
    first, last, of_span = 0, 0, list[HandOver]()
    for each in sorted(asked, key=lambda each: -each.before):
        if each.delivery.cause is None:
            continue
        begins = max(1, each.delivery.cause - BEFORE)
        if of_span and each.before >= first:
            more = max(0, first - begins)
            if more <= room:
                first, room = min(first, begins), room - more
                of_span.append(each)
            continue
        if each.before - begins > room:
            continue
        if of_span:
            yield first, last, of_span
        first, last, of_span = begins, each.before, [each]
        room -= last - first
    if of_span:
        yield first, last, of_span


class _Equal:
    """Deliveries, by what makes them equal."""

    def __init__(self, deliveries: Iterable[_Other]) -> None:
        self._by_place: defaultdict[tuple[str, bytes], list[_Other]] = defaultdict(list)
        for each in deliveries:
            self._by_place[each.queue, bytes(each.fingerprint)].append(each)

    def handed_to(self, asked: HandOver) -> frozenset[int]:
        """Whom equal messages were handed to, before the event that it is asked about."""
        own = asked.delivery
        return frozenset(
            each.participant
            for each in self._by_place[own.queue, bytes(own.fingerprint)]
            if each.cause != own.cause and each.id < asked.before
        )
