"""The judge of what the service stored: a second, undisturbed consumer of the firehose.

It has a queue of its own. The store must hold the same multiset of events, each with the stamp,
the cause and the position that a tracker gives it when fed the same sequence without a crash.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple, TypeAlias

from app.broker import sentinel
from app.broker.consumer import TRACE_QUEUE, Firehose, Reading
from app.broker.marks import mark_of, queue_prefix
from app.broker.trace_queue import QueueBounds
from app.store import Store
from app.stored.reading import EventFilter
from app.tracker import Bounds, Channel, Deliver, Policy, Publish, Record, Tracker
from model.event import Event
from model.words import EventType
from tools.servers import Broker

SETTLE_SECONDS = 300.0
STILL_SECONDS = 30.0  # without any change: nothing more will come

Key: TypeAlias = tuple[EventType, Channel, str | None, bool, bytes]


class Report(NamedTuple):
    """The result; all but the first two must be 0."""

    kills: int
    events: int
    lost: int
    doubled: int
    wrong_stamps: int

    @property
    def wrong(self) -> int:
        """The number of errors."""
        return self.lost + self.doubled + self.wrong_stamps


@asynccontextmanager
async def oracle(broker: Broker, vhost: str) -> AsyncIterator[list[Record]]:
    """Consume on a queue of its own; the list grows while the block runs.

    The service's own messages are left out, as it leaves them out.
    """
    records: list[Record] = []
    firehose = Firehose(broker.amqp_url("/"), bounds=QueueBounds(), queue="oracle")
    async with firehose.open(vhost, Reading(2_000)) as stream:

        async def listen() -> None:
            while True:
                for each in await stream.batch(1_000, 0.1):
                    if not each.message.is_event:
                        raise TypeError(f"neither published nor received: {each.message}")
                    if not _is_services(each.message, broker.user):
                        records.append(each.message)
                    await stream.acknowledge(each.tag)

        task = asyncio.create_task(listen())
        try:
            yield records
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _is_services(record: Record, user: str) -> bool:
    """Tell whether a record is of the service's own: marks, and the sentinel in its queue."""
    if record.queue == TRACE_QUEUE or sentinel.is_about(record, TRACE_QUEUE, user):
        return True
    return mark_of(record, queue_prefix(TRACE_QUEUE), user) is not None


@asynccontextmanager
async def opened(database_url: str) -> AsyncIterator[Store]:
    """The store that the service writes to."""
    store = await Store.open(database_url)
    try:
        yield store
    finally:
        await store.close()


async def settled(store: Store, records: list[Record], vhost: str | None = None) -> None:
    """Wait until the store has caught up with the oracle, or stops changing.

    Of several traces only that of ``vhost`` is looked at.
    """
    loop = asyncio.get_running_loop()
    deadline, before, still_since = loop.time() + SETTLE_SECONDS, (-1, -1), loop.time()
    while loop.time() < deadline:
        now = (await store.events.count(_of(vhost)), len(records))
        if now != before:
            before, still_since = now, loop.time()
        if loop.time() - still_since > (2 if now[0] == now[1] else STILL_SECONDS):
            return
        await asyncio.sleep(0.2)


async def stored_events(store: Store, vhost: str | None = None) -> AsyncIterator[Event]:
    """All events, or those of a virtual host, oldest first, read page by page."""
    last = 0
    while page := (await store.events.find(_of(vhost), after=last, limit=1_000)).items:
        for event in await store.events.get_existing([each.id for each in page]):
            yield event
        last = page[-1].id


async def judged(
    kills: int, store: Store, records: list[Record], vhost: str | None = None
) -> Report:
    """Compare the store, or a virtual host's part of it, with what the oracle saw."""
    expected: defaultdict[Key, deque[Record]] = defaultdict(deque)
    for record in records:
        expected[_key(record)].append(record)
    tracker = Tracker(Policy.channel, Bounds())
    events = doubled = wrong = 0
    async for event in stored_events(store, vhost):
        events += 1
        same = expected.get(_key_of(event))
        if same:
            wrong += _is_wrong(event, same.popleft(), tracker)
        else:
            doubled += 1
    return Report(kills, events, sum(map(len, expected.values())), doubled, wrong)


def _is_wrong(event: Event, record: Record, tracker: Tracker) -> bool:
    """Tell whether an event differs from what the tracker makes of its record, the next one."""
    (right,) = tracker.apply(record, event.recorded_at)
    right.reference.id = event.id
    tracker.checkpoint()
    return (
        event.stamp.trees(),
        event.participant,
        event.seq,
        event.lamport,
        event.match,
        event.cause,
    ) != (
        right.stamp.trees(),
        right.participant,
        right.seq,
        right.lamport,
        right.match,
        right.cause.id if right.cause else None,
    )


def _of(vhost: str | None) -> EventFilter:
    return EventFilter(vhosts=None if vhost is None else frozenset({vhost}))


def _key(record: Record) -> Key:
    if isinstance(record, Publish):
        return EventType.published, record.channel, None, False, record.body
    if isinstance(record, Deliver):
        return EventType.received, record.channel, record.queue, record.redelivered, record.body
    raise TypeError(record)


def _key_of(event: Event) -> Key:
    channel = Channel(event.node, event.connection, event.channel, event.user)
    return event.type, channel, event.queue, event.redelivered, event.payload or b""
