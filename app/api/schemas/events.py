"""Events: in lists and pages, and one with its clocks."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, WithJsonSchema

from app.api.schemas.common import Model, Time, names_of
from app.tracker.events import EventType, Match

Tree = Annotated[
    Any,
    WithJsonSchema(
        {
            "description": "The paper's tree as nested arrays: an id is 0, 1 or [left, right], "
            "an event a count or [count, left, right].",
            "anyOf": [{"type": "integer"}, {"type": "array"}],
        }
    ),
]
TypeWord = Annotated[str, names_of(EventType)]
MatchWord = Annotated[str, names_of(Match)]


class Event(Model):
    """A stored, stamped occurrence."""

    id: int
    vhost: str
    type: TypeWord
    match: MatchWord
    cause: int | None
    participant: int
    seq: int
    lamport: int
    recorded_at: Time
    exchange: str
    queue: str | None
    routing_keys: list[str]
    routed_queues: list[str] | None
    redelivered: bool
    node: str
    connection: str
    channel: int
    user: str
    properties: dict[str, Any]
    payload: str | None
    payload_encoding: Literal["string", "base64"]
    payload_bytes: int
    payload_truncated: bool
    stamp: str


class VectorEntry(Model):
    """How many events of a participant are at or before the event."""

    participant: int
    name: str
    events: int


class ItcClock(Model):
    """The stamp in each form: the paper's text, its trees, its bit code."""

    text: str
    id: Tree
    event: Tree
    code: str = Field(description="Hexadecimal.")


class Clocks(Model):
    """The three clocks of one event."""

    lamport: int
    vector: list[VectorEntry]
    itc: ItcClock


class EventDetail(Event):
    """One event with its clocks."""

    clocks: Clocks


class EventColumns(Event):
    """An event of which only some columns were asked for."""

    model_config = ConfigDict(
        json_schema_extra=lambda schema: schema.pop("required", None),
    )


class EventPage(Model):
    """RabbitMQ's page envelope."""

    total_count: int
    item_count: int
    filtered_count: int
    page: int
    page_size: int
    page_count: int
    items: list[Event] | list[EventColumns]
