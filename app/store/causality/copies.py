"""A publish's fate: what became of its copy in each queue it was routed to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from itertools import starmap

from sqlalchemy import ColumnElement, Select, bindparam, case, exists, func, literal, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import BadRequestError
from app.store.causality.links import conversations_of
from app.store.causality.ranges import names_of
from app.store.database import tables
from app.store.database.chunks import rows_with
from app.store.database.subject import Subject, reads
from app.store.reading.events import by_id, list_by_ids, read_in_chunks
from app.stored.causality import (
    CopiesInHand,
    CopyNumbers,
    Fate,
    HeldCopies,
    QueueCopies,
    QueueFlow,
    QueueTraffic,
    busiest_queues,
)
from model.conversations.assembly import conversation_of
from model.deaths import Loss
from model.event import ALL_LARGE, NOTHING_LARGE, Event, Large
from model.happened import conversation_event
from model.in_hand import COLUMNS, AloneInHand, alone_in_hand
from model.times import Duration, Microseconds, now
from model.who import Who
from model.words import LINKED, EventType, Match

_copies = tables.copies.c
_edges = tables.edges.c
_events = tables.events.c
_lost_copies = tables.lost_copies.c
_traces = tables.traces.c

# A publish's events that are read, from the first, beside the first of each queue: a message that
# is requeued for ever has no end of them.
MOST_EVENTS = 1_000

# Copies in hand that are read, the longest held first, and holders that are named.
MOST_HELD, MOST_HOLDERS = 10_000, 500
# Settlements that say what is usual, among the newest events; and what is never late (µs).
LEAST_SETTLED, MOST_NEWEST, LEAST_LATE = 20, 5_000, 1_000_000

_PROPERTIES: Large = frozenset({"properties"})

_HANDS = text(
    f"SELECT {COLUMNS} FROM events"  # noqa: S608 - a constant
    " WHERE trace_id = :trace AND participant IN :participants AND id BETWEEN :first AND :last"
    " AND NOT quiet ORDER BY id"
).bindparams(bindparam("participants", expanding=True))

# Numbers are `Disposition`'s; as constants, for the index of deliveries in hand.
_COUNT = text("SELECT count(*) FROM events WHERE trace_id = :trace AND settlement = 1")
_IN_HAND = text(
    "SELECT queue, participant, count(*) AS held, min(id) AS oldest, min(recorded_at) AS since"
    " FROM (SELECT id, queue, participant, recorded_at FROM events"
    " WHERE trace_id = :trace AND settlement = 1 ORDER BY id LIMIT :most) AS longest"
    " GROUP BY queue, participant ORDER BY min(id) LIMIT :holders"
).bindparams(most=MOST_HELD)
_SETTLED = text(
    "SELECT queue, settled_at - recorded_at FROM (SELECT queue, settlement, settled_at, recorded_at"
    " FROM events WHERE trace_id = :trace ORDER BY id DESC LIMIT :newest) AS newest"
    " WHERE settlement IN (2, 3, 4, 6)"
).bindparams(newest=MOST_NEWEST)

# Deliveries after which a copy was back in its queue, and that are looked through, the newest.
MOST_BACK = 20_000

# Events that are looked through for those of a queue, and waiting copies that are. A copy's own
# time is the tracker's, which stands still while no service runs: its publish has the clock's.
MOST_OF_TRACE, MOST_WAITING = 20_000, 1_000
_NEWEST = text(
    "SELECT count(*), min(recorded_at) FROM (SELECT recorded_at FROM events"
    " WHERE trace_id = :trace ORDER BY id DESC LIMIT :n) AS newest"
)
_HANDED_OVER = text(
    "SELECT e.participant, p.participant, e.exchange, e.match, e.recorded_at"
    " FROM (SELECT participant, cause_id, exchange, match, recorded_at, queue, type FROM events"
    " WHERE trace_id = :trace ORDER BY id DESC LIMIT :n) AS e"
    " LEFT JOIN events AS p ON p.id = e.cause_id WHERE e.type = 1 AND e.queue = :queue"
)
_WAITING = text(
    "SELECT c.event_id, p.recorded_at, p.participant, p.exchange"
    " FROM (SELECT number, event_id FROM copies WHERE trace_id = :trace"
    " AND queue = :queue ORDER BY number LIMIT :n) AS c"
    " JOIN events AS p ON p.id = c.event_id ORDER BY c.number"
)
_HELD_BY_QUEUE = text(
    "SELECT queue, count(*), min(recorded_at) FROM events"
    " WHERE trace_id = :trace AND settlement = 1 AND queue NOT LIKE 'amq.%' GROUP BY queue"
)


class Copies(Subject):
    """Copies of publishes."""

    @reads
    async def count_waiting(
        self, connection: AsyncConnection, trace_id: int, queue: str, newest: int = 0
    ) -> CopyNumbers:
        """The copies that wait in a queue; ``newest`` is the newest of an earlier answer."""
        query = select(
            func.count(),
            func.count(case((_copies.number <= newest, 1))),
            func.coalesce(func.max(_copies.number), 0),
        ).where(_copies.trace_id == trace_id, _copies.queue == queue)
        return CopyNumbers(*(await connection.execute(query)).one())

    @reads
    async def back_in_queues(
        self, connection: AsyncConnection, trace_id: int, before: int
    ) -> list[QueueCopies]:
        """The copies of a trace that came back to a queue before a time (µs), each alone."""
        query = back_in_queues(_events.trace_id == trace_id).where(_events.settled_at < before)
        return [QueueCopies(*row) for row in await connection.execute(query)]

    @reads
    async def by_queue(
        self, connection: AsyncConnection, trace_id: int, *, in_hand: bool
    ) -> list[QueueCopies]:
        """The copies that wait in a trace's queues, or that consumers hold of them.

        Without queues that the broker named. Those of the queues beyond a bound are together.
        """
        if in_hand:
            rows = await connection.execute(_HELD_BY_QUEUE, {"trace": trace_id})
            return busiest_queues(QueueCopies(*row) for row in rows)
        return busiest_queues((await _waiting(connection, trace_id)).values())

    @reads
    async def of_queue(
        self, connection: AsyncConnection, trace_id: int, vhost: str, queue: str
    ) -> QueueTraffic:
        """A queue's messages among the newest events, and those that wait in it."""
        binds = {"trace": trace_id, "queue": queue}
        newest = await connection.execute(_NEWEST, binds | {"n": MOST_OF_TRACE})
        looked_at, since = newest.one()
        handed = await connection.execute(_HANDED_OVER, binds | {"n": MOST_OF_TRACE})
        waiting = (await connection.execute(_WAITING, binds | {"n": MOST_WAITING})).all()
        publishers, receivers = _Flows(), _Flows()
        for receiver, publisher, exchange, match, at in handed:
            is_dead = match == Match.dead_lettered
            receivers.add(receiver, exchange, at, is_dead)
            if match != Match.redelivered:  # counted once
                publishers.add(publisher, exchange, at, is_dead)
        for _, at, publisher, exchange in waiting:
            publishers.add(publisher, exchange, at, False)
        numbers = {number for number, _ in (*publishers, *receivers) if number is not None}
        names = await names_of(connection, trace_id, numbers)
        copies = (await _waiting(connection, trace_id, queue)).get(queue)
        return QueueTraffic(
            vhost=vhost,
            queue=queue,
            looked_at=looked_at,
            since=None if since is None else Microseconds(since),
            publishers=publishers.listed(names),
            receivers=receivers.listed(names),
            waiting=copies.copies if copies else 0,
            oldest=copies.event if copies else None,
            oldest_at=Microseconds(copies.oldest) if copies else None,
        )

    @reads
    async def alone_in_hand(
        self,
        connection: AsyncConnection,
        trace_id: int,
        participants: Collection[int],
        first: int,
        last: int,
    ) -> list[AloneInHand]:
        """Publishes by participants with one message in hand, without a link or a shared key."""
        if not participants:
            return []
        binds = {"trace": trace_id, "participants": [*participants], "first": first, "last": last}
        query = select(_edges.effect_id).where(_edges.trace_id == trace_id, _edges.kind.in_(LINKED))
        linked = {*await connection.scalars(query.where(_edges.effect_id.between(first, last)))}
        rows = [tuple(row) for row in await connection.execute(_HANDS, binds)]
        candidates = [hand for hand in alone_in_hand(rows) if hand.publish not in linked]
        publishes = [hand.publish for hand in candidates]
        members = await conversations_of(connection, trace_id, publishes)
        keyed = {row.event_id for row in members}
        return [hand for hand in candidates if hand.publish not in keyed]

    @reads
    async def fate_of(
        self, connection: AsyncConnection, event_id: int, large: Large = ALL_LARGE
    ) -> Fate:
        """A publish's fate; raises `NotFoundError`, and `BadRequestError` for a received event."""
        publish = await by_id(connection, event_id, NOTHING_LARGE)
        if publish.type is not EventType.published or publish.routed_queues is None:
            raise BadRequestError(f"event {event_id} was received: only a publish has deliveries")
        of_publish = select(_events.id).where(_events.cause_id == event_id)
        ids = [*await connection.scalars(of_publish.order_by(_events.id).limit(MOST_EVENTS))]
        is_cut = len(ids) == MOST_EVENTS
        if is_cut:
            queues = select(func.min(_events.id), func.count()).where(_events.cause_id == event_id)
            firsts = (await connection.execute(queues.group_by(_events.queue))).all()
            ids = sorted({*ids, *(first for first, _ in firsts)})
            is_cut = len(ids) < sum(count for _, count in firsts)
        # A dead letter's headers say where it came from.
        stored = await list_by_ids(connection, ids, large | _PROPERTIES)
        events = [
            conversation_event(event) for event in stored.items if event.id not in stored.heavy
        ]
        async for event in read_in_chunks(connection, [*stored.heavy], _PROPERTIES):
            events.append(conversation_event(event))
        root = conversation_event(publish)
        losses = await losses_of(connection, publish.trace_id, [event_id])
        [message] = conversation_of(root, [root, *events], {}, losses=losses).messages
        deliveries = {event.id: event for event in stored.items}
        return Fate(publish, message, deliveries, now(), stored.heavy, is_cut)

    @reads
    async def in_hand(
        self, connection: AsyncConnection, vhosts: Collection[str], *, moment: int
    ) -> CopiesInHand:
        """The copies that consumers of some virtual hosts hold at a time (µs)."""
        traces = select(_traces.id, _traces.vhost)
        counts: dict[str, int] = {}
        copies: list[HeldCopies] = []
        for trace_id, vhost in await rows_with(connection, traces, _traces.vhost, vhosts):
            count = (await connection.execute(_COUNT, {"trace": trace_id})).scalar_one()
            if count:
                counts[vhost] = count
                copies += await _copies_in_hand(connection, trace_id, vhost, moment)
        items = sorted(copies, key=lambda copy: (copy.since, copy.oldest))
        count = sum(copy.count for copy in items)
        return CopiesInHand(counts, items, count < sum(counts.values()))

    @reads
    async def loss_remarks(self, connection: AsyncConnection, publish: Event) -> str:
        """A sentence's end about the copies of a publish that are lost for good."""
        losses = await losses_of(connection, publish.trace_id, [publish.id])
        return "".join(
            f"; the copy of event {publish.id} in {queue} {loss.remark(publish.exchange)}"
            for queue, loss in losses.get(publish.id, {}).items()
            if loss.is_final
        )


