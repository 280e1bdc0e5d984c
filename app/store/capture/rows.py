"""The tracker's results as rows: tuples in the order of the tables' columns.

References in them must have their ids already. Plain Python, because every event needs one:
building 500 rows takes a few milliseconds, and an object mapper takes several times that.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from operator import attrgetter, itemgetter
from typing import Any, TypeAlias

import msgspec

from app.store.capture.settlements import Settled
from app.store.database.engine import Dialect
from app.stored.spans import context_of
from app.tracker.events import ChannelState, Edge, LostCopy, PendingCopy, StampedEvent
from app.tracker.links.names import NO_NAMES, Key, Names
from app.tracker.values import readable
from model.words import IS_CONVERSATION, IS_FOUND_BY, Awareness, EdgeKind, EventType

Row: TypeAlias = tuple[Any, ...]

_encode = msgspec.json.Encoder().encode
_MOST_TEXTS = 2_000  # lists of words
_KEY = itemgetter(2)
_channel_fields = attrgetter("node", "connection", "number", "user")
_channel_state = attrgetter("last_event_id", "replies_to")
_BOTH_ROLES = IS_CONVERSATION | IS_FOUND_BY


class _Texts(dict[tuple[str, ...], str]):
    """Lists of words as they are stored; most come again and again."""

    def __missing__(self, words: tuple[str, ...]) -> str:
        if len(self) >= _MOST_TEXTS:
            self.clear()
        text = self[words] = _encode(words).decode()
        return text


_TEXTS = _Texts()


def event_rows(
    dialect: Dialect,
    trace_id: int,
    events: Iterable[StampedEvent],
    body_bytes: int,
    settled: Settled,
) -> list[Row]:
    """Rows of ``events`` in the order of `OF_EVENTS`, each body cut to ``body_bytes``.

    A body that is an AMQP 1.0 value is stored as text. ``settled`` is by the events' ids.
    """
    encode, texts, flags = _encode, _TEXTS, dialect.flags
    absent, blob = dialect.absent, dialect.blob
    unknown = (absent, absent, absent)
    return [
        (
            reference.id,
            +record.event_type,  # a plain number, in half the time that int takes
            +event.match,
            absent if event.cause is None else event.cause.id,
            absent if event.candidates is None else event.candidates,
            flags[event.is_doubtful],
            event.participant,
            event.seq,
            event.lamport,
            event.recorded_at,
            record.exchange,
            absent if record.queue is None else record.queue,
            texts[record.routing_keys],
            absent if record.routed_queues is None else texts[record.routed_queues],
            flags[record.redelivered],
            flags[event.quiet],
            disposition,
            settled_at,
            encode(record.properties).decode(),
            blob(record.body[:body_bytes]) if body_bytes else absent,
            len(record.body),
            blob(record.sha256 or sha256(record.body).digest())
            if len(record.body) > body_bytes
            else absent,
            texts[record.redactions] if record.redactions else absent,
            trace_id,
            event.height,
            blob(reference.packed),
            event.channel_key,
            blob(event.fingerprint),
            blob(b"".join(event.names.ids)) if event.names.ids else absent,
            hold,
        )
        for event in events
        for reference in [event.reference]
        for disposition, settled_at, hold in [settled.get(reference.id, unknown)]
        # Most records have no type, and so are readable as they are.
        for record in [
            readable(event.record) if "type" in event.record.properties else event.record
        ]
    ]


def channel_rows(trace_id: int, channels: Iterable[ChannelState]) -> list[Row]:
    return [
        (
            trace_id,
            channel.key,
            channel.participant,
            *_channel_fields(channel.channel),
            *_channel_state(channel),
        )
        for channel in channels
    ]


def copy_rows(trace_id: int, copies: Iterable[PendingCopy]) -> list[Row]:
    return [
        (trace_id, copy.number, copy.queue, copy.fingerprint, copy.cause.id, copy.recorded_at)
        for copy in copies
    ]


def lost_copy_rows(trace_id: int, copies: Iterable[LostCopy]) -> list[Row]:
    return [(trace_id, copy.cause.id, copy.queue, copy.lost_at, copy.reason) for copy in copies]


def key_rows(trace_id: int, events: Iterable[StampedEvent]) -> list[Row]:
    """Rows of the keys by which events are found or belong together.

    A delivery with the same names as its publish is found through the publish by the message's own
    names: nearly every message has an id, and a row for each event costs a tenth of capture's
    speed. Other values many messages may share: a search for these needs all of their events from
    the index, in order.
    """
    rows: list[Row] = []
    for event in events:
        names = event.names
        if names is NO_NAMES:
            continue
        own_names = names.called
        if own_names and event.cause is not None and event.cause.names is names:
            own_names = ()
        event_id = event.reference.id
        if names.conversations or names.found_by:
            found_by, conversations = dict.fromkeys(names.found_by + own_names), names.conversations
            for key in conversations:
                roles = _BOTH_ROLES if key in found_by else IS_CONVERSATION
                rows.append((trace_id, event_id, key, roles))
            for key in found_by:
                if key not in conversations:
                    rows.append((trace_id, event_id, key, IS_FOUND_BY))
        else:
            for key in own_names:
                rows.append((trace_id, event_id, key, IS_FOUND_BY))
    rows.sort(key=_KEY)  # SQLite's order: an insertion then takes two thirds of the time
    return rows


def roles_of(names: Names) -> dict[Key, int]:
    roles = dict.fromkeys(names.conversations, IS_CONVERSATION)
    for key in names.found_by + names.called:
        roles[key] = roles.get(key, 0) | IS_FOUND_BY
    return roles


def edge_rows(trace_id: int, events: Iterable[StampedEvent]) -> list[Row]:
    """Rows of the links to events."""
    rows = {}
    for event in events:
        for edge in event.edges:
            key = (event.reference.id, edge.cause.id, edge.rule)
            rows[key] = (trace_id, *key, int(edge.kind), awareness_code(edge))
    return [*rows.values()]


def awareness_code(edge: Edge) -> int:
    """The way as it is stored; a candidate's is not known, so that it is no evidence."""
    return int(Awareness.known if edge.kind is EdgeKind.candidate else edge.way)


def traceparent_rows(trace_id: int, events: Iterable[StampedEvent]) -> list[Row]:
    """Rows of the contexts in publishes, and in deliveries whose publish is not known."""
    rows: list[Row] = []
    for event in events:
        if event.cause is not None or event.quiet:
            continue
        headers = event.record.properties.get("headers")
        if type(headers) is not dict or "traceparent" not in headers:
            continue
        context = context_of(headers["traceparent"])
        if context is not None:
            is_publish = event.record.event_type == EventType.published
            waits_for = context if is_publish else None
            rows.append((trace_id, event.reference.id, context, is_publish, waits_for))
    return rows
