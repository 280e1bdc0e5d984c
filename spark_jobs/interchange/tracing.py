"""Conversations as spans of OpenTelemetry, by its conventions for messaging; without I/O.

A publish is a producer's span, the time of each copy in its queue one of the broker, what was
handed over a consumer's, and its settlement a client's. A death moves a copy and a loss deletes it:
spans of the broker, as long as the time in which that was. A message that carries a ``traceparent``
is under that span of the application; any other under the delivery that led to it, or it begins a
trace. Ids come from what is stored, so a second export gives the same spans again.
"""

from __future__ import annotations

import enum
import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from model.deaths import ReportedDeaths, deaths_of, headers_of
from model.happened import ConversationEvent
from model.words import Disposition, Match

if TYPE_CHECKING:
    from model.conversations import Conversation, Copy, Delivery, Message
    from spark_jobs.reports.gathering import ConversationRows, Row

Value: TypeAlias = "str | int | bool"

BROKER = "rabbitmq"
"""The service of the spans of queues, and the value of ``messaging.system``."""

# The operations of the conventions for what a consumer did, by the field's words.
SETTLES = {
    Disposition.acknowledged: "ack",
    Disposition.rejected: "reject",
    Disposition.returned: "requeue",
}
_ADDRESS = re.compile(r"-> \[?([^ \]]+)\]?:(\d+)$")
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")


class OtlpKind(enum.IntEnum):
    """The numbers of the protocol."""

    internal = 1
    client = 3
    producer = 4
    consumer = 5


class Context(NamedTuple):
    """A span's name in all the world."""

    trace_id: bytes
    span_id: bytes


class ExportedSpan(NamedTuple):
    """A span; times in µs. ``is_remote``: its parent is the application's own."""

    service: str
    context: Context
    parent: bytes | None
    is_remote: bool
    name: str
    kind: OtlpKind
    begin: int
    end: int
    attributes: dict[str, Value]
    links: tuple[Context, ...] = ()
    error: str | None = None


def spans_of(told: ConversationRows, vhost: str) -> Iterator[ExportedSpan]:
    """The spans of a conversation."""
    return _Spans(told.conversation, told.rows, vhost).all()


def context_in(properties: Mapping[str, Any]) -> Context | None:
    """The span that sent a message, by its ``traceparent``; None where there is no valid one."""
    text = headers_of(properties).get("traceparent")
    found = _TRACEPARENT.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return None
    context = Context(bytes.fromhex(found[1]), bytes.fromhex(found[2]))
    return context if any(context.trace_id) and any(context.span_id) else None


