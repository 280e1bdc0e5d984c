"""The time in which a conversation opens: ``python -m bench.conversations FOLDER [EVENTS…]``.

In each store (100,000 and 5,000,000 events, made in the folder if they are not there yet) sixteen
services hand orders on, a hundred at a time, each message naming the one before it in a header. An
order is a conversation of ten messages. In the middle of the store there are larger ones: each
message leads to three, up to 100 and 1,000 messages, and one of 1,000 is a single line of messages,
each of which led to the next. Each is opened by its last event, several times, through the store.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from app.store import Store
from app.stored.conversations import ConversationFilter
from app.stored.reading import EventFilter
from app.tracker import Channel, Deliver, Publish, Record
from app.tracker.links import BUILT_IN, Rules
from bench.stores import fill
from model.conversations import Outcome
from model.words import Via

SIZES = (100_000, 5_000_000)
SERVICES, AT_ONCE, HOPS, FAN = 16, 100, 10, 3
LARGE = {"100 messages": (100, FAN), "1,000 messages": (1_000, FAN), "1,000 in a line": (1_000, 1)}
TIMES = 7


class Traffic:
    """Publishes and deliveries of orders that take turns; ``last`` are events of large ones."""

    def __init__(self, events: int) -> None:
        self._events = events
        self._chance = random.Random(events)
        self._services = [
            Channel("rabbit@bench", f"10.0.0.{number}:40000 -> 10.0.9.1:5672", 1, f"user-{number}")
            for number in range(SERVICES)
        ]
        self._message = 0

    def records(self) -> Iterator[Record]:
        """All of them."""
        large = [deque([(0, self._services[0])]) for _ in LARGE]
        left = [size for size, _ in LARGE.values()]
        fans = [fan for _, fan in LARGE.values()]
        under_way: list[tuple[int, Channel, int]] = []  # the last message, who has it, hops so far
        middle = self._events // 4
        while 2 * self._message < self._events:
            for number, waiting in enumerate(large):
                if self._message > middle and left[number] and self._chance.random() < 0.2:
                    cause, sender = waiting.popleft()
                    for _ in range(fans[number] if cause else 1):
                        if left[number]:
                            left[number] -= 1
                            receiver = self._chance.choice(self._services)
                            yield from self._sent(sender, receiver, cause, LARGE_NAMES[number])
                            waiting.append((self._message, receiver))
            cause, sender, hops = 0, self._chance.choice(self._services), 0
            if len(under_way) >= AT_ONCE:
                cause, sender, hops = under_way.pop(self._chance.randrange(AT_ONCE))
            receiver = self._chance.choice(self._services)
            yield from self._sent(sender, receiver, cause, None)
            if hops + 1 < HOPS:
                under_way.append((self._message, receiver, hops + 1))

    def _sent(
        self, sender: Channel, receiver: Channel, cause: int, name: str | None
    ) -> Iterator[Record]:
        self._message += 1
        queue = f"queue-{receiver.user}"
        headers = {"causation_id": f"message {cause}"} if cause else {}
        properties = {"message_id": f"message {self._message}", "headers": headers}
        if name is not None:
            properties["correlation_id"] = name
        yield Publish(sender, "", (queue,), (queue,), properties, b"{}")
        yield Deliver(receiver, "", (queue,), queue, False, properties, b"{}")


LARGE_NAMES = [*LARGE]


async def opened(folder: Path, events: int) -> Store:
    """The store of this many events, made if it is missing."""
    path = folder / f"conversations-{events}.db"
    if not path.exists():
        part = path.with_suffix(".part")
        await fill(f"sqlite:///{part}", Traffic(events).records(), Rules(BUILT_IN))
        part.rename(path)
    return await Store.open(f"sqlite:///{path}")


async def timed(work: Callable[[], Awaitable[int]]) -> tuple[float, int]:
    """Median ms, and what it comes to."""
    times, size = [], 0
    for _ in range(TIMES):
        begin = time.perf_counter()
        size = await work()
        times.append(1000 * (time.perf_counter() - begin))
    return statistics.median(times), size


async def measure(store: Store, events: int) -> None:
    """Print the rows of a store."""

    async def one(event: int, via: Via) -> int:
        found = await store.conversations.of_event(event, via, limit=5_000)
        return len(found.conversation.messages)

    async def several(wanted: ConversationFilter, limit: int) -> int:
        page = await store.conversations.list(EventFilter(), wanted, Via.links, limit=limit)
        return page.looked_at

    asked: list[tuple[str, Callable[[], Awaitable[int]]]] = []
    for name in LARGE_NAMES:
        found = (await store.events.find(EventFilter(correlation_id=name), limit=1)).items
        for via in (Via.links, Via.conversation):
            asked.append((f"{name}, {via}", lambda e=found[0].id, v=via: one(e, v)))  # type: ignore[misc]
    small = events // 2 + 1
    asked.append(("an order, links", lambda: one(small, Via.links)))
    asked.append(("a list of 50", lambda: several(ConversationFilter(), 50)))
    failed = ConversationFilter(outcome=Outcome.failed)
    asked.append(("a list of failed ones, of which there are none", lambda: several(failed, 50)))
    for name, work in asked:
        ms, size = await timed(work)
        print(f"| {events:,} | {name} | {size:,} | {ms:.0f} |", flush=True)


async def main(folder: Path) -> None:
    """Print the table."""
    print("| events | what | messages or conversations | ms (p50) |")
    print("|---|---|---|---|")
    for events in [int(each) for each in sys.argv[2:]] or SIZES:
        store = await opened(folder, events)
        await measure(store, events)
        await store.close()


if __name__ == "__main__":
    stores = Path(sys.argv[1])
    stores.mkdir(parents=True, exist_ok=True)
    asyncio.run(main(stores))
