"""Conversations as spans of OpenTelemetry, by its conventions for messaging; without I/O.

A publish is a producer's span, the time of each copy in its queue one of the broker, what was
handed over a consumer's, and its settlement a client's. A death moves a copy and a loss deletes it:
spans of the broker, as long as the time in which that was. A message that carries a ``traceparent``
is under that span of the application; any other under the delivery that led to it, or it begins a
trace. What a shovel or a federation link takes elsewhere has a span by a name that both virtual
hosts' exports know: the publish there is under it. Ids come from what is stored, so a second export
gives the same spans again.
"""

from __future__ import annotations

import enum
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from model.deaths import Death, ReportedDeaths, deaths_of, headers_of
from model.happened import ConversationEvent
from model.words import Disposition, EventType, Match

if TYPE_CHECKING:
    from model.conversations.conversation import Conversation
    from model.conversations.deliveries import Delivery
    from model.conversations.messages import Copy, Message

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


class LinkDelivery(NamedTuple):
    """The delivery to a shovel or a federation link that was published elsewhere; time in µs."""

    vhost: str
    event: int
    at: int


class ExportedSpan(NamedTuple):
    """A span; times in µs. ``is_remote``: its parent is of an application, or another export."""

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


class SpanFacts(NamedTuple):
    """The parts of a stored event that its spans need and `ConversationEvent` does not have."""

    properties: Mapping[str, Any]
    payload_bytes: int | None = None
    connection: str | None = None


class Part(enum.StrEnum):
    """The part of a message's way that a span tells of; a span of ``end`` is over when that is."""

    sent = "sent"  # its publish
    handed = "handed"  # until its delivery: the wait, deaths
    end = "end"  # its handling, what forwards it elsewhere, and its settlement
    loss = "loss"


def spans_of(
    conversation: Conversation,
    facts: Mapping[int, SpanFacts],
    vhost: str,
    arrivals: Mapping[int, LinkDelivery] | None = None,
    *,
    by_keys: bool = False,
) -> Iterator[ExportedSpan]:
    """The spans of a whole conversation; ``arrivals`` are by publish of a shovel or a link.

    With ``by_keys`` its messages are in one trace also where no link joins them.
    """
    root = conversation.messages[0].record if conversation.messages else None
    maker = SpanMaker(vhost, facts, arrivals or {})
    for message in conversation.messages:
        beginning = root if by_keys and root is not None else message.record
        trace = trace_of(vhost, beginning.id, beginning.recorded_at)
        yield from maker.spans(message, conversation.root, trace)


def trace_of(vhost: str, event: int, recorded_at: int) -> bytes:
    """The id of the trace that an event begins."""
    return _id(LinkDelivery(vhost, event, recorded_at), "trace", 16)


def span_context(
    vhost: str, trace: bytes, kind: EventType, event: int, recorded_at: int
) -> Context:
    """The context of an event that others may be under."""
    word = "publish" if kind is EventType.published else "receive"
    return Context(trace, _id(LinkDelivery(vhost, event, recorded_at), word))


def context_in(properties: Mapping[str, Any]) -> Context | None:
    """The span that sent a message, by its ``traceparent``; None where there is no valid one."""
    text = headers_of(properties).get("traceparent")
    match = _TRACEPARENT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    context = Context(bytes.fromhex(match[1]), bytes.fromhex(match[2]))
    return context if any(context.trace_id) and any(context.span_id) else None


def _forward_context(origin: LinkDelivery, properties: Mapping[str, Any]) -> Context:
    """The context of a publish elsewhere, in the application's trace if the message names one."""
    sent_by = context_in(properties)
    trace = sent_by.trace_id if sent_by else _id(origin, "crossing", 16)
    return Context(trace, _id(origin, "crossing"))


def _id(origin: LinkDelivery, word: str, size: int = 8) -> bytes:
    """An id that is the same whenever it is asked for."""
    name = f"{word}\0{origin.event}\0{origin.at}\0{origin.vhost}".encode()
    return hashlib.blake2b(name, digest_size=size).digest()