class _Spans:
    def __init__(self, conversation: Conversation, rows: Mapping[int, Row], vhost: str) -> None:
        self.conversation, self.rows, self.vhost = conversation, rows, vhost
        self.contexts: dict[int, Context] = {}  # by event, of what was published and handed over
        root = rows[conversation.root]
        self.trace = self._id(root["id"], root["recorded_at"], "trace", 16)

    def all(self) -> Iterator[ExportedSpan]:
        for message in self.conversation.messages:
            yield from self._of(message)

    def _of(self, message: Message) -> Iterator[ExportedSpan]:
        it = message.it
        sent_by = context_in(self.rows[it.id]["properties"])
        causes = [
            self.contexts[each.event] for each in message.led_by if each.event in self.contexts
        ]
        parent = sent_by or (causes[0] if causes else None)
        links = tuple(dict.fromkeys(each for each in causes if each != parent))
        trace = parent.trace_id if parent else self.trace
        above = parent
        if not message.unseen:
            above = Context(trace, self._id(it.id, it.at, "publish"))
            self.contexts[it.id] = above
            yield self._publish(message, above, parent, is_remote=sent_by is not None, links=links)
        carried = () if message.unseen else deaths_of(self.rows[it.id]["properties"])
        for copy in message.copies:
            deaths = ReportedDeaths([*carried])
            for delivery in copy.deliveries:
                yield from self._moves(delivery, deaths, trace, above)
                yield from self._delivery(message, copy, delivery, trace, above)
            if copy.loss is not None and copy.loss.is_final:
                yield self._act(
                    "delete", copy.queue, copy.loss.reason, it, (it.at, copy.loss.at), trace, above
                )

    def _moves(
        self, delivery: Delivery, deaths: ReportedDeaths, trace: bytes, above: Context | None
    ) -> Iterator[ExportedSpan]:
        """Deaths that the delivery is the first to tell of, the oldest first.

        The broker says when in seconds only: a death was in the time since the copy was last seen,
        unless the plugin tells when it was rejected.
        """
        it = delivery.it
        if it.match is not Match.dead_lettered:
            return
        rejected = (self.rows.get(a.cause) for a in delivery.acts if a.kind == "rejected")
        told = next((row["settled_at"] for row in rejected if row), None)
        during = (it.at - max(0, delivery.queued), it.at) if told is None else (told, told)
        for place, death in reversed(deaths.news(it.deaths)):
            times = during if death.reason == "rejected" or told is None else (told, it.at)
            yield self._act(f"move\0{place}", death.queue, death.reason, it, times, trace, above)

    def _act(
        self,
        word: str,
        queue: str,
        reason: str,
        it: ConversationEvent,
        during: tuple[int, int],
        trace: bytes,
        above: Context | None,
    ) -> ExportedSpan:
        """An act of the broker on a copy in a queue."""
        name = word.partition("\0")[0]
        return ExportedSpan(
            BROKER,
            Context(trace, self._id(it.id, it.at, f"{word}\0{queue}")),
            above.span_id if above else None,
            False,
            f"{name} {queue}",
            OtlpKind.internal,
            during[0],
            max(during),
            {
                "messaging.operation.name": name,
                "messaging.destination.name": queue,
                "itc.reason": reason,
                **self._common(it),
            },
        )

    def _publish(
        self,
        message: Message,
        context: Context,
        parent: Context | None,
        *,
        is_remote: bool,
        links: tuple[Context, ...],
    ) -> ExportedSpan:
        it, failure = message.it, message.failure
        place = destination(it.exchange, _key(it))
        error = failure.kind if failure and failure.kind == "unroutable" else None
        return ExportedSpan(
            it.name,
            context,
            parent.span_id if parent else None,
            is_remote,
            f"publish {place}",
            OtlpKind.producer,
            it.at,
            it.at,
            {
                "messaging.operation.name": "publish",
                "messaging.operation.type": "send",
                "messaging.destination.name": place,
                **_error_type(error),
                **self._common(it),
            },
            links,
            error,
        )

    def _delivery(
        self,
        message: Message,
        copy: Copy,
        delivery: Delivery,
        trace: bytes,
        above: Context | None,
    ) -> Iterator[ExportedSpan]:
        it, queue = delivery.it, delivery.it.queue or copy.queue
        place = destination(it.exchange, _key(it), queue)
        if not message.unseen:
            waited = Context(trace, self._id(it.id, it.at, "queue"))
            yield ExportedSpan(
                BROKER,
                waited,
                above.span_id if above else None,
                False,
                f"wait {queue}",
                OtlpKind.internal,
                it.at - max(0, delivery.queued),
                it.at,
                {"messaging.destination.name": place, **self._common(it)},
            )
            above = waited
        context = Context(trace, self._id(it.id, it.at, "receive"))
        self.contexts[it.id] = context
        took, until = delivery.settled_after, "settled"
        if took is None:  # that would be known, this is an estimate
            took, until = delivery.handled, delivery.handled_until or ""
        word = "receive" if took is None else "process"
        error = _error(message, copy, delivery)
        before = [self.contexts[act.cause] for act in delivery.acts if act.cause in self.contexts]
        yield ExportedSpan(
            it.name,
            context,
            above.span_id if above else None,
            message.unseen and above is not None,
            f"{word} {queue}",
            OtlpKind.consumer,
            it.at,
            it.at + (took or 0),
            {
                "messaging.operation.name": "deliver",
                "messaging.operation.type": word,
                "messaging.destination.name": place,
                **({"itc.until": until} if until else {}),
                **_error_type(error),
                **self._common(it),
            },
            tuple(dict.fromkeys(before)),
            error,
        )
        if it.settlement in SETTLES and it.settled_at is not None:
            settled = Context(trace, self._id(it.id, it.at, "settle"))
            name = SETTLES[it.settlement]
            yield ExportedSpan(
                it.name,
                settled,
                context.span_id,
                False,
                f"{name} {queue}",
                OtlpKind.client,
                it.settled_at,
                it.settled_at,
                {
                    "messaging.operation.name": name,
                    "messaging.operation.type": "settle",
                    "messaging.destination.name": place,
                    **self._common(it),
                },
            )

    def _common(self, it: ConversationEvent) -> dict[str, Value]:
        row = self.rows[it.id]
        said = row["properties"]
        attributes: dict[str, Any] = {
            "messaging.system": BROKER,
            "messaging.message.id": said.get("message_id"),
            "messaging.message.conversation_id": said.get("correlation_id"),
            "messaging.message.body.size": row.get("payload_bytes"),
            "messaging.rabbitmq.destination.routing_key": _key(it) or None,
            "messaging.rabbitmq.vhost.name": self.vhost,
            **_server(row.get("connection")),
            "itc.event.id": it.id,
            "itc.conversation.id": self.conversation.root,
            "itc.message.type": it.message_type,
            "itc.match": it.match.name,
            "itc.redelivered": it.redelivered or None,
            "itc.settlement": None if it.settlement is None else it.settlement.name,
        }
        return {name: value for name, value in attributes.items() if isinstance(value, (str, int))}

    def _id(self, event: int, at: int, word: str, size: int = 8) -> bytes:
        """An id that is the same whenever it is asked for."""
        name = f"{word}\0{event}\0{at}\0{self.vhost}".encode()
        return hashlib.blake2b(name, digest_size=size).digest()


def _server(connection: str | None) -> dict[str, Value]:
    """The broker's address, which a connection's name ends with; not of one within the broker."""
    found = _ADDRESS.search(connection or "")
    if found is None:
        return {}
    port = int(found[2])  # 0 of a socket in the file system
    return {"server.address": found[1], **({"server.port": port} if port else {})}


def destination(exchange: str, key: str, queue: str | None = None) -> str:
    """``messaging.destination.name``: exchange, routing key and queue, without what is empty."""
    parts = [exchange, key, *([queue] if queue and queue != key else [])]
    return ":".join(part for part in parts if part) or "amq.default"


def _key(it: ConversationEvent) -> str:
    return it.routing_keys[0] if it.routing_keys else ""


def _error_type(error: str | None) -> dict[str, Value]:
    return {} if error is None else {"error.type": error}


def _error(message: Message, copy: Copy, delivery: Delivery) -> str | None:
    """The error of a message, at the last delivery in the queue where it failed."""
    failure = message.failure
    if failure is None or failure.queue is None:
        return None
    there = [each for each in copy.deliveries if each.it.queue == failure.queue]
    if not there or there[-1] is not delivery:
        return None
    return failure.exception or failure.reason or failure.kind
