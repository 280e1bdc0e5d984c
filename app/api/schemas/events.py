"""Events: in lists and pages, and one with its clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, get_origin

from pydantic import ConfigDict, Field, WithJsonSchema, create_model

from app.api.schemas.common import Model, Time, names_of
from model.event import SHOWN, Kind, ShownField
from model.words import EventType, LinkKind, Match

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
LinkWord = Annotated[str, names_of(LinkKind)]
MatchWord = Annotated[str, names_of(Match)]

_TYPES: dict[Kind, Any] = {
    "number": int,
    "text": str,
    "flag": bool,
    "time": Time,
    "words": list[str],
    "table": dict[str, Any],
}


def _typed(field: ShownField) -> Any:
    """A shown field as pydantic's ``create_model`` takes it."""
    type_: Any = _TYPES.get(field.kind)
    if field.kind == "word":
        type_ = Annotated[str, names_of(field.type)]
    elif get_origin(field.type) is Literal:
        type_ = field.type
    said = Field(description=field.shown.meaning)
    return (type_ | None if field.nullable else type_), said


if TYPE_CHECKING:

    class Event(Model):
        """A stored, stamped occurrence."""

else:
    Event = create_model(
        "Event",
        __base__=Model,
        __doc__="A stored, stamped occurrence.",
        __module__=__name__,
        **{field.name: _typed(field) for field in SHOWN.values()},
    )


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


class EventField(Model):
    """A field of the event object."""

    name: str
    kind: Kind
    label: str
    meaning: str
    usual: bool = Field(description="Among a table's columns by default.")


class Handled(Model):
    """When a consumer handled a message, as its OpenTelemetry span says, by its own clock."""

    from_: Time = Field(alias="from")
    to: Time
    service: str | None


class Named(Model):
    """What a publish names as its cause: a delivery or a publish, by which rule."""

    cause: int
    rule: str
    kind: LinkWord


class Naming(Model):
    """A publish that names an event as its cause, and by which rule."""

    effect: int
    rule: str
    kind: LinkWord


class NamedBy(Model):
    """What names an event: the first 100, if it is ``truncated``."""

    links: list[Naming]
    truncated: bool


class EventDetail(Event):
    """One event with its clocks and its links."""

    clocks: Clocks
    handled: list[Handled] = Field(
        description="Who handled the message of a publish, or what was received here. Empty "
        "without spans, and where they do not tell of which delivery they are."
    )
    links: list[Named] = Field(description="What it names as its causes.")
    named_by: NamedBy = Field(description="What names it as its cause.")


class EventColumns(Event):
    """An event of which only some columns were asked for, or its links, too."""

    model_config = ConfigDict(
        json_schema_extra=lambda schema: schema.pop("required", None),
    )
    links: list[Named] = Field(description="What it names as its causes: with `links=true`.")


class EventPage(Model):
    """RabbitMQ's page envelope."""

    total_count: int
    item_count: int
    filtered_count: int
    page: int
    page_size: int
    page_count: int
    items: list[Event] | list[EventColumns]
