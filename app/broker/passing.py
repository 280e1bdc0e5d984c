"""Reading past messages in the trace queue that the broker cannot hand to a consumer.

The broker breaks off the connection when it tries, and loses the messages sent just before in its
buffers. So the head of the queue is looked at through the management API, which takes messages and
puts them back: a classic queue then has them in their old order (a quorum queue does not: measured
on 3.10.8). A consumer asks for only as many as come before the next bad one. That one is stored
like any unreadable one, and removed through the management API. So is a message that takes the API
too long to show, as headers can be nested so deeply: nobody knows whether it is a bad one.

**Nothing else is lost, and nothing doubled**: a message is removed after the transaction that
stores it, like an acknowledgement, and nothing behind it is read before that. After a crash between
the two it heads the queue again, and is recognised like any other (`app.traces.runs.resume`).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable

from app.background import is_set_within
from app.broker.consumer import TraceStream
from app.broker.deliveries import Arrival
from app.broker.undeliverable import NEVER_SHOWN, Waiting
from app.errors import QueueLostError

# Messages to look at in one request, and of these to remove together.
LOOK, MOST_BAD = 100, 20


class PassingStream(TraceStream):
    """One virtual host's trace messages, past those that the broker cannot send.

    It is opened without a consumer.
    """

    _head: Callable[[int, bool], Awaitable[list[Waiting] | None]]

    def begin(
        self, sentinel: str | None, head: Callable[[int, bool], Awaitable[list[Waiting] | None]]
    ) -> None:
        """Begin at the queue's head, which may be the ``sentinel`` of this token.

        ``head`` returns this many messages there, and removes them or not; None if the broker takes
        too long.
        """
        self._head, self.sentinel = head, sentinel
        self._upcoming: deque[Waiting] = deque()  # seen at the last look, behind the others
        self._is_all = False  # the queue held no more than the last look saw
        self._good = 0  # messages before the next bad one that no consumer has asked for yet
        self._bad: list[Waiting] = []  # the bad ones after them
        self._portion = self._portion_size = 0  # the rest of the consumed portion, and its size
        self._is_consuming = False
        self._handed: list[Waiting] = []  # bad ones returned, in order of their tags, from 1
        self._outstanding = 0  # the last tag returned and not acknowledged; 0: none
        self._postponed = 0  # a tag whose acknowledgement would bring more than the portion
        self._is_acknowledged = asyncio.Event()
        self._look = LOOK
        self._passed_count = self._unbroken = 0  # bad ones, and good ones since the last of them

    @property
    def remark(self) -> str:
        return (
            "trace messages that the broker cannot hand to a consumer, because of names of more "
            f"than 247 bytes, to be passed: {self._passed_count} so far"
        )

    @property
    def waits(self) -> bool:
        is_before_bad = not self._is_consuming and not self._good and bool(self._bad)
        return bool(self._handed) or (bool(self._outstanding) and is_before_bad)

    async def ready_messages(self) -> int:
        return await super().ready_messages() + self._portion

    def _note_taken(self, tag: int) -> None:
        """Do nothing: tags are not the channel's alone."""

    def _refit(self, is_bundled: bool) -> None:
        """Do nothing: the portion is what the broker sends."""

    async def batch(self, most: int, linger: float) -> list[Arrival]:
        """Wait for messages, like any stream. Sets ``is_over`` once the usual way works again."""
        if not self._is_consuming and not self._portion:
            if self._handed:
                await self._wait(linger)
                return []
            if not self._good and not self._bad and await self._is_through():
                self.is_over = await self._wait(linger)
                return []
            if not self._good:
                return self._give_bad() if await self._wait(linger) else []
            await self._begin_portion(most)
        return await self._take_portion(most, linger)

    async def acknowledge(self, tag: int) -> None:
        """Acknowledge everything up to a tag, and remove messages that no consumer got."""
        if self._handed:
            await self._take_out()
        elif self._is_consuming:
            self._postponed = tag
            return
        else:
            await super().acknowledge(tag)
            await super().ready_messages()  # the answer shows that it arrived
        if tag >= self._outstanding:
            self._outstanding = 0
            self._is_acknowledged.set()

    async def _is_through(self) -> bool:
        """Go on to the next bad messages; returns whether there are none in reach."""
        if not self._upcoming:
            self._upcoming.extend(await self._look_ahead())
        while self._upcoming and self._upcoming[0].is_deliverable:
            self._upcoming.popleft()
            self._good += 1
        while self._upcoming and not self._upcoming[0].is_deliverable and len(self._bad) < MOST_BAD:
            self._bad.append(self._upcoming.popleft())
        if self._bad or not (self._is_all or self._unbroken >= self._prefetch):
            return False
        self._good = 0  # the usual way takes the rest
        return True

    async def _look_ahead(self) -> list[Waiting]:
        messages = await self._head(self._look, False)
        if messages is None and self._look > 1:
            self._look = 1
            messages = await self._head(1, False)
        if messages is None:
            return [NEVER_SHOWN]
        self._is_all = len(messages) < self._look
        return messages

    async def _begin_portion(self, limit: int) -> None:
        """Have the broker send some messages, and no more until one is acknowledged."""
        self._portion = self._portion_size = min(self._good, limit)
        self._good -= self._portion
        self._is_consuming = True
        await self.consume(self._portion)

    async def _take_portion(self, limit: int, linger: float) -> list[Arrival]:
        messages = await super().batch(min(limit, self._portion), linger)
        self._portion -= sum(message.is_last for message in messages)
        if messages:
            self._outstanding = messages[-1].tag
            self._is_acknowledged.clear()
        else:  # somebody else has removed the others
            self._good, self._bad, self._portion = 0, [], 0
            self._upcoming.clear()
        if not self._portion and self._is_consuming:
            await self._end_portion()
        return messages

    async def _end_portion(self) -> None:
        with self.request():
            await self._channel.basic_cancel(self._tag)
        self._is_consuming = False
        self._portion = self.buffer_size  # arrivals while it ended
        self._unbroken += self._portion_size
        if self._postponed:
            tag, self._postponed = self._postponed, 0
            await self.acknowledge(tag)

    def _give_bad(self) -> list[Arrival]:
        moment = time.time_ns() // 1000
        self._handed, self._bad = self._bad, []
        self._outstanding = len(self._handed)
        self._is_acknowledged.clear()
        return [
            Arrival(
                tag,
                redelivered=bad.redelivered,
                routing_key=bad.routing_key,
                header=b"",
                body=bad.body,
                at=moment,
                message=bad.unreadable(moment),
            )
            for tag, bad in enumerate(self._handed, 1)
        ]

    async def _take_out(self) -> None:
        """Remove the returned bad ones from the queue, which begins with them."""
        messages, self._handed = self._handed, []
        answer = await self._head(len(messages), True) or ()
        if NEVER_SHOWN not in messages and [*map(_identity, answer)] != [*map(_identity, messages)]:
            reason = "the head of the trace queue was taken from us by somebody else"
            raise QueueLostError(reason, reason)
        self._passed_count += len(messages)
        self._look, self._unbroken = LOOK, 0

    async def _wait(self, linger: float) -> bool:
        """Wait until everything is acknowledged; False if it is not within the linger time."""
        return not self._outstanding or await is_set_within(self._is_acknowledged, linger)


def _identity(message: Waiting) -> tuple[str, bytes]:
    return message.routing_key, message.body
