"""A broker in a few lines: queues, copies and dead letters, and what its firehose would show.

With every trace record it keeps the explicit causal history of the event, with which the tracker's
clocks are compared. A message leads on what its last holder knew when it is handed over next: when
it was given back or rejected, no trace says.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any

from app.tracker import Channel, Deliver, Publish, Record


def channel(name: str) -> Channel:
    return Channel("rabbit@test", f"{name} -> 127.0.0.1:5672", 1, name)


@dataclass
class Message:
    exchange: str
    key: str
    body: bytes
    properties: dict[str, Any]
    cause: int  # the publish, as an index into the history
    redelivered: bool = False
    holder: str | None = None  # who was handed it last


@dataclass
class Broker:
    """``history[n]`` is the set of events at or before event n, itself included."""

    queues: dict[str, deque[Message]]
    dead_letters: dict[str, str] = field(default_factory=dict)  # queue → its dead letter queue
    records: list[Record] = field(default_factory=list)
    history: list[frozenset[int]] = field(default_factory=list)
    last: dict[str, int] = field(default_factory=dict)

    def publish(self, who: str, queues: list[str], body: bytes, **properties: Any) -> int:
        record = Publish(channel(who), "x", ("key",), tuple(queues), properties, body)
        event = self._record(who, record)
        for name in queues:
            self.queues[name].append(Message("x", "key", body, properties, event))
        return event

    def deliver(self, who: str, queue: str) -> tuple[int, Message]:
        message = self.queues[queue].popleft()
        record = Deliver(
            channel(who),
            message.exchange,
            (message.key,),
            queue,
            message.redelivered,
            message.properties,
            message.body,
        )
        holder = None if message.holder is None else self.last[message.holder]
        message.holder = who
        return self._record(who, record, message.cause, holder), message

    def requeue(self, queue: str, message: Message) -> None:
        self.queues[queue].appendleft(replace(message, redelivered=True))

    def die(self, queue: str, message: Message, reason: str) -> None:
        target = self.dead_letters[queue]
        headers = dict(message.properties.get("headers", {}))
        death = {
            "queue": queue,
            "reason": reason,
            "exchange": message.exchange,
            "routing-keys": [message.key],
            "count": 1,
        }
        headers["x-death"] = [death, *headers.get("x-death", [])]
        properties = {**message.properties, "headers": headers}
        self.queues[target].append(
            replace(message, exchange="", key=target, properties=properties, redelivered=False)
        )

    def _record(self, who: str, record: Record, *causes: int | None) -> int:
        event = len(self.records)
        known = {event}
        for before in (self.last.get(who), *causes):
            if before is not None:
                known |= self.history[before]
        self.records.append(record)
        self.history.append(frozenset(known))
        self.last[who] = event
        return event
