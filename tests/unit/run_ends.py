"""What the fakes at a run's two ends have in common: a broker where nothing happens."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias

from app.broker import bundles
from app.broker.consumer import TRACE_QUEUE
from app.broker.deliveries import UNREAD, Arrival
from app.broker.firehose import BUNDLE_KEY, parse
from app.broker.own import Own
from app.broker.trace_queue import Bookmark, QueueState
from app.tracker.taken import Selection
from model.times import now

Message: TypeAlias = tuple[str, bytes, bytes]  # routing key, content header, body


class QuietStream:
    """A queue that was there, holds nothing, and of which nothing is to be said."""

    queue_is_new = False
    was_bound = True
    remark = None
    waits = is_over = False
    buffer_size = taken = unacknowledged = 0
    records_per_message = most_per_message = 1
    is_cluster = False
    traces_replies = True
    sentinel = None
    is_sentinel_gone = False
    bookmarks: Sequence[Bookmark] = ()
    account = "itc"
    former: Sequence[str] = ()

    def know_accounts(self, former: Sequence[str]) -> None:
        self.former = former

    async def leave_bookmark(self, epoch: int, event_id: int) -> None:
        self.bookmarks = [Bookmark(epoch, event_id)]

    def take_largest(self) -> int:
        return 0

    async def ask_channels(self) -> None:
        pass

    async def wait_for_bundles(self) -> None:
        """They are in the queue already."""

    async def is_last_bundle_here(self) -> bool:
        return True

    async def ready_messages(self) -> int:
        return 0

    async def queued(self) -> int:
        return 0


class QuietSource:
    """A broker of one node, on which tracing is on."""

    async def switch_on(self, vhost: str) -> list[str]:
        return []

    async def nodes(self) -> frozenset[str]:
        return frozenset({"rabbit@one"})

    async def look(self, vhost: str, taken: Selection) -> QueueState:
        return QueueState()


class FilledSource(QuietSource):
    """A broker whose trace queue holds messages, and gives back what is not acknowledged."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self.new, self.returned = iter(messages), deque[Message]()
        self.is_through: Callable[[], None] = lambda: None
        self.before_each: Callable[[], None] = lambda: None
        self.opened = 0

    @asynccontextmanager
    async def open(self, *_: object, **__: object) -> AsyncIterator[FilledStream]:
        self.opened += 1
        stream = FilledStream(self)
        try:
            yield stream
        finally:
            self.returned.extendleft(reversed(stream.held))


class FilledStream(QuietStream):
    """One connection to that queue."""

    def __init__(self, source: FilledSource) -> None:
        self._source = source
        self.held: deque[Message] = deque()
        self._tag = 0
        self.about = Own(TRACE_QUEUE, self.account).about

    async def batch(self, most: int, linger: float) -> Sequence[Arrival]:
        await asyncio.sleep(0)
        self._source.before_each()
        batch: list[Arrival] = []
        while len(batch) < most and (following := self._next()) is not None:
            message, redelivered = following
            self._tag += 1
            self.held.append(message)
            arrival = Arrival(self._tag, redelivered, *message, now() + self._tag)
            if arrival.routing_key == BUNDLE_KEY:
                arrival.bundle = bundles.read_head(arrival.header)
            batch += bundles.open_bundle(arrival)
        for record in batch:
            if record.message is UNREAD:
                record.message = parse(record.routing_key, record.header, record.body, record.at)
        if not batch:
            self._source.is_through()
        return batch

    def _next(self) -> tuple[Message, bool] | None:
        if self._source.returned:
            return self._source.returned.popleft(), True
        message = next(self._source.new, None)
        return None if message is None else (message, False)

    async def acknowledge(self, tag: int) -> None:
        for _ in range(len(self.held) - (self._tag - tag)):
            self.held.popleft()