def back_in_queues(of_traces: ColumnElement[bool]) -> Select[str, int, int, int]:
    """The copies that came back, and that nobody was handed again: of each a `QueueCopies`.

    Those that are known to have left their queue since are left out.
    """
    newest = select(_events.id).where(of_traces, text(tables.BACK)).order_by(_events.id.desc())
    later, lost = tables.events.alias("later").c, tables.lost_copies.alias("lost").c
    again = exists().where(
        later.cause_id == _events.cause_id,
        later.id > _events.id,
        (later.queue == _events.queue) | (later.match == int(Match.dead_lettered)),
    )
    has_left = exists().where(
        lost.trace_id == _events.trace_id,
        lost.event_id == _events.cause_id,
        lost.queue == _events.queue,
        lost.at >= _events.settled_at,
    )
    return select(_events.queue, literal(1), _events.settled_at, _events.cause_id).where(
        _events.id.in_(newest.limit(MOST_BACK).scalar_subquery()),
        _events.cause_id.is_not(None),
        _events.match != int(Match.dead_lettered),
        ~again,
        ~has_left,
    )


async def _waiting(
    connection: AsyncConnection, trace_id: int, queue: str | None = None
) -> dict[str, QueueCopies]:
    """The copies that wait, by queue, or in one: never handed over, or back and not handed again.

    Without a ``queue``, those that the broker named are left out.
    """
    names = _copies.queue, _events.queue
    new_here, back_here = (n.not_like("amq.%") if queue is None else n == queue for n in names)
    oldest_id = func.min(_copies.event_id).label("oldest")
    of_queue = select(_copies.queue, func.count().label("copies"), oldest_id)
    of_queue = of_queue.where(_copies.trace_id == trace_id, new_here)
    new = of_queue.group_by(_copies.queue).subquery().c
    timed = select(new.queue, new.copies, _events.recorded_at, _events.id)
    timed = timed.where(_events.id == new.oldest)
    returned = back_in_queues(_events.trace_id == trace_id).where(back_here)
    rows = [*await connection.execute(timed), *await connection.execute(returned)]
    by_queue: dict[str, QueueCopies] = {}
    for copies in starmap(QueueCopies, rows):
        others = by_queue.get(copies.queue, copies._replace(copies=0))
        oldest = min(others, copies, key=lambda each: each.oldest)
        by_queue[copies.queue] = oldest._replace(copies=others.copies + copies.copies)
    return by_queue


