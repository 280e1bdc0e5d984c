"""Queues and exchanges, drawn at random: which there are, and where their messages go.

What is here is what the judge knows of the broker: to which queues an exchange routes a key, and
where a message goes that dies in a queue.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from aio_pika import ExchangeType
from aio_pika.abc import AbstractChannel
from pamqp.common import FieldTable

KEYS = ("a", "b", "c")
NOWHERE = "nowhere"  # no queue has this name, and no binding this key
DIRECT, FANOUT, DEAD = "direct", "fanout", "dead"  # dead: a fanout exchange for dead letters
TOPIC, HEADERS = "topic", "headers"
SPARED = "direct with an alternate"  # what no binding matches goes to the fanout exchange
KEPT = "kept"  # hands its last messages to a queue that is bound to it
KINDS: dict[str, ExchangeType | str] = {
    DIRECT: ExchangeType.DIRECT,
    FANOUT: ExchangeType.FANOUT,
    DEAD: ExchangeType.FANOUT,
    TOPIC: ExchangeType.TOPIC,
    HEADERS: ExchangeType.HEADERS,
    SPARED: ExchangeType.DIRECT,
    KEPT: "x-recent-history",
}
ROUTING = (DIRECT, FANOUT, TOPIC, HEADERS, SPARED)
COLOURS = ("red", "blue")
PLUGIN = "rabbitmq_recent_history_exchange"
TTL = (15, 60)  # ms, of a queue that delays
TIMEOUT = 1_000  # ms; the broker looks about once a second


class DeadLetters(NamedTuple):
    """The target of a queue's dead letters; without a key they keep theirs."""

    exchange: str
    key: str | None = None


class Stay(NamedTuple):
    """A queue that a copy is in, and the keys with which it came there, CC and BCC among them."""

    queue: str
    keys: tuple[str, ...]


