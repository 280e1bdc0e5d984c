"""Causal histories for the dashboard's tests: what a broker might have traced, made up.

`simulate` plays an order pipeline (topic, fanout, default exchange, dead letters, redeliveries,
a few deliveries whose publish nobody saw): id order is a linear extension of happens-before, and
Lamport times and sequence numbers follow.
"""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

START = 1_767_322_800_000_000  # 2026-01-02T03:00:00Z, microseconds

HOSTILE = (
    "<img src=x onerror=\"window.pwned='name'\">",
    "\u202egnp.exe\u202c right-to-left",
    "tab\tnewline\nnul\x00bell\x07",
    "emoji 🧨👩‍👩‍👧‍👦 &amp; &lt;b&gt;",
    "'\"`--;${window.pwned='template'}</script><script>window.pwned='script'</script>",
    "x" * 255,
)


class Event(NamedTuple):
    """One stored event; `prev` is the id of the participant's previous event, or 0.

    `prompt` is the delivery that a publish follows from, or 0, and `named` says whether the publish
    names it as its cause; `also` are further deliveries that it names. `kind` is its type.
    """

    id: int
    vhost: str
    received: bool
    match: str
    cause: int
    participant: int
    seq: int
    lamport: int
    at: int
    exchange: str
    queue: str | None
    key: str
    routed: tuple[str, ...] | None
    redelivered: bool
    prev: int
    payload: bytes
    headers: dict[str, Any]
    prompt: int = 0
    named: bool = False
    message_id: str = ""
    correlation_id: str = ""
    also: tuple[int, ...] = ()
    kind: str = ""


def death(queue: str, publish: Event, reason: str = "rejected") -> dict[str, Any]:
    """The entry in ``x-death`` of a message that died in a queue."""
    where = {"exchange": publish.exchange, "routing-keys": [publish.key]}
    return {"queue": queue, "reason": reason, "count": 1, **where}


class Participant(NamedTuple):
    """Who acts: one channel of one connection."""

    number: int
    user: str
    connection: str
    channel: int
    node: str

    @property
    def name(self) -> str:
        return f"{self.user}@{self.place} #{self.number}"

    @property
    def place(self) -> str:
        return self.connection.partition(":")[0]


SERVICES = ("shop", "billing", "stock", "mailer", "auditor")
QUEUES = {"billing": "billing", "stock": "stock", "mailer": "mail.out", "auditor": "audit"}