class _Flows(dict[tuple[int | None, str], tuple[int, int, int]]):
    """Counts, dead letters and newest times, by participant and exchange."""

    def add(self, participant: int | None, exchange: str, at: int, is_dead: bool) -> None:
        count, dead, last = self.get((participant, exchange), (0, 0, at))
        self[participant, exchange] = count + 1, dead + is_dead, max(last, at)

    def listed(self, names: dict[int, Who]) -> list[QueueFlow]:
        """The flows, those of most messages first; at most `MOST_HOLDERS`."""
        flows = [
            QueueFlow(
                participant=None if number is None else names.get(number, Who(number, "")),
                exchange=exchange,
                count=count,
                dead_letters=dead,
                last=Microseconds(last),
            )
            for (number, exchange), (count, dead, last) in self.items()
        ]
        return sorted(flows, key=lambda flow: -flow.count)[:MOST_HOLDERS]


async def losses_of(
    connection: AsyncConnection, trace_id: int, ids: Collection[int]
) -> dict[int, dict[str, Loss]]:
    """The losses of publishes' copies, by publish and queue."""
    columns = _lost_copies["event_id", "queue", "at", "reason"]
    query = select(*columns).where(_lost_copies.trace_id == trace_id)
    losses: dict[int, dict[str, Loss]] = {}
    for event_id, queue, *loss in await rows_with(connection, query, _lost_copies.event_id, ids):
        losses.setdefault(event_id, {})[queue] = Loss(*loss)
    return losses


async def _copies_in_hand(
    connection: AsyncConnection, trace_id: int, vhost: str, moment: int
) -> list[HeldCopies]:
    rows = (await connection.execute(_IN_HAND, {"trace": trace_id, "holders": MOST_HOLDERS})).all()
    took: defaultdict[str, list[int]] = defaultdict(list)
    for queue, seconds in await connection.execute(_SETTLED, {"trace": trace_id}):
        took[queue].append(seconds)
    usual = {
        queue: Duration(max(0, sorted(times)[-1 - len(times) // 100]))
        for queue, times in took.items()
        if len(times) >= LEAST_SETTLED
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
            late=row.queue in usual and moment - row.since > max(LEAST_LATE, usual[row.queue]),
        )
        for row in rows
    ]
