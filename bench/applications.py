"""Applications whose truth is known: what their messages say, and which message led to which.

Services hand orders on and work on several at a time, as their brokers would have traced it: a
publish, its deliveries, and after some time the publishes that these lead to. Messages say what
real ones do: an id, a tenant, a state, a time written in two ways, a number that counts up, and
what ties them together, in the way of each application.
"""

from __future__ import annotations

import heapq
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias
from uuid import UUID

from app.tracker import Channel, Deliver, Publish, Record
from bench.stores import FIRST_TIME, STEP

Json: TypeAlias = dict[str, Any]

# Who is handed what, and then publishes what to whom.
PIPELINE = {
    "orders": ("billing", "shipping"),
    "billing": ("mail",),
    "shipping": ("mail",),
    "mail": (),
}
TENANTS = 40
STATES = ("new", "paid", "packed", "sent")
SHARED, PARENT, REPLY = "conversation", "parent", "reply"

# By application: the kind of its key, and where it stands in a delivery and in a publish.
KEYS: dict[str, tuple[str, str, str]] = {
    "order-id": (SHARED, "$message.payload#/order/id", "$message.payload#/order/id"),
    "order-number": (SHARED, "$message.payload#/number", "$message.payload#/number"),
    "header": (SHARED, "$message.header#/x-flow", "$message.header#/x-flow"),
    "renamed": (SHARED, "$message.payload#/id", "$message.payload#/ref/order"),
    "causation": (PARENT, "$message.property#/message_id", "$message.header#/x-because"),
    "nested": (PARENT, "$message.payload#/meta/event", "$message.payload#/meta/because"),
    "rpc": (REPLY, "$message.property#/correlation_id", "$message.property#/correlation_id"),
    "saga": (SHARED, "$message.payload#/order/id", "$message.payload#/order/id"),
}
NO_KEY = "no-key"


@dataclass(eq=False)
class Message:
    """A message; ``parents`` are those that led to it, ``event`` is its publish's place, from 1."""

    order: int
    to: str
    by: str
    parents: tuple[Message, ...] = ()
    event: int = 0
    properties: Json = field(default_factory=dict)
    body: bytes = b""


