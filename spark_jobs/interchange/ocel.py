"""Conversations as an object-centric event log, OCEL 2.0 in JSON; without I/O.

Events are publishes and deliveries, by message type. Objects are conversations, messages, the keys
that people know them by, participants and queues. Values are texts, as the standard's own schema
has them; the types of attributes say what to read them as.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from model.happened import ConversationEvent, keys_in
from model.times import iso_time
from model.words import EventType

if TYPE_CHECKING:
    from model.conversations.conversation import Conversation
    from model.conversations.deliveries import BrokerAct
    from model.conversations.messages import Message
    from spark_jobs.reports.conversations import ConversationRows

# The time of attributes that never change, by the standard.
EPOCH_BEGIN = "1970-01-01T00:00:00Z"

EVENT_ATTRIBUTES = {
    "event": "integer",
    "message_type": "string",
    "exchange": "string",
    "routing_key": "string",
    "match": "string",
    "redelivered": "boolean",
    "settlement": "string",
    "settled_at": "time",
    "returned_by": "string",
    "rejected_by": "string",
    "overflow_by": "string",
}
OBJECT_ATTRIBUTES: dict[str, dict[str, str]] = {
    "conversation": {
        "type": "string",
        "outcome": "string",
        "messages": "integer",
        "microseconds": "integer",
        "is_cut": "boolean",
    },
    "message": {"type": "string", "outcome": "string"},
    "key": {"value": "string"},
    "participant": {"name": "string", "number": "integer"},
    "queue": {"name": "string"},
}


class LogPart(NamedTuple):
    """A conversation's part of a log: its events, its own objects, and those that others have too.

    The last ones are by id. ``types`` are the events' types.
    """

    events: list[bytes]
    objects: list[bytes]
    common: dict[str, bytes]
    types: set[str]


def log_part(rows: ConversationRows) -> LogPart:
    """A conversation as events and objects."""
    conversation = rows.conversation
    part = LogPart([], [_conversation(conversation, is_cut=rows.is_cut)], {}, set())
    messages = _messages_of_events(conversation)
    for message in conversation.messages:
        part.objects.append(_message(conversation.root, message, messages))
        for event, acts in _events_of(message):
            keys = [*keys_in(rows.rows[event.id]["properties"])]
            kind = f"{message.record.message_type} {event.type.name}"  # as ``order.new published``
            part.types.add(kind)
            actors = [
                (rows.rows[act.cause]["participant"], act.kind)
                for act in acts
                if act.cause in rows.rows
            ]
            part.events.append(_event(conversation.root, message, event, kind, keys, actors))
            part.common.update(_shared_objects(event, keys))
    for key in conversation.keys:
        part.common.setdefault(_id("key", key), _object("key", key, {"value": key}))
    return part


def head() -> bytes:
    """The log's beginning: events follow, then `between`, objects and `tail`."""
    return b'{\n"events": [\n'


def middle() -> bytes:
    """The relations between events and objects."""
    return b'\n],\n"objects": [\n'


def tail(types: set[str]) -> bytes:
    """The log's end, which declares the types."""
    events = [{"name": name, "attributes": _declare(EVENT_ATTRIBUTES)} for name in sorted(types)]
    objects = [
        {"name": name, "attributes": _declare(attributes)}
        for name, attributes in OBJECT_ATTRIBUTES.items()
    ]
    return b'\n],\n"objectTypes": %b,\n"eventTypes": %b\n}\n' % (_json(objects), _json(events))


def object_digest(object_id: str) -> int:
    """A number of 64 bits by which objects that were written are known."""
    return int.from_bytes(hashlib.blake2b(object_id.encode(), digest_size=8).digest(), "big")


def _declare(attributes: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "type": kind} for name, kind in attributes.items()]


def _events_of(message: Message) -> Iterator[tuple[ConversationEvent, Sequence[BrokerAct]]]:
    """The publish and the deliveries, each once, with what the broker did."""
    if not message.unseen:
        yield message.record, ()
    for copy in message.copies:
        for delivery in copy.deliveries:
            yield delivery.record, delivery.acts


