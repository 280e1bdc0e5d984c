"""A shop's history for the trial: orders that twelve services hand on, some of which fail.

What a message says of its cause stands in its header ``causation_id``, and its order is the
correlation id, as in `make demo`. Times are µs; the messages of several orders lie between each
other, as on any broker.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from app.tracker import Channel, Deliver, Publish, Record

MILLISECOND = 1_000
# Who listens to what; a service's queue has its name.
TO = {
    "OrderPlaced": ("orders",),
    "OrderAccepted": ("pricing", "stock", "fraud"),
    "OrderPriced": ("invoices",),
    "StockReserved": ("warehouse",),
    "OrderChecked": ("billing",),
    "PaymentTaken": ("shipping", "loyalty"),
    "ParcelSent": ("mailer",),
    "MailSent": ("shop",),
    "OrderGivenUp": ("shop",),
}
SAID_BY = {
    "orders": "OrderAccepted",
    "pricing": "OrderPriced",
    "stock": "StockReserved",
    "fraud": "OrderChecked",
    "billing": "PaymentTaken",
    "shipping": "ParcelSent",
    "mailer": "MailSent",
    "auditor": "OrderGivenUp",
}
SERVICES = ("shop", "auditor", *(name for names in TO.values() for name in names if name != "shop"))
REJECTS, GIVES_UP = "billing", "auditor"
DEAD = "dead"
FAILING = 9  # one of this many orders fails: 1009, 1018, … 1234
# A hand takes this long, in ms: mostly short, sometimes not.
WAIT, WORK = (3, 90), (15, 400)
SLOW = 4_000  # ms more


@dataclass(frozen=True)
class Order:
    """One order: its number and when it was placed."""

    number: int
    at: int
    named: bool = True  # whether messages name what led to them
    slow: str | None = None  # who takes long
    retried: str | None = None  # who gives its message back once
    stuck: str | None = None  # whose message nobody is handed

    @property
    def fails(self) -> bool:
        return self.number % FAILING == 1

    @property
    def name(self) -> str:
        return f"order-{self.number}"

    def records(self) -> list[tuple[int, Record]]:
        """Its publishes and deliveries with their times, each after what led to it."""
        self_made: list[tuple[int, Record]] = []
        chance = random.Random(self.number)
        todo = [("shop", "OrderPlaced", self.at, 0)]
        said = 0
        while todo:
            sender, kind, at, cause = todo.pop(0)
            said += 1
            properties = self._properties(said, kind, cause)
            body = json.dumps({"order": self.number, "said": kind, "by": sender}).encode()
            to = TO[kind]
            sent = Publish(channel(sender), "shop", (kind,), to, properties, body)
            self_made.append((at, sent))
            for queue in to:
                if queue == self.stuck:
                    continue
                then = at + chance.randint(*WAIT) * MILLISECOND
                got = Deliver(channel(queue), "shop", (kind,), queue, False, properties, body)
                self_made.append((then, got))
                if queue == self.retried:
                    then += chance.randint(*WORK) * MILLISECOND
                    self_made.append((then, structs.replace(got, redelivered=True)))
                actor = queue
                if queue == REJECTS and self.fails:
                    then += chance.randint(*WORK) * MILLISECOND
                    actor = GIVES_UP
                    self_made.append((then, dead(got)))
                if (answer := SAID_BY.get(actor)) and kind != "MailSent":
                    done = then + chance.randint(*WORK) * MILLISECOND
                    done += SLOW * MILLISECOND if actor == self.slow else 0
                    todo.append((actor, answer, done, said))
        return self_made

    def _properties(self, said: int, kind: str, cause: int) -> dict[str, Any]:
        return {
            "message_id": f"{self.number}-{said}",
            "correlation_id": self.name if self.named else None,
            "type": kind,
            "content_type": "application/json",
            "headers": {"causation_id": f"{self.number}-{cause}"} if cause and self.named else {},
        }


def dead(got: Deliver) -> Deliver:
    """The dead letter of what was handed over."""
    death = {
        "queue": got.queue,
        "reason": "rejected",
        "exchange": got.exchange,
        "routing-keys": [*got.routing_keys],
        "count": 1,
    }
    properties = {**got.properties, "headers": {**got.properties["headers"], "x-death": [death]}}
    return Deliver(channel(GIVES_UP), "", (DEAD,), DEAD, False, properties, got.body)


def channel(service: str) -> Channel:
    place = f"10.0.0.{1 + SERVICES.index(service)}"
    return Channel("rabbit@shop", f"{place}:40000 -> 10.0.9.1:5672", 1, service)


def history(orders: Sequence[Order]) -> Iterator[tuple[int, Record]]:
    """What the broker tells of these orders, in the order of time."""
    yield from sorted((step for order in orders for step in order.records()), key=lambda s: s[0])
