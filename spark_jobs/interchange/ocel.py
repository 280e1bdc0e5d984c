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
    from model.conversations import BrokerAct, Conversation, Message
    from spark_jobs.reports.gathering import ConversationRows

# What is so from the beginning has this time, as the standard says.
ALWAYS = "1970-01-01T00:00:00Z"

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
    shared: dict[str, bytes]
    types: set[str]


def logged(told: ConversationRows) -> LogPart:
    """A conversation as events and objects."""
    conversation = told.conversation
    found = LogPart([], [_conversation(conversation, is_cut=told.is_cut)], {}, set())
    messages = _messages_of_events(conversation)
    for message in conversation.messages:
        found.objects.append(_message(conversation.root, message, messages))
        for it, acts in _events_of(message):
            keys = [*keys_in(told.rows[it.id]["properties"])]
            kind = type_of_event(message.it.message_type, it.type)
            found.types.add(kind)
            did = [
                (told.rows[act.cause]["participant"], act.kind)
                for act in acts
                if act.cause in told.rows
            ]
            found.events.append(_event(conversation.root, message, it, kind, keys, did))
            found.shared.update(_shared(it, keys))
    for key in conversation.keys:
        found.shared.setdefault(_id("key", key), _object("key", key, {"value": key}))
    return found


def type_of_event(message_type: str, what: EventType) -> str:
    """The type of an event: ``order.new published``."""
    return f"{message_type} {what.name}"


def head() -> bytes:
    """The log's beginning: events follow, then `between`, objects and `tail`."""
    return b'{\n"events": [\n'


def between() -> bytes:
    """The relations between events and objects."""
    return b'\n],\n"objects": [\n'


def tail(types: set[str]) -> bytes:
    """The log's end, which declares the types."""
    events = [{"name": each, "attributes": _declared(EVENT_ATTRIBUTES)} for each in sorted(types)]
    objects = [
        {"name": name, "attributes": _declared(attributes)}
        for name, attributes in OBJECT_ATTRIBUTES.items()
    ]
    return b'\n],\n"objectTypes": %b,\n"eventTypes": %b\n}\n' % (_json(objects), _json(events))


def digest(object_id: str) -> int:
    """A number of 64 bits by which objects that were written are known."""
    return int.from_bytes(hashlib.blake2b(object_id.encode(), digest_size=8).digest(), "big")


def _declared(attributes: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "type": kind} for name, kind in attributes.items()]


def _events_of(message: Message) -> Iterator[tuple[ConversationEvent, Sequence[BrokerAct]]]:
    """The publish and the deliveries, each once, with what the broker did."""
    if not message.unseen:
        yield message.it, ()
    for copy in message.copies:
        for delivery in copy.deliveries:
            yield delivery.it, delivery.acts


def _messages_of_events(conversation: Conversation) -> dict[int, int]:
    """By event the publish of its message."""
    return {
        it.id: message.it.id for message in conversation.messages for it, _ in _events_of(message)
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
    led = dict.fromkeys(messages[each.event] for each in message.led_by if each.event in messages)
    relations = [(_id("conversation", root), "part of")]
    relations += [(_id("message", each), "caused by") for each in led if each != message.it.id]
    values = {"type": message.it.message_type, "outcome": message.outcome.value}
    return _object("message", message.it.id, values, relations)


def _event(
    root: int,
    message: Message,
    it: ConversationEvent,
    kind: str,
    keys: list[str],
    did: Iterable[tuple[int, str]],
) -> bytes:
    """The event; ``did`` says who gave its copy back, rejected it, or pushed it out.

    That is an attribute, and a relation where the participant has no other one to the event.
    """
    is_publish = it.type is EventType.published
    queues = dict.fromkeys(it.routed_queues) if is_publish else [it.queue] if it.queue else []
    related = [
        (_id("conversation", root), "conversation"),
        (_id("message", message.it.id), "message"),
        (_id("participant", it.participant), "publisher" if is_publish else "receiver"),
        *((_id("queue", queue), "routed to" if is_publish else "from") for queue in queues),
        *((_id("key", key), "key") for key in keys),
        *((_id("participant", number), f"{word} by") for number, word in did),
    ]
    acts = {f"{word}_by": _id("participant", number) for number, word in did}
    values = {
        "event": it.id,
        "message_type": it.message_type,
        "exchange": it.exchange,
        "routing_key": it.routing_keys[0] if it.routing_keys else "",
        "match": it.match.name,
        "redelivered": it.redelivered,
        **({} if it.settlement is None else {"settlement": it.settlement.name}),
        **({} if it.settled_at is None else {"settled_at": iso_time(it.settled_at)}),
        **acts,
    }
    return _json(
        {
            "id": f"event:{it.id}",
            "type": kind,
            "time": iso_time(it.at),
            "attributes": [{"name": name, "value": _text(value)} for name, value in values.items()],
            "relationships": _relations(related),
        }
    )


def _shared(it: ConversationEvent, keys: list[str]) -> Iterator[tuple[str, bytes]]:
    """The objects of an event that other conversations may have too."""
    values = {"name": it.name, "number": it.participant}
    yield _id("participant", it.participant), _object("participant", it.participant, values)
    for queue in (*it.routed_queues, it.queue):
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
                {"name": each, "time": ALWAYS, "value": _text(value)}
                for each, value in values.items()
            ],
            "relationships": _relations(related or []),
        }
    )


def _relations(related: list[tuple[str, str]]) -> list[dict[str, str]]:
    """Relations, of two to one object the first: pm4py drops one, which one it does not say."""
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