@dataclass(eq=False)
class SpanMaker:
    """Makes the spans of messages, those first that lead to others.

    ``contexts`` are those of events that lead to others, and grow. Only spans are made whose event
    and part are due.
    """

    vhost: str
    facts: Mapping[int, SpanFacts]
    arrivals: Mapping[int, LinkDelivery] = field(default_factory=dict)
    contexts: dict[int, Context] = field(default_factory=dict)
    is_due: Callable[[int, Part], bool] = lambda event, part: True
    _root: int = field(default=0, init=False)

    def spans(self, message: Message, root: int, trace: bytes) -> Iterator[ExportedSpan]:
        """A message's spans, of the conversation ``root``, in ``trace`` if nothing led to it."""
        self._root, event = root, message.record
        sent_by = context_in(self.facts[event.id].properties)
        causes = [
            self.contexts[link.event] for link in message.led_by if link.event in self.contexts
        ]
        origin = None if causes else self.arrivals.get(event.id)
        if origin is not None:
            causes = [_forward_context(origin, self.facts[event.id].properties)]
        parent = sent_by or (causes[0] if causes else None)
        links = tuple(dict.fromkeys(cause for cause in causes if cause != parent))
        trace = parent.trace_id if parent else trace
        outer = parent
        if not message.unseen:
            outer = self.contexts[event.id] = self._context(trace, event)
            if self.is_due(event.id, Part.sent):
                is_remote = sent_by is not None or origin is not None
                yield self._publish(message, outer, parent, is_remote=is_remote, links=links)
        yield from self._spans_of_copies(message, trace, outer)

    def _spans_of_copies(
        self, message: Message, trace: bytes, outer: Context | None
    ) -> Iterator[ExportedSpan]:
        event = message.record
        carried = () if message.unseen else deaths_of(self.facts[event.id].properties)
        settled = {d.event: d.record.settled_at for c in message.copies for d in c.deliveries}
        for copy in message.copies:
            deaths = ReportedDeaths([*carried])
            for delivery in copy.deliveries:
                is_letter = delivery.match is Match.dead_lettered
                news = deaths.news(delivery.record.deaths) if is_letter else []
                if self.is_due(delivery.event, Part.handed):
                    yield from self._moves(delivery, news, settled, trace, outer)
                yield from self._delivery(message, copy, delivery, trace, outer)
            is_lost = copy.loss is not None and copy.loss.is_final
            if copy.loss is not None and is_lost and self.is_due(event.id, Part.loss):
                times = event.recorded_at, copy.loss.noticed_at
                yield self._act("delete", copy.queue, copy.loss.reason, event, times, trace, outer)

    def _moves(
        self,
        delivery: Delivery,
        news: Sequence[tuple[int, Death]],
        settled: Mapping[int, int | None],
        trace: bytes,
        outer: Context | None,
    ) -> Iterator[ExportedSpan]:
        """Deaths that the delivery is the first to tell of, the oldest first.

        The broker says when in seconds only: a death was in the time since the copy was last seen,
        unless the plugin tells when it was rejected.
        """
        event = delivery.record
        rejections = (settled.get(act.cause) for act in delivery.acts if act.kind == "rejected")
        rejected_at = next((moment for moment in rejections if moment is not None), None)
        interval = (
            (event.recorded_at - max(0, delivery.queued), event.recorded_at)
            if rejected_at is None
            else (rejected_at, rejected_at)
        )
        for index, death in reversed(news):
            times = (
                interval
                if death.reason == "rejected" or rejected_at is None
                else (rejected_at, event.recorded_at)
            )
            yield self._act(f"move\0{index}", death.queue, death.reason, event, times, trace, outer)

    def _act(
        self,
        word: str,
        queue: str,
        reason: str,
        event: ConversationEvent,
        times: tuple[int, int],
        trace: bytes,
        outer: Context | None,
    ) -> ExportedSpan:
        """An act of the broker on a copy in a queue."""
        name = word.partition("\0")[0]
        return ExportedSpan(
            BROKER,
            Context(trace, self._id(event.id, event.recorded_at, f"{word}\0{queue}")),
            outer.span_id if outer else None,
            False,
            f"{name} {queue}",
            OtlpKind.internal,
            times[0],
            max(times),
            {
                "messaging.operation.name": name,
                "messaging.destination.name": queue,
                "itc.reason": reason,
                **self._common(event),
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
        event, failure = message.record, message.failure
        target = destination(event.exchange, _key(event))
        error = failure.kind if failure and failure.kind == "unroutable" else None
        return ExportedSpan(
            event.name,
            context,
            parent.span_id if parent else None,
            is_remote,
            f"publish {target}",
            OtlpKind.producer,
            event.recorded_at,
            event.recorded_at,
            {
                "messaging.operation.name": "publish",
                "messaging.operation.type": "send",
                "messaging.destination.name": target,
                **_error_type(error),
                **self._common(event),
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
        outer: Context | None,
    ) -> Iterator[ExportedSpan]:
        event, queue = delivery.record, delivery.record.queue or copy.queue
        self.contexts[event.id] = self._context(trace, event)
        if not message.unseen:
            context = Context(trace, self._id(event.id, event.recorded_at, "queue"))
            if self.is_due(event.id, Part.handed):
                yield self._wait(delivery, queue, context, outer)
            outer = context
        if self.is_due(event.id, Part.end):
            error = _error(message, copy, delivery)
            is_remote = message.unseen and outer is not None
            yield from self._spans_of_end(delivery, queue, outer, error, is_remote=is_remote)
            if event.settlement in SETTLES and event.settled_at is not None:
                yield self._settlement(event, queue, trace, SETTLES[event.settlement])

    def _wait(
        self, delivery: Delivery, queue: str, context: Context, outer: Context | None
    ) -> ExportedSpan:
        event = delivery.record
        target = destination(event.exchange, _key(event), queue)
        return ExportedSpan(
            BROKER,
            context,
            outer.span_id if outer else None,
            False,
            f"wait {queue}",
            OtlpKind.internal,
            event.recorded_at - max(0, delivery.queued),
            event.recorded_at,
            {"messaging.destination.name": target, **self._common(event)},
        )

    def _spans_of_end(
        self,
        delivery: Delivery,
        queue: str,
        outer: Context | None,
        error: str | None,
        *,
        is_remote: bool,
    ) -> Iterator[ExportedSpan]:
        event = delivery.record
        context = self.contexts[event.id]
        took, end_kind = delivery.settled_after, "settled"
        if took is None:  # that would be known, this is an estimate
            took, end_kind = delivery.handled, delivery.handled_until or ""
        word = "receive" if took is None else "process"
        causes = [self.contexts[act.cause] for act in delivery.acts if act.cause in self.contexts]
        if delivery.mover:
            crossing = self._forward(event, context)
            yield crossing
            causes += [crossing.context] if crossing.links else []
        yield ExportedSpan(
            event.name,
            context,
            outer.span_id if outer else None,
            is_remote,
            f"{word} {queue}",
            OtlpKind.consumer,
            event.recorded_at,
            event.recorded_at + (took or 0),
            {
                "messaging.operation.name": "deliver",
                "messaging.operation.type": word,
                "messaging.destination.name": destination(event.exchange, _key(event), queue),
                **({"itc.until": end_kind} if end_kind else {}),
                **_settled(event),
                **_error_type(error),
                **self._common(event),
            },
            tuple(dict.fromkeys(causes)),
            error,
        )

    def _settlement(
        self, event: ConversationEvent, queue: str, trace: bytes, name: str
    ) -> ExportedSpan:
        moment = event.settled_at or event.recorded_at
        return ExportedSpan(
            event.name,
            Context(trace, self._id(event.id, event.recorded_at, "settle")),
            self.contexts[event.id].span_id,
            False,
            f"{name} {queue}",
            OtlpKind.client,
            moment,
            moment,
            {
                "messaging.operation.name": name,
                "messaging.operation.type": "settle",
                "messaging.destination.name": destination(event.exchange, _key(event), queue),
                **_settled(event),
                **self._common(event),
            },
        )

    def _forward(self, event: ConversationEvent, context: Context) -> ExportedSpan:
        """The span of what a shovel or a federation link publishes elsewhere."""
        origin = LinkDelivery(self.vhost, event.id, event.recorded_at)
        crossing = _forward_context(origin, self.facts[event.id].properties)
        is_inside = crossing.trace_id == context.trace_id
        return ExportedSpan(
            event.name,
            crossing,
            context.span_id if is_inside else None,
            False,
            f"forward {event.queue}",
            OtlpKind.producer,
            event.recorded_at,
            event.recorded_at,
            {"messaging.destination.name": event.queue or "", **self._common(event)},
            () if is_inside else (context,),
        )

    def _common(self, event: ConversationEvent) -> dict[str, Value]:
        properties, payload_bytes, connection = self.facts[event.id]
        attributes: dict[str, Any] = {
            "messaging.system": BROKER,
            "messaging.message.id": properties.get("message_id"),
            "messaging.message.conversation_id": properties.get("correlation_id"),
            "messaging.message.body.size": payload_bytes,
            "messaging.rabbitmq.destination.routing_key": _key(event) or None,
            "messaging.rabbitmq.vhost.name": self.vhost,
            **_server(connection),
            "itc.event.id": event.id,
            "itc.conversation.id": self._root,
            "itc.message.type": event.message_type,
            "itc.match": event.match.name,
            "itc.redelivered": event.redelivered or None,
        }
        return {name: value for name, value in attributes.items() if isinstance(value, (str, int))}

    def _context(self, trace: bytes, event: ConversationEvent) -> Context:
        return span_context(self.vhost, trace, event.type, event.id, event.recorded_at)

    def _id(self, event: int, time: int, word: str, size: int = 8) -> bytes:
        return _id(LinkDelivery(self.vhost, event, time), word, size)


def _server(connection: str | None) -> dict[str, Value]:
    """The broker's address, which a connection's name ends with; not of one within the broker."""
    match = _ADDRESS.search(connection or "")
    if match is None:
        return {}
    port = int(match[2])  # 0 of a socket in the file system
    return {"server.address": match[1], **({"server.port": port} if port else {})}


def destination(exchange: str, key: str, queue: str | None = None) -> str:
    """``messaging.destination.name``: exchange, routing key and queue, without what is empty."""
    parts = [exchange, key, *([queue] if queue and queue != key else [])]
    return ":".join(part for part in parts if part) or "amq.default"


def _key(event: ConversationEvent) -> str:
    return event.routing_keys[0] if event.routing_keys else ""


def _settled(event: ConversationEvent) -> dict[str, Value]:
    return {} if event.settlement is None else {"itc.settlement": event.settlement.name}


def _error_type(error: str | None) -> dict[str, Value]:
    return {} if error is None else {"error.type": error}


def _error(message: Message, copy: Copy, delivery: Delivery) -> str | None:
    """The error of a message, at the last delivery in the queue where it delivered."""
    failure = message.failure
    if failure is None or failure.queue is None:
        return None
    deliveries = [
        delivered for delivered in copy.deliveries if delivered.record.queue == failure.queue
    ]
    if not deliveries or deliveries[-1] is not delivery:
        return None
    return failure.exception or failure.reason or failure.kind
