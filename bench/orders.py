"""Orders that services hand on, most as they should be and a few that were broken on purpose.

An order is approved, invoiced, shipped and delivered; some are gifts, some are given back later,
some messages are handed over twice. What a step takes varies by its nature, and several orders are
under way at a time. Which orders were broken, and how, is the truth that a report is held to.
"""

from __future__ import annotations

import enum
import heapq
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from app.tracker import Channel, Deliver, Publish, Record

SECOND = 1_000_000
BEGIN = 1_767_268_800 * SECOND  # 2026-01-01T12:00:00Z


class Fault(enum.StrEnum):
    """A fault of an order."""

    missing = "its invoice is missing"
    twice = "it was shipped twice"
    early = "it was shipped before its approval"
    slow = "its parcel took a minute"


class Hop(NamedTuple):
    """A message of a type, who publishes it, and how long they take on average (s)."""

    type: str
    service: str
    seconds: float
    queues: tuple[str, ...]


HOPS = {
    "order.new": Hop("order.new", "shop", 0.0, ("approvals",)),
    "approve": Hop("approve", "approvals", 0.05, ("billing", "shipping")),
    "invoice": Hop("invoice", "billing", 0.2, ("mail",)),
    "ship": Hop("ship", "shipping", 0.1, ("parcels",)),
    "parcel": Hop("parcel", "parcels", 0.3, ("shop",)),
    "gift": Hop("gift", "parcels", 0.1, ("mail",)),
    "refund": Hop("refund", "shop", 2.0, ("billing",)),
}
INSTANCES = 3
GIFTS, REFUNDS, AGAIN = 0.2, 0.05, 0.02
_SLOW = 60.0


@dataclass
class Orders:
    """Records of so many orders with their times; ``broken`` says which orders are, once made.

    ``faults`` are shared out evenly, over the first half: of the last nobody could say yet
    that something is missing. Invoices go missing in one instance of ``billing`` alone.
    """

    count: int
    faults: int
    seed: int = 1
    seconds_apart: float = 0.2
    slower: float = 1.0
    skipping: frozenset[str] = frozenset()
    broken: dict[str, Fault] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)
        self._messages = itertools.count(1)
        self._turns = itertools.count()
        self._waiting: list[tuple[int, int, str, str, str | None, str | None]] = []

    def records(self, begin: int = BEGIN) -> Iterator[tuple[int, Record]]:
        """Publishes and deliveries in the order of their times (µs)."""
        chosen = self._dice.sample(range(self.count // 2), self.faults)
        kinds = itertools.cycle(Fault)
        self.broken |= {f"order-{self.seed}-{place}": next(kinds) for place in chosen}
        at = float(begin)
        for place in range(self.count):
            at += self._dice.expovariate(1 / self.seconds_apart) * SECOND
            yield from self._until(round(at))
            self._send(round(at), "order.new", f"order-{self.seed}-{place}", None)
        yield from self._until(None)

    def _until(self, end: int | None) -> Iterator[tuple[int, Record]]:
        while self._waiting and (end is None or self._waiting[0][0] < end):
            at, _, kind, order, cause, by = heapq.heappop(self._waiting)
            yield from self._sent(at, kind, order, cause, by)

    def _send(
        self, at: int, kind: str, order: str, cause: str | None, by: str | None = None
    ) -> None:
        heapq.heappush(self._waiting, (at, next(self._turns), kind, order, cause, by))

    def _sent(
        self, at: int, kind: str, order: str, cause: str | None, by: str | None
    ) -> Iterator[tuple[int, Record]]:
        hop = HOPS[kind]
        message = f"message {self.seed} {next(self._messages)}"
        headers = {"causation_id": cause} if cause else {}
        properties = {
            "type": kind,
            "message_id": message,
            "correlation_id": order,
            "headers": {**headers, "region": self._dice.choice(("eu", "us"))},
        }
        sender = channel(by or f"{hop.service}-{self._dice.randrange(INSTANCES)}")
        body = b'{"order": "%s"}' % order.encode()
        yield at, Publish(sender, "orders", (kind,), hop.queues, properties, body)
        for queue in hop.queues:
            instance = self._dice.randrange(INSTANCES)
            is_lost = kind == "approve" and self.broken.get(order) is Fault.missing
            if queue == "billing" and is_lost:
                instance = 1
            receiver = channel(f"{queue}-{instance}")
            times = 2 if self._dice.random() < AGAIN else 1
            for again in range(times):
                yield (
                    at + 500 * (again + 1),
                    Deliver(receiver, "orders", (kind,), queue, again > 0, properties, body),
                )
            self._handle(at, kind, order, message, queue, f"{queue}-{instance}")

    def _handle(self, at: int, kind: str, order: str, message: str, queue: str, who: str) -> None:
        fault = self.broken.get(order)
        for led in self._led_to(kind, queue, fault):
            hop = HOPS[led]
            takes = self._dice.expovariate(1 / (hop.seconds * self.slower))
            if led == "parcel" and fault is Fault.slow:
                takes = _SLOW + 10 * self._dice.random()
            if led == "ship" and fault is Fault.early:
                takes = 0.0
            by = who if hop.service == queue else None
            self._send(at + 2_000 + round(takes * SECOND), led, order, message, by)

    def _led_to(self, kind: str, queue: str, fault: Fault | None) -> Iterator[str]:
        if kind == "order.new":
            if fault is Fault.early:
                yield "ship"
            yield "approve"
        elif kind == "approve" and queue == "billing":
            if fault is not Fault.missing and "invoice" not in self.skipping:
                yield "invoice"
        elif kind == "approve" and queue == "shipping" and fault is not Fault.early:
            yield "ship"
            if fault is Fault.twice:
                yield "ship"
        elif kind == "ship":
            yield "parcel"
            if self._dice.random() < GIFTS:
                yield "gift"
        elif kind == "parcel" and self._dice.random() < REFUNDS:
            yield "refund"


def channel(name: str) -> Channel:
    """The only channel of a service's instance."""
    service, _, instance = name.rpartition("-")
    number = sum(service.encode()) % 100
    address = f"10.0.{number}.{instance}:40000 -> 10.0.9.1:5672"
    return Channel("rabbit@bench", address, 1, service)
