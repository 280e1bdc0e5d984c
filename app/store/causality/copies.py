"""A publish's fate: what became of its copy in each queue it was routed to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from sqlalchemy import bindparam, func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import BadRequestError
from app.store.causality.links import conversations_of
from app.store.causality.ranges import names_of
from app.store.database import tables
from app.store.database.chunks import rows_with
from app.store.database.subject import Subject, reads
from app.store.reading.events import by_id, found_by_ids, some_at_a_time
from app.stored.causality import CopiesInHand, Fate, HeldCopies
from model.conversations import conversation_of
from model.deaths import Loss
from model.event import ALL_LARGE, NOTHING_LARGE, Event, Large
from model.happened import conversation_event
from model.in_hand import COLUMNS, AloneInHand, alone_in_hand
from model.times import Duration, now
from model.who import Who
from model.words import LINKED, EventType

# How many of a publish's events are looked at, from the first, beside the first of each queue: a
# message that is requeued for ever has no end of them.
MOST = 1_000

# How many copies in hand are looked at, those held for longest, and how many holders are named.
MOST_HELD, MOST_HOLDERS = 10_000, 500
# How many settlements say what is usual, of how many events; and what is never late (µs).
LEAST_SETTLED, MOST_NEWEST, LEAST_LATE = 20, 5_000, 1_000_000

_PROPERTIES: Large = frozenset({"properties"})

_HANDS = text(
    f"SELECT {COLUMNS} FROM events"  # noqa: S608 - a constant
    " WHERE trace_id = :trace AND participant IN :whose AND id BETWEEN :first AND :last"
    " AND NOT quiet ORDER BY id"
).bindparams(bindparam("whose", expanding=True))

# Numbers are `Disposition`'s; as constants, for the index of what is in hand.
_COUNT = text("SELECT count(*) FROM events WHERE trace_id = :trace AND settlement = 1")
_HELD = text(
    "SELECT queue, participant, count(*) AS held, min(id) AS oldest, min(recorded_at) AS since"
    " FROM (SELECT id, queue, participant, recorded_at FROM events"
    " WHERE trace_id = :trace AND settlement = 1 ORDER BY id LIMIT :most) AS longest"
    " GROUP BY queue, participant ORDER BY min(id) LIMIT :holders"
).bindparams(most=MOST_HELD)
_SETTLED = text(
    "SELECT queue, settled_at - recorded_at FROM (SELECT queue, settlement, settled_at, recorded_at"
    " FROM events WHERE trace_id = :trace ORDER BY id DESC LIMIT :newest) AS newest"
    " WHERE settlement IN (2, 3, 4)"
).bindparams(newest=MOST_NEWEST)


class Copies(Subject):
    """The copies of each publish, and what became of them."""

    @reads
    async def alone_in_hand(
        self,
        connection: AsyncConnection,
        trace_id: int,
        whose: Collection[int],
        first: int,
        last: int,
    ) -> list[AloneInHand]:
        """The publishes between two ids of these participants with one message in hand.

        Those of which links tell what led to them, or keys which conversation they are of, are left
        out.
        """
        if not whose:
            return []
        asked = {"trace": trace_id, "whose": [*whose], "first": first, "last": last}
        its = tables.edges.c
        query = select(its.effect_id).where(its.trace_id == trace_id, its.kind.in_(LINKED))
        linked = {*await connection.scalars(query.where(its.effect_id.between(first, last)))}
        rows = [tuple(row) for row in await connection.execute(_HANDS, asked)]
        found = [each for each in alone_in_hand(rows) if each.publish not in linked]
        publishes = [each.publish for each in found]
        shared = await conversations_of(connection, trace_id, publishes)
        keyed = {row.event_id for row in shared}
        return [each for each in found if each.publish not in keyed]

    @reads
    async def fate_of(
        self, connection: AsyncConnection, event_id: int, large: Large = ALL_LARGE
    ) -> Fate:
        """A publish's fate, queue by queue.

        Raises `NotFoundError`, and `BadRequestError` for a received event.
        """
        publish = await by_id(connection, event_id, NOTHING_LARGE)
        if publish.type is not EventType.published or publish.routed_queues is None:
            raise BadRequestError(f"event {event_id} was received: only a publish has deliveries")
        events = tables.events.c
        of_publish = select(events.id).where(events.cause_id == event_id)
        ids = [*await connection.scalars(of_publish.order_by(events.id).limit(MOST))]
        is_cut = len(ids) == MOST
        if is_cut:
            queues = select(func.min(events.id), func.count()).where(events.cause_id == event_id)
            firsts = (await connection.execute(queues.group_by(events.queue))).all()
            ids = sorted({*ids, *(first for first, _ in firsts)})
            is_cut = len(ids) < sum(count for _, count in firsts)
        # A dead letter's headers say where it came from.
        found = await found_by_ids(connection, ids, large | _PROPERTIES)
        told = [conversation_event(each) for each in found.items if each.id not in found.heavy]
        async for event in some_at_a_time(connection, [*found.heavy], _PROPERTIES):
            told.append(conversation_event(event))
        root = conversation_event(publish)
        losses = await losses_of(connection, publish.trace_id, [event_id])
        [message] = conversation_of(root, [root, *told], {}, losses=losses).messages
        deliveries = {each.id: each for each in found.items}
        return Fate(publish, message, deliveries, now(), found.heavy, is_cut)

    @reads
    async def in_hand(
        self, connection: AsyncConnection, vhosts: Collection[str], *, at: int
    ) -> CopiesInHand:
        """What consumers hold in some virtual hosts at a time (µs)."""
        known = select(tables.traces.c.id, tables.traces.c.vhost)
        counts: dict[str, int] = {}
        held: list[HeldCopies] = []
        for trace_id, vhost in await rows_with(connection, known, tables.traces.c.vhost, vhosts):
            count = (await connection.execute(_COUNT, {"trace": trace_id})).scalar_one()
            if count:
                counts[vhost] = count
                held += await _held(connection, trace_id, vhost, at)
        items = sorted(held, key=lambda each: (each.since, each.oldest))
        shown = sum(each.count for each in items)
        return CopiesInHand(counts, items, shown < sum(counts.values()))

    @reads
    async def lost(self, connection: AsyncConnection, publish: Event) -> str:
        """The end of a sentence on which copies of a publish nobody will be handed any more."""
        losses = await losses_of(connection, publish.trace_id, [publish.id])
        return "".join(
            f"; the copy of event {publish.id} in {queue} {loss.remark(publish.exchange)}"
            for queue, loss in losses.get(publish.id, {}).items()
            if loss.is_final
        )


async def losses_of(
    connection: AsyncConnection, trace_id: int, ids: Collection[int]
) -> dict[int, dict[str, Loss]]:
    """The losses of publishes' copies, by publish and queue."""
    its = tables.lost_copies.c
    query = select(its.event_id, its.queue, its.at, its.reason).where(its.trace_id == trace_id)
    found: dict[int, dict[str, Loss]] = {}
    for event_id, queue, *loss in await rows_with(connection, query, its.event_id, ids):
        found.setdefault(event_id, {})[queue] = Loss(*loss)
    return found


async def _held(
    connection: AsyncConnection, trace_id: int, vhost: str, at: int
) -> list[HeldCopies]:
    rows = (await connection.execute(_HELD, {"trace": trace_id, "holders": MOST_HOLDERS})).all()
    took: defaultdict[str, list[int]] = defaultdict(list)
    for queue, seconds in await connection.execute(_SETTLED, {"trace": trace_id}):
        took[queue].append(seconds)
    usual = {
        queue: Duration(max(0, sorted(some)[-1 - len(some) // 100]))
        for queue, some in took.items()
        if len(some) >= LEAST_SETTLED
    }
    names = await names_of(connection, trace_id, {row.participant for row in rows})
    return [
        HeldCopies(
            vhost=vhost,
            queue=row.queue,
            holder=names.get(row.participant, Who(row.participant, "")),
            count=row.held,
            oldest=row.oldest,
            since=row.since,
            usual=usual.get(row.queue),
            late=row.queue in usual and at - row.since > max(LEAST_LATE, usual[row.queue]),
        )
        for row in rows
    ]