class Application:
    """One run of an application: its records in their order, and afterwards its ``messages``."""

    def __init__(
        self, name: str, orders: int, *, seed: int = 1, at_once: float = 20, is_split: bool = False
    ) -> None:
        """Handle so many orders, about ``at_once`` at a time.

        ``is_split``: programs publish on another channel than they consume on.
        """
        self._name = name
        self._orders = orders
        self._dice = random.Random(seed)
        self._at_once = at_once
        self._is_split = is_split
        self._counters: Counter[str] = Counter({who: 17 * k for k, who in enumerate(PIPELINE)})
        self._records = 0
        self._waits: defaultdict[int, list[Message]] = defaultdict(list)
        self._ids: dict[int, str] = {}
        self.messages: list[Message] = []

    def records(self) -> Iterator[Record]:
        """Yield the records that the broker traces."""
        soon: list[tuple[float, int, Message | int]] = []  # an order comes, a message was handled
        for order in range(self._orders):
            at = order / self._at_once + self._dice.random() / self._at_once
            heapq.heappush(soon, (at, -order - 1, order))
        number = 0
        while soon:
            now, _, what = heapq.heappop(soon)
            made = self._first(what) if isinstance(what, int) else self._next(what)
            for message in made:
                yield self._publish(message)
                yield self._deliver(message)
                number += 1
                heapq.heappush(soon, (now + self._dice.uniform(0.1, 0.5), number, message))

    def effects(self) -> dict[int, set[int]]:
        """Of each publish the publishes that it led to, however far."""
        found: dict[int, set[int]] = {message.event: set() for message in self.messages}
        for message in self.messages:
            waiting, seen = [*message.parents], set()
            while waiting:
                parent = waiting.pop()
                if parent.event not in seen:
                    seen.add(parent.event)
                    found[parent.event].add(message.event)
                    waiting += parent.parents
        return found

    def _first(self, order: int) -> list[Message]:
        return [Message(order, "orders", "front")]

    def _next(self, message: Message) -> list[Message]:
        """Return the messages that handling a message leads to."""
        if self._name == "rpc":
            reply = Message(message.order, message.by, message.to, (message,))
            return [reply] if message.to == "orders" else []
        if self._name == "saga":
            return self._of_saga(message)
        return [
            Message(message.order, to, message.to, (message,))
            for to in PIPELINE.get(message.to, ())
        ]

    def _of_saga(self, message: Message) -> list[Message]:
        """Orders asks billing and stock, waits for both, and then has it sent."""
        if message.to in ("billing", "stock"):
            return [Message(message.order, "orders", message.to, (message,))]
        if message.to != "orders":
            return []
        if message.by == "front":
            return [Message(message.order, to, "orders", (message,)) for to in ("billing", "stock")]
        waits = self._waits[message.order]
        waits.append(message)
        if len(waits) < 2:
            return []
        del self._waits[message.order]
        return [Message(message.order, "shipping", "orders", tuple(waits))]

    def _publish(self, message: Message) -> Record:
        self._records += 1
        message.event = self._records
        self._write(message)
        self.messages.append(message)
        channel = _channel(message.by, is_publishing=self._is_split)
        queue = f"queue-{message.to}"
        return Publish(channel, "", (queue,), (queue,), message.properties, message.body)

    def _deliver(self, message: Message) -> Record:
        self._records += 1
        queue = f"queue-{message.to}"
        channel = _channel(message.to)
        return Deliver(channel, "", (queue,), queue, False, message.properties, message.body)

    def _uuid(self) -> str:
        return str(UUID(int=self._dice.getrandbits(128), version=4))

    def _write(self, message: Message) -> None:
        """Write the message's properties and body: what all of them say, and the key."""
        now = (FIRST_TIME + (self._records - 1) * STEP) / 1e6
        self._counters[message.by] += 1
        tenant = f"tenant-{message.order * 7919 % TENANTS}"
        headers: Json = {"x-tenant": tenant, "x-retries": 0, "x-host": f"{message.by}-host"}
        body: Json = {
            "tenant": tenant,
            "status": self._dice.choice(STATES),
            "at": datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds"),
            "sent_ms": int(now * 1000),
            "seq": self._counters[message.by],
            "total": self._dice.randint(1, 9) * 100,
            "lines": [{"sku": f"sku-{self._dice.randrange(50)}", "count": 1}],
        }
        message.properties = {
            "message_id": self._uuid(),
            "content_type": "application/json",
            "headers": headers,
        }
        key = self._ids.setdefault(message.order, self._uuid())
        _WRITERS[self._name](message, key, headers, body, self._uuid)
        message.body = json.dumps(body).encode()


def _order_id(message: Message, key: str, headers: Json, body: Json, new: Any) -> None:
    body["order"] = {"id": key, "kind": "standard"}


def _order_number(message: Message, key: str, headers: Json, body: Json, new: Any) -> None:
    body["number"] = 100_000 + message.order


def _header(message: Message, key: str, headers: Json, body: Json, new: Any) -> None:
    headers["x-flow"] = key


def _renamed(message: Message, key: str, headers: Json, body: Json, new: Any) -> None:
    if message.parents:
        body["id"], body["ref"] = new(), {"order": key}
    else:
        body["id"] = key


def _causation(message: Message, key: str, headers: Json, body: Json, new: Any) -> None:
    if message.parents:
        headers["x-because"] = message.parents[0].properties["message_id"]


def _nested(message: Message, key: str, headers: Json, body: Json, new: Any) -> None:
    del message.properties["message_id"]
    body["meta"] = {"event": new()}
    if message.parents:
        body["meta"]["because"] = json.loads(message.parents[0].body)["meta"]["event"]


def _rpc(message: Message, key: str, headers: Json, body: Json, new: Any) -> None:
    message.properties["correlation_id"] = key
    if not message.parents:
        message.properties["reply_to"] = "queue-front"


def _no_key(message: Message, key: str, headers: Json, body: Json, new: Any) -> None:
    pass


_WRITERS: dict[str, Any] = {
    "order-id": _order_id,
    "order-number": _order_number,
    "header": _header,
    "renamed": _renamed,
    "causation": _causation,
    "nested": _nested,
    "rpc": _rpc,
    "saga": _order_id,
    NO_KEY: _no_key,
}


def _channel(who: str, *, is_publishing: bool = False) -> Channel:
    port = 40_000 + sum(who.encode()) + (10_000 if is_publishing else 0)
    return Channel(
        "rabbit@bench", f"10.0.0.{sum(who.encode()) % 250}:{port} -> 10.0.9.1:5672", 1, who
    )
