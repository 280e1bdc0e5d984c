"""Senders and receivers of messages in a period, and what these look like; without I/O.

Executors note what is in their part of the events, and the driver merges the notes. All of it is
bounded: what is beyond a bound is counted as left out, and of each type only samples are read.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from model.bodies import begins_as_json, fault_of
from model.deaths import deaths_of, headers_of
from model.message_types import type_of
from model.words import EventType, Match
from spark_jobs.interchange.shapes import Json, Shape

Row: TypeAlias = Mapping[str, Any]

COLUMNS = (
    *("type", "match", "participant_name", "recorded_at", "exchange", "routing_keys"),
    *("queue", "properties", "payload", "payload_cut", "quiet"),
)

MOST_PATHS = 10_000
"""Ways of a message type between a participant and an exchange or queue."""
MOST_TYPES = 1_000
MOST_SAMPLES = 200  # of a type, in one task
MOST_SAMPLED = 33_554_432  # bytes, in one task

BROKER_NAMES = ("amq.gen", "amq.rabbitmq.reply-to")
"""Beginnings of the names that the broker makes up: of unnamed queues, and where replies go.

Clients may not declare any queue that begins with ``amq.``.
"""


class Route(NamedTuple):
    """A way of messages: to an exchange with a routing key, or from a queue (the key is empty)."""

    is_send: bool
    address: str
    key: str
    participant: str
    type: str


class MessageNotes:
    """Notes on the messages of one type.

    ``correlated`` counts those with the property ``correlation_id``; ``sampled`` those that were
    looked into, of which ``as_json`` had a JSON body.
    """

    def __init__(self) -> None:
        self.count = self.correlated = self.sampled = self.as_json = 0
        self.content_types: Counter[str] = Counter()
        self.payload, self.headers = Shape(), Shape()

    def merge(self, notes: MessageNotes) -> None:
        """Add the notes of another part."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(notes, name))
        self.content_types.update(notes.content_types)
        self.payload.merge(notes.payload)
        self.headers.merge(notes.headers)

    def to_json(self) -> Json:
        """For `from_json`."""
        return {
            **{name: getattr(self, name) for name in _COUNTS},
            "content_types": self.content_types,
            "payload": self.payload.to_json(),
            "headers": self.headers.to_json(),
        }

    @classmethod
    def from_json(cls, document: Json) -> MessageNotes:
        """The value that `to_json` wrote."""
        notes = cls()
        for name in _COUNTS:
            setattr(notes, name, document[name])
        notes.content_types.update(document["content_types"])
        notes.payload = Shape.from_json(document["payload"])
        notes.headers = Shape.from_json(document["headers"])
        return notes


_COUNTS = ("count", "correlated", "sampled", "as_json")


class PeriodShapes:
    """The sum of a period: how many events, on which ways, of which types."""

    def __init__(self) -> None:
        self.events = self.left_out = 0
        self.paths: Counter[Route] = Counter()
        self.messages: dict[str, MessageNotes] = {}
        self._bytes = 0

    def add(self, row: Row) -> None:
        """Note one event."""
        properties = json.loads(row["properties"])
        routing_keys = [*map(_stable_name, json.loads(row["routing_keys"]))]
        is_send = row["type"] == EventType.published
        kind = type_of(properties, *_first_address(row, properties, routing_keys), row["payload"])
        key = routing_keys[0] if routing_keys else ""
        address, key = (row["exchange"], key) if is_send else (_stable_name(row["queue"] or ""), "")
        self.events += 1
        if not self._note(Route(is_send, address, key, row["participant_name"], kind), 1):
            return
        # A message is looked at once: where it was published, if that was seen.
        if is_send or row["match"] == Match.unmatched:
            self._look_at(self.messages[kind], properties, row["payload"], row["payload_cut"])

    def merge(self, shapes: PeriodShapes) -> None:
        """Add the notes of another part."""
        self.events += shapes.events
        self.left_out += shapes.left_out
        for route, count in sorted(shapes.paths.items(), key=_commonest):
            self._note(route, count)
        for kind, notes in shapes.messages.items():
            if kind in self.messages:
                self.messages[kind].merge(notes)

    def to_json(self) -> Json:
        """For `from_json`."""
        return {
            "events": self.events,
            "left_out": self.left_out,
            "paths": [[*path, count] for path, count in self.paths.items()],
            "messages": {kind: notes.to_json() for kind, notes in self.messages.items()},
        }

    @classmethod
    def from_json(cls, document: Json) -> PeriodShapes:
        """The value that `to_json` wrote."""
        shapes = cls()
        shapes.events, shapes.left_out = document["events"], document["left_out"]
        shapes.paths.update({Route(*path): count for *path, count in document["paths"]})
        shapes.messages = {k: MessageNotes.from_json(v) for k, v in document["messages"].items()}
        return shapes

    def _note(self, path: Route, count: int) -> bool:
        """Count a way; False if it is one too many."""
        is_new = path not in self.paths
        is_new_type = path.type not in self.messages
        if (is_new and len(self.paths) >= MOST_PATHS) or (
            is_new_type and len(self.messages) >= MOST_TYPES
        ):
            self.left_out += count
            return False
        self.paths[path] += count
        if is_new_type:
            self.messages[path.type] = MessageNotes()
        return True

    def _look_at(self, notes: MessageNotes, properties: Json, body: bytes, is_cut: bool) -> None:
        notes.count += 1
        notes.correlated += _is_text(properties.get("correlation_id"))
        content_type = properties.get("content_type")
        if isinstance(content_type, str) and len(notes.content_types) < MOST_SAMPLES:
            notes.content_types[content_type] += 1
        size = len(body or b"")
        if notes.sampled >= MOST_SAMPLES or self._bytes + size > MOST_SAMPLED:
            return
        notes.sampled += 1
        self._bytes += size
        notes.headers.add(headers_of(properties))
        value = _NO_JSON if is_cut else json_in(body, content_type)
        if value is not _NO_JSON:
            notes.as_json += 1
            notes.payload.add(value)


def _first_address(row: Row, properties: Json, routing_keys: list[str]) -> tuple[str, list[str]]:
    """The exchange and routing keys that a message was published with, before it died."""
    if row["match"] == Match.dead_lettered and (deaths := deaths_of(properties)):
        oldest = deaths[-1]
        return oldest.exchange or "", [*map(_stable_name, oldest.routing_keys)]
    return row["exchange"], routing_keys


def _stable_name(name: str) -> str:
    """The name, or the beginning of one that the broker makes up: all of these are one address."""
    return next(
        (prefix for prefix in BROKER_NAMES if name.startswith((f"{prefix}-", f"{prefix}."))), name
    )


def json_in(body: bytes | None, content_type: object) -> Any:
    """A body's JSON, or `_NO_JSON`; without a content type, a table or list counts as JSON."""
    if not body or fault_of(body) is not None:
        return _NO_JSON
    says_so = _is_text(content_type) and "json" in str(content_type).lower()
    if not says_so and (_is_text(content_type) or not begins_as_json(body)):
        return _NO_JSON
    try:
        return json.loads(body, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return _NO_JSON


_NO_JSON = object()


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _commonest(item: tuple[Route, int]) -> tuple[int, Route]:
    return -item[1], item[0]
