"""Reading past messages in the trace queue that the broker cannot hand to a consumer.

The broker breaks off the connection when it tries, and what it had sent just before is lost in its
buffers. So a consumer asks for only this many messages: those before the bad one. The bad one is
then read through the management API, stored like any that cannot be read, and removed.

**How many** come before the next bad one is also found through the management API, for many
messages at once: it takes them and puts them back. A classic queue then has them in their old order
(a quorum queue does not: measured on 3.10.8). Some may have headers that take the broker seconds to
show: then the number is found by trying, with a connection each time, and after the first bad one
each try reads twice as many as the last.

**Nothing is lost or doubled**: a message is removed after the transaction that stores it, like an
acknowledgement, and nothing behind it is read before that. After a crash between the two it is at
the head of the queue again, and recognised like any other (`app.traces.resume`).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable

import msgspec

from app.background import is_set_within
from app.broker.consumer import TraceStream
from app.broker.deliveries import Arrival
from app.broker.undeliverable import Waiting, unseen
from app.errors import OutageError, QueueLostError, UndeliverableError

# How many messages are looked at in one request: at first, and at most.
FIRST_LOOK, FURTHEST_LOOK = 100, 1_000
# Up to this size of an answer, the next look goes twice as far.
EASY_BYTES = 2 << 20
# How many are removed together: fewer than the first look, which sees them all after a crash.
TOGETHER = 20
SILENCE_SECONDS = 0.2


class Guide(msgspec.Struct):
    """Knowledge of a queue, kept from one connection to the next."""

    looks: bool = True  # whether many messages can be looked at at once
    look: int = FIRST_LOOK
    stride: int = 1  # how many messages are read at once if they cannot
    good: int = 0  # this many at the head of the queue are known to be good
    bad: int = 0  # and among this many there is a bad one; 0 if unknown
    passed: int = 0


class QueueHead(msgspec.Struct):
    """The queue's head as the management API shows it, and the size of its answer."""

    messages: list[Waiting]
    size: int