def _messages_of_events(conversation: Conversation) -> dict[int, int]:
    """By event the publish of its message."""
    return {
        event.id: message.record.id
        for message in conversation.messages
        for event, _ in _events_of(message)
    }


def _conversation(conversation: Conversation, *, is_cut: bool) -> bytes:
    values = {
        "type": conversation.type,
        "outcome": conversation.outcome.value,
        "messages": conversation.counts.messages,
        "microseconds": conversation.ended_at - conversation.began_at,
        "is_cut": is_cut,
    }
    keys = [(_id("key", key), "known by") for key in conversation.keys]
    return _object("conversation", conversation.root, values, keys)


def _message(root: int, message: Message, messages: Mapping[int, int]) -> bytes:
    causes = dict.fromkeys(
        messages[link.event] for link in message.led_by if link.event in messages
    )
    relations = [(_id("conversation", root), "part of")]
    relations += [
        (_id("message", cause), "caused by") for cause in causes if cause != message.record.id
    ]
    values = {"type": message.record.message_type, "outcome": message.outcome.value}
    return _object("message", message.record.id, values, relations)


def _event(
    root: int,
    message: Message,
    event: ConversationEvent,
    kind: str,
    keys: list[str],
    actors: Iterable[tuple[int, str]],
) -> bytes:
    """The event; ``actors`` says who gave its copy back, rejected it, or pushed it out.

    That is an attribute, and a relation where the participant has no other one to the event.
    """
    is_publish = event.type is EventType.published
    queues = (
        dict.fromkeys(event.routed_queues) if is_publish else [event.queue] if event.queue else []
    )
    related = [
        (_id("conversation", root), "conversation"),
        (_id("message", message.record.id), "message"),
        (_id("participant", event.participant), "publisher" if is_publish else "receiver"),
        *((_id("queue", queue), "routed to" if is_publish else "from") for queue in queues),
        *((_id("key", key), "key") for key in keys),
        *((_id("participant", number), f"{word} by") for number, word in actors),
    ]
    acts = {f"{word}_by": _id("participant", number) for number, word in actors}
    values = {
        "event": event.id,
        "message_type": event.message_type,
        "exchange": event.exchange,
        "routing_key": event.routing_keys[0] if event.routing_keys else "",
        "match": event.match.name,
        "redelivered": event.redelivered,
        **({} if event.settlement is None else {"settlement": event.settlement.name}),
        **({} if event.settled_at is None else {"settled_at": iso_time(event.settled_at)}),
        **acts,
    }
    return _json(
        {
            "id": f"event:{event.id}",
            "type": kind,
            "time": iso_time(event.recorded_at),
            "attributes": [{"name": name, "value": _text(value)} for name, value in values.items()],
            "relationships": _relations(related),
        }
    )


def _shared_objects(event: ConversationEvent, keys: list[str]) -> Iterator[tuple[str, bytes]]:
    """The objects of an event that other conversations may have too."""
    values = {"name": event.name, "number": event.participant}
    yield _id("participant", event.participant), _object("participant", event.participant, values)
    for queue in (*event.routed_queues, event.queue):
        if queue:
            yield _id("queue", queue), _object("queue", queue, {"name": queue})
    for key in keys:
        yield _id("key", key), _object("key", key, {"value": key})


def _object(
    kind: str, name: object, values: Mapping[str, Any], related: list[tuple[str, str]] | None = None
) -> bytes:
    return _json(
        {
            "id": _id(kind, name),
            "type": kind,
            "attributes": [
                {"name": attribute, "time": EPOCH_BEGIN, "value": _text(value)}
                for attribute, value in values.items()
            ],
            "relationships": _relations(related or []),
        }
    )


def _relations(related: list[tuple[str, str]]) -> list[dict[str, str]]:
    """Relations, the first one to each object: pm4py drops one of two."""
    first: dict[str, str] = {}
    for name, word in related:
        first.setdefault(name, word)
    return [{"objectId": name, "qualifier": word} for name, word in first.items()]


def _id(kind: str, name: object) -> str:
    return f"{kind}:{name}"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