class Simulation:
    """Runs as long as it is asked to; each `step` is one stored event."""

    def __init__(
        self,
        vhost: str,
        participants: int,
        seed: int,
        hostile: bool = False,
        start: int = START,
    ) -> None:
        self.vhost = vhost
        self.random = random.Random(seed)
        self.hostile = hostile
        self.now = start
        self.orders = 0
        self.pending: deque[tuple[str, Event, str]] = deque()
        self.last: dict[int, Event] = {}
        self.participants = self._make_participants(max(participants, len(SERVICES)))
        self.by_service: dict[str, list[Participant]] = {s: [] for s in SERVICES}
        for p in self.participants:
            self.by_service[SERVICES[(p.number - 1) % len(SERVICES)]].append(p)

    def _make_participants(self, count: int) -> list[Participant]:
        made = []
        for i in range(count):
            service = SERVICES[i % len(SERVICES)]
            user = HOSTILE[i % len(HOSTILE)] if self.hostile else service
            port = 40_000 + (i // 2) * 7
            host = f"10.0.{i % len(SERVICES)}.{10 + i // len(SERVICES) % 200}"
            connection = f"{host}:{port} -> 10.0.9.1:5672"
            channel = 1 + i // len(SERVICES) % 2
            made.append(Participant(i + 1, user, connection, channel, "rabbit@host"))
        return made

    def step(self, next_id: int) -> Event:
        """The next event, with this id."""
        self.now += self.random.randint(200, 40_000)
        chance = self.random.random()
        if not self.pending or (chance < 0.16 and len(self.pending) < 60):
            return self._order(next_id)
        if chance > 0.995:
            return self._unmatched(next_id)
        return self._deliver(next_id, *self.pending.popleft())

    def _order(self, next_id: int) -> Event:
        self.orders += 1
        who = self.random.choice(self.by_service["shop"])
        body = {"order": self.orders, "item": "lamp", "price": round(self.random.random() * 90, 2)}
        if self.hostile:
            body["note"] = HOSTILE[self.orders % len(HOSTILE)]
        queues = ("billing", "stock", "audit")
        return self._publish(next_id, who, "orders", "order.new", queues, body, None)

    def _publish(
        self,
        next_id: int,
        who: Participant,
        exchange: str,
        key: str,
        routed: tuple[str, ...],
        body: dict[str, Any],
        prompt: Event | None,
    ) -> Event:
        named = prompt is not None and prompt.queue == "billing"
        headers = {"tenant": ("acme", "globex")[self.orders % 2]}
        if prompt is not None:
            headers = {"tenant": prompt.headers["tenant"]}
            headers |= {"causation_id": prompt.message_id} if named else {}
        name = HOSTILE[next_id % len(HOSTILE)] if self.hostile else exchange
        event = self._event(
            next_id,
            who,
            received=False,
            match="none",
            cause=None,
            exchange=name,
            queue=None,
            key=key,
            routed=routed,
            payload=json.dumps(body).encode(),
            headers=headers,
        )._replace(
            prompt=prompt.id if prompt else 0,
            named=named,
            message_id=f"m-{next_id}",
            correlation_id=prompt.correlation_id if prompt else f"order-{self.orders}",
        )
        self.last[who.number] = event
        self.pending.extend((queue, event, "routed") for queue in routed)
        return event

    def _deliver(self, next_id: int, queue: str, publish: Event, match: str) -> Event:
        service = next((s for s, q in QUEUES.items() if q == queue), "auditor")
        who = self.random.choice(self.by_service[service])
        dead = match == "dead_lettered"
        event = self._event(
            next_id,
            who,
            received=True,
            match=match,
            cause=publish,
            exchange="dlx" if dead else publish.exchange,
            queue=HOSTILE[next_id % len(HOSTILE)] if self.hostile else queue,
            key=publish.key,
            routed=None,
            payload=publish.payload,
            headers=publish.headers | ({"x-death": [death("stock", publish)]} if dead else {}),
        )._replace(message_id=publish.message_id, correlation_id=publish.correlation_id)
        self.last[who.number] = event
        self._what_follows(queue, publish)
        return event

    def _what_follows(self, queue: str, publish: Event) -> None:
        """Now and then a delivery is requeued, or rejected into the dead letter queue."""
        chance = self.random.random()
        if chance < 0.02:
            self.pending.appendleft((queue, publish, "redelivered"))
        elif chance < 0.05 and queue == "stock":
            self.pending.append(("dead.orders", publish, "dead_lettered"))

    def follow_up(self, next_id: int, event: Event) -> Event | None:
        """What the consumer publishes in response, if anything."""
        if not event.received or event.match != "routed" or self.random.random() > 0.6:
            return None
        who = self.participants[event.participant - 1]
        if event.queue == "billing":
            body = {"paid": event.cause}
            return self._publish(next_id, who, "notify", "", ("mail.out", "audit"), body, event)
        if event.queue == "mail.out":
            body = {"mailed": event.cause}
            return self._publish(next_id, who, "", "audit", ("audit",), body, event)
        return None

    def _unmatched(self, next_id: int) -> Event:
        who = self.random.choice(self.by_service["auditor"])
        return self._event(
            next_id,
            who,
            received=True,
            match="unmatched",
            cause=None,
            exchange="orders",
            queue="audit",
            key="order.old",
            routed=None,
            payload=b"\x00\xff\xfe binary \x80",
        )

    def _event(
        self,
        next_id: int,
        who: Participant,
        *,
        received: bool,
        match: str,
        cause: Event | None,
        exchange: str,
        queue: str | None,
        key: str,
        routed: tuple[str, ...] | None,
        payload: bytes,
        headers: dict[str, Any] | None = None,
    ) -> Event:
        before = self.last.get(who.number)
        event = Event(
            id=next_id,
            vhost=self.vhost,
            received=received,
            match=match,
            cause=cause.id if cause else 0,
            participant=who.number,
            seq=before.seq + 1 if before else 1,
            lamport=1 + max(before.lamport if before else 0, cause.lamport if cause else 0),
            at=self.now,
            exchange=exchange,
            queue=queue,
            key=key,
            routed=routed,
            redelivered=match == "redelivered",
            prev=before.id if before else 0,
            payload=payload,
            headers=headers or {},
        )
        self.last[who.number] = event
        return event

    def run(self, first_id: int) -> Iterator[Event]:
        """Events without end, with ids from `first_id`."""
        next_id = first_id
        while True:
            event = self.step(next_id)
            yield event
            next_id += 1
            answer = self.follow_up(next_id, event)
            if answer:
                yield answer
                next_id += 1


def past(events: list[Event], end: Event) -> set[int]:
    """Ids of all that happened before `end`, and its own."""
    seen = {end.id}
    todo = [end]
    while todo:
        event = todo.pop()
        for before in (event.prev, event.cause):
            if before and before not in seen:
                seen.add(before)
                todo.append(events[before - 1])
    return seen


def future(events: list[Event], start: Event) -> set[int]:
    """Ids of all that happened after `start`, and its own."""
    seen = {start.id}
    for event in events[start.id :]:
        if event.prev in seen or event.cause in seen:
            seen.add(event.id)
    return seen


def evident(event: Event, conversation: bool = False) -> list[int]:
    """The ids of what led straight to an event: by a message, or by a link or a conversation."""
    by_link = event.prompt if event.named or conversation else 0
    return [number for number in (event.cause, by_link, *event.also) if number]


def evident_past(events: list[Event], end: Event, conversation: bool = False) -> set[int]:
    """Ids of what evidently led to `end`, without its own."""
    seen: set[int] = set()
    todo = [end]
    while todo:
        before = set(evident(todo.pop(), conversation)) - seen
        seen |= before
        todo.extend(events[number - 1] for number in before)
    return seen


def evident_future(events: list[Event], start: Event, conversation: bool = False) -> set[int]:
    """Ids of what `start` evidently led to, without its own."""
    seen = {start.id}
    for event in events[start.id :]:
        if not seen.isdisjoint(evident(event, conversation)):
            seen.add(event.id)
    return seen - {start.id}


def chain(events: list[Event], first: Event, last: Event, via: str) -> list[int]:
    """The ids of a chain, whose first event happened before the last."""
    if via == "any":
        return sorted(past(events, last) & future(events[: last.id], first))
    wide = via == "conversation"
    before = evident_past(events, last, wide)
    if first.id not in before:
        return []
    return sorted({first.id, last.id} | before & evident_future(events[: last.id], first, wide))