class PassingStream(TraceStream):
    """One virtual host's trace messages, past those that the broker cannot send.

    It is opened without a consumer.
    """

    _guide: Guide
    _head: Callable[[int, bool], Awaitable[QueueHead]]

    def begin(
        self,
        guide: Guide,
        sentinel: str | None,
        head: Callable[[int, bool], Awaitable[QueueHead]],
    ) -> None:
        """Begin at the queue's head, which may be the ``sentinel`` of this token.

        ``head`` shows this many messages there, and removes them or not.
        """
        self._guide, self._head, self.sentinel = guide, head, sentinel
        self._ahead: deque[Waiting] = deque()  # what was shown and comes after the rest
        self._good = 0  # messages before the next bad one that no consumer has asked for yet
        self._bad: deque[Waiting | None] = deque()  # the bad ones after them; None: never shown
        self._portion = 0  # what is left of the portion that is being consumed
        self._portion_size = 0
        self._is_consuming = False
        self._given: list[Waiting | None] = []  # bad ones returned, in order of their tags, from 1
        self._outstanding = 0  # the last tag returned and not acknowledged; 0: none
        self._postponed = 0  # a tag whose acknowledgement would bring more than the portion
        self._is_acknowledged = asyncio.Event()
        self._is_settled = False  # whether all that an earlier connection left is done
        self._looked_at_head = False
        self._unbroken = 0

    @property
    def remark(self) -> str:
        return (
            "trace messages that the broker cannot hand to a consumer, because of names of more "
            f"than 247 bytes, to be passed: {self._guide.passed} so far"
        )

    @property
    def waits(self) -> bool:
        is_before_bad = not self._is_consuming and not self._good and bool(self._bad)
        return bool(self._given) or (bool(self._outstanding) and is_before_bad)

    async def ready_messages(self) -> int:
        return await super().ready_messages() + self._portion

    def _note_taken(self, tag: int) -> None:
        """Note nothing: tags are not the channel's alone."""

    async def batch(self, most: int, linger: float) -> list[Arrival]:
        """As of any stream. Sets ``is_over`` once the usual way will do again."""
        if not self._is_consuming and not self._portion:
            if self._given:
                await self._wait(linger)
                return []
            if not self._good and not self._bad and not await self._look_ahead(linger):
                return []
            if not self._good:
                return self._give_bad() if await self._wait(linger) else []
            await self._begin_portion(most)
        return await self._take_portion(most, linger)

    async def acknowledge(self, tag: int) -> None:
        """Acknowledge everything up to a tag; what no consumer got is removed."""
        if self._given:
            await self._take_out()
        elif self._is_consuming:
            self._postponed = tag
            return
        else:
            await super().acknowledge(tag)
            if self._bad:  # the broker's answer to any later request shows that it arrived
                await super().ready_messages()
        if tag >= self._outstanding:
            self._outstanding = 0
            self._is_settled = self._is_settled or not self._is_consuming
            self._is_acknowledged.set()

    async def _begin_portion(self, most: int) -> None:
        self._portion = self._portion_size = min(self._good, most)
        self._good -= self._portion
        self._is_consuming = True
        await self._have_sent(self._portion)

    async def _have_sent(self, count: int) -> None:
        """Have the broker send this many messages, and no more until one is acknowledged."""
        with self.asking():
            await self._channel.basic_qos(prefetch_count=count)
        await self.consume()

    async def _take_portion(self, most: int, linger: float) -> list[Arrival]:
        try:
            messages = await super().batch(min(most, self._portion), linger)
        except UndeliverableError:
            self._broke()
            raise
        self._portion -= len(messages)
        if messages:
            self._outstanding = messages[-1].tag
            self._is_acknowledged.clear()
        else:  # there are no more: the number was a guess
            self._good, self._portion = 0, 0
        if not self._portion and self._is_consuming:
            await self._end_portion()
        return messages

    async def _end_portion(self) -> None:
        with self.asking():
            await self._channel.basic_cancel(self._tag)
        self._is_consuming = False
        self._portion = self.buffered  # what arrived while it ended
        self._unbroken += self._portion_size
        if self._postponed:
            tag, self._postponed = self._postponed, 0
            await self.acknowledge(tag)

    def _broke(self) -> None:
        """Note where a bad one is: in the portion, since all before it was acknowledged."""
        if not self._guide.looks:  # otherwise somebody else removed what came before
            self._guide.good, self._guide.bad = 0, self._portion_size

    async def _look_ahead(self, linger: float) -> bool:
        """Find out what is at the head of the queue; False if there is nothing to do."""
        guide, was_over = self._guide, self.is_over
        self.is_over = False
        is_through = False
        if guide.looks and not self._ahead:
            is_all = await self._look_far()
            is_through = is_all or bool(guide.passed) or self._unbroken >= self._prefetch
        if not guide.looks and not self._ahead:
            if not await self._wait(linger):
                return False
            is_through = await self._try_on()
        self._go_ahead()
        if self._bad:
            return True
        if is_through and not was_over and await self._wait(linger):
            self.is_over = True
            self._good = 0
            return False
        return bool(self._good)

    async def _look_far(self) -> bool:
        """Look at the next messages; returns whether they are all that the queue holds."""
        guide = self._guide
        furthest = guide.look
        try:
            shown = await self._head(guide.look, False)
        except OutageError:
            guide.looks = False
            return False
        if shown.size < EASY_BYTES:
            guide.look = min(2 * guide.look, FURTHEST_LOOK)
        elif guide.look > FIRST_LOOK:
            guide.look = max(FIRST_LOOK, guide.look // 2)
        self._ahead.extend(shown.messages)
        return len(shown.messages) < furthest

    def _go_ahead(self) -> None:
        """Move on past the next good messages and the bad ones after them."""
        while self._ahead and self._ahead[0].is_deliverable:
            self._ahead.popleft()
            self._good += 1
        while self._ahead and not self._ahead[0].is_deliverable:
            self._bad.append(self._ahead.popleft())

    async def _try_on(self) -> bool:
        """Find out how many to read; returns whether no bad one is in reach."""
        guide = self._guide
        if not self._is_settled:
            return await self._narrow()
        if not self._looked_at_head:  # bad ones rarely come alone
            head = await self._shown_head()
            self._looked_at_head = True
            if head is not None and not head.is_deliverable:
                self._bad.append(head)
                return False
        if not await super().ready_messages():
            return True
        self._good = guide.stride
        guide.stride = min(2 * guide.stride, self._prefetch)
        return self._unbroken >= self._prefetch

    async def _narrow(self) -> bool:
        """Narrow down the number of good messages before the first bad one, or find it.

        What an earlier connection left comes first, and can be recognised only as a whole. So
        nothing is returned before the number is known.
        """
        guide = self._guide
        if guide.bad - guide.good == 1:
            self._good = guide.good
            if not self._good:
                self._bad.append(await self._shown_head())
            return False
        tried = (guide.good + guide.bad) // 2 or self._prefetch
        try:
            is_all = await self._arrive(tried)
        except UndeliverableError:
            guide.bad = tried
            raise
        if not guide.bad:
            return True
        guide.good = tried
        if is_all:
            guide.good = guide.bad = 0
        raise UndeliverableError(f"the first {tried} trace messages can be handed over")

    async def _arrive(self, count: int) -> bool:
        """Wait for this many messages, or all there are; returns whether it is this many."""
        await self._have_sent(count)
        arrived = 0
        while arrived < count:
            messages = await super().batch(count - arrived, SILENCE_SECONDS)
            arrived += len(messages)
            if not messages and not await super().ready_messages():
                return True
        return False

    async def _shown_head(self) -> Waiting | None:
        try:
            shown = await self._head(1, False)
        except OutageError:
            return None
        return shown.messages[0] if shown.messages else None

    def _give_bad(self) -> list[Arrival]:
        now = time.time_ns() // 1000
        self._given = [self._bad.popleft() for _ in range(min(TOGETHER, len(self._bad)))]
        self._outstanding = len(self._given)
        self._is_acknowledged.clear()
        return [
            Arrival(
                tag,
                redelivered=bad is None or bad.redelivered,
                routing_key="" if bad is None else bad.routing_key,
                header=b"",
                body=b"" if bad is None else bad.body,
                at=now,
                message=unseen(now) if bad is None else bad.told(now),
            )
            for tag, bad in enumerate(self._given, 1)
        ]

    async def _take_out(self) -> None:
        """Remove the returned ones from the queue, which starts with them."""
        given, self._given = self._given, []
        guide = self._guide
        removed = (await self._head(len(given), True)).messages
        if None not in given and [(one.routing_key, one.body) for one in removed] != [
            (one.routing_key, one.body) for one in given if one is not None
        ]:
            taken = "the head of the trace queue was taken from us by somebody else"
            raise QueueLostError(taken, taken)
        guide.passed += len(given)
        guide.stride, guide.good, guide.bad = 1, 0, 0
        self._is_settled, self._looked_at_head, self._unbroken = True, False, 0

    async def _wait(self, linger: float) -> bool:
        """Wait until all is acknowledged; False if it is not within the linger time."""
        return not self._outstanding or await is_set_within(self._is_acknowledged, linger)