class QueueRules(NamedTuple):
    """A queue: its time to live in ms, its longest length, its limit of deliveries (quorum).

    ``timeout``: how long in ms a consumer may hold a message (4.3, quorum). ``is_safe``: a quorum
    queue whose dead letters are sure to arrive, once or more often. ``more`` are arguments beside
    these.
    """

    name: str
    dead_letters: DeadLetters | None = None
    ttl: int | None = None
    longest: int | None = None
    limit: int | None = None
    timeout: int | None = None
    is_safe: bool = False
    more: Mapping[str, str | int | bool] = MappingProxyType({})

    @property
    def arguments(self) -> FieldTable:
        """The arguments to declare it with."""
        found: FieldTable = {**self.more}
        if self.dead_letters is not None:
            found["x-dead-letter-exchange"] = self.dead_letters.exchange
            if self.dead_letters.key is not None:
                found["x-dead-letter-routing-key"] = self.dead_letters.key
        if self.ttl is not None:
            found["x-message-ttl"] = self.ttl
        if self.longest is not None:
            found["x-max-length"] = self.longest
        if self.limit is not None:
            found |= {"x-queue-type": "quorum", "x-delivery-limit": self.limit}
        if self.timeout is not None:
            found["x-consumer-timeout"] = self.timeout
        if self.is_safe:
            found |= {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
        return found


class QueueBinding(NamedTuple):
    """A binding of a queue, or of an exchange, to an exchange; a headers exchange's by colour."""

    exchange: str
    key: str
    queue: str

    def takes(self, keys: Sequence[str]) -> bool:
        """Tell whether it takes a message with these keys."""
        every = KINDS[self.exchange] is ExchangeType.FANOUT or self.key == "#"
        return every or self.key in keys

    @property
    def arguments(self) -> FieldTable:
        """The arguments to bind it with."""
        return {"x-match": "all", "colour": self.key} if self.exchange == HEADERS else {}


@dataclass
class Layout:
    """All queues by name, and what binds them."""

    queues: dict[str, QueueRules] = field(default_factory=dict)
    bindings: list[QueueBinding] = field(default_factory=list)
    joined: list[QueueBinding] = field(default_factory=list)  # exchanges to exchanges
    taken_from: list[str] = field(default_factory=list)  # queues that programs take from
    timed: list[str] = field(default_factory=list)  # queues that are consumed against the clock
    purged: list[str] = field(default_factory=list)  # queues that are purged or deleted
    equal: list[str] = field(default_factory=list)  # queues that equal messages are published to
    unbound: list[str] = field(default_factory=list)  # queues that are bound to `KEPT` later

    def add(self, rules: QueueRules) -> str:
        """Add a queue; returns its name."""
        self.queues[rules.name] = rules
        return rules.name

    def routed(self, exchange: str, keys: Sequence[str]) -> list[str]:
        """The queues to which an exchange routes a message, each once.

        Those of `KEPT` are all that it may come to, when they are bound.
        """
        if exchange == "":
            return [key for key in dict.fromkeys(keys) if key in self.queues]
        if exchange == KEPT:
            return self.unbound
        names = [
            each.queue for each in self.bindings if each.exchange == exchange and each.takes(keys)
        ]
        for each in self.joined:
            if each.exchange == exchange and each.takes(keys):
                names += self.routed(each.queue, keys)
        if not names and exchange == SPARED:
            names = self.routed(FANOUT, keys)
        return [*dict.fromkeys(names)]

    def after_death(self, stay: Stay) -> list[Stay]:
        """The queues to which a message goes that dies in one."""
        there = self.queues[stay.queue].dead_letters
        if there is None:
            return []
        keys = stay.keys if there.key is None else (there.key,)
        return [Stay(queue, keys) for queue in self.routed(there.exchange, keys)]

    def gets_dead_letters(self, queue: str) -> bool:
        """Tell whether a message that died elsewhere may come into a queue."""
        every = (*KEYS, *self.queues)
        return any(
            queue in (each.queue for each in self.after_death(Stay(name, every)))
            for name in self.queues
        )

    async def declare(self, channel: AbstractChannel) -> None:
        """Declare all of it."""
        for name, kind in KINDS.items():
            if name != KEPT or self.unbound:
                spare: FieldTable = {"alternate-exchange": FANOUT} if name == SPARED else {}
                await channel.declare_exchange(name, kind, arguments=spare)
        for each in self.joined:
            target = await channel.get_exchange(each.queue, ensure=False)
            await target.bind(each.exchange, each.key, arguments=each.arguments)
        for name in self.queues:
            await self.declare_queue(channel, name)

    async def declare_queue(self, channel: AbstractChannel, name: str) -> None:
        """Declare a queue and its bindings."""
        rules = self.queues[name]
        is_durable = "x-queue-type" in rules.arguments
        queue = await channel.declare_queue(name, durable=is_durable, arguments=rules.arguments)
        for each in self.bindings:
            if each.queue == name:
                await queue.bind(each.exchange, each.key, arguments=each.arguments)


def plain(draw: random.Random) -> Layout:
    """A topology in which nothing dies: exchanges of all types lead to queues, one to another."""
    made = Layout()
    made.taken_from = [made.add(QueueRules(f"plain{n}")) for n in range(draw.randint(3, 8))]

    def binding(exchange: str, to: str) -> QueueBinding:
        patterns = {TOPIC: ("#", "a"), HEADERS: COLOURS}.get(exchange, KEYS)
        return QueueBinding(exchange, draw.choice(patterns), to)

    for name in made.taken_from:
        for exchange in draw.sample(ROUTING, draw.randint(1, len(ROUTING))):
            made.bindings.append(binding(exchange, name))
    source, target = draw.sample(ROUTING[:-1], 2)  # the last leads to another one anyway
    made.joined.append(binding(source, target))
    return made


def drawn(draw: random.Random, *, keeps: bool = False, is_43: bool = False) -> Layout:
    """A topology with each of the situations in it, their sizes and ways drawn at random.

    ``keeps``: the broker has the plugin with the exchange that keeps messages. ``is_43``: it is
    RabbitMQ 4.3 or later, whose quorum queues time consumers out, and delay what comes back.
    """
    made = Layout()
    parked = made.add(QueueRules("parked"))
    audit = made.add(QueueRules("audit"))
    made.bindings += [QueueBinding(DEAD, "", parked), QueueBinding(DEAD, "", audit)]
    late = made.add(QueueRules("late"))
    plain = [made.add(QueueRules(f"plain{n}")) for n in range(draw.randint(1, 2))]
    ladder = _ladder(made, draw, draw.choice([late, *plain]))
    retry = made.add(QueueRules("retry", DeadLetters("", "work0"), ttl=draw.randint(*TTL)))
    wait = made.add(QueueRules("wait", DeadLetters(DEAD), ttl=draw.randint(*TTL)))
    ways = [
        DeadLetters("", parked),
        DeadLetters(DEAD),
        DeadLetters("", ladder[0]),
        DeadLetters("", wait),
        DeadLetters(DIRECT),
    ]
    work = [made.add(QueueRules("work0", DeadLetters("", retry)))]
    work += [
        made.add(QueueRules(f"work{n}", draw.choice(ways))) for n in range(1, draw.randint(3, 5))
    ]
    short = [
        made.add(QueueRules(f"short{n}", draw.choice(ways[:2]), longest=draw.choice((1, 1, 2, 3))))
        for n in range(2)
    ]
    limit, is_safe = draw.randint(1, 2), draw.random() < 0.5
    limited = [made.add(QueueRules("limited", ways[0], limit=limit, is_safe=is_safe))]
    if is_43:
        least = draw.randint(*TTL)
        delays = {"x-delayed-retry-min": least, "x-delayed-retry-max": least * draw.randint(1, 4)}
        more = {"x-delayed-retry-type": draw.choice(("all", "failed", "returned")), **delays}
        limited.append(made.add(QueueRules("backoff", draw.choice(ways), limit=3, more=more)))
        timed = QueueRules("timed", draw.choice(ways), limit=limit, timeout=TIMEOUT)
        made.timed = [made.add(timed)]
    made.purged = [made.add(QueueRules(f"equal{n}")) for n in range(2)]
    made.equal = [*made.purged, *made.purged, *short]
    made.unbound = [made.add(QueueRules(f"history{n}")) for n in range(3 if keeps else 0)]
    for name in (*plain, *work):
        made.bindings += [QueueBinding(DIRECT, key, name) for key in draw.sample(KEYS, 1)]
        if draw.random() < 0.4:
            made.bindings.append(QueueBinding(FANOUT, "", name))
    made.taken_from = [parked, audit, late, *plain, *work, *work, *limited, *made.purged, short[0]]
    return made


def _ladder(made: Layout, draw: random.Random, end: str) -> list[str]:
    """Queues that delay, each behind the one before, as NServiceBus and Celery have them."""
    names = [f"delay{n}" for n in range(draw.randint(3, 5))]
    for name, following in zip(names, [*names[1:], end], strict=True):
        made.add(QueueRules(name, DeadLetters("", following), ttl=draw.randint(*TTL)))
    return names
