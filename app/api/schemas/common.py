"""What the schemas of several subjects share."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetPydanticSchema,
    WithJsonSchema,
)
from pydantic_core import core_schema

from model.sound import MOST_QUIET
from model.times import iso_time


def _to_iso(value: object) -> object:
    return iso_time(value) if isinstance(value, int) else value


Time = Annotated[
    str, BeforeValidator(_to_iso), WithJsonSchema({"type": "string", "format": "date-time"})
]


def names_of(kind: type[Enum]) -> GetPydanticSchema:
    """Of a ``str`` in an annotation: one of the enum's names, as a `Literal` of them has it."""
    return GetPydanticSchema(lambda *_: core_schema.literal_schema(list(kind.__members__)))


class Model(BaseModel):
    """What all have in common: made from the service's own values by attribute."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


class Problem(Model):
    """An error."""

    error: str = Field(description="A word for programs.")
    reason: str = Field(description="A sentence for people.")


class Evidence(Model):
    """What messages say of their causes, against what the trace's policy says."""

    reactions: int = Field(
        description="Publishes that may have a cause: their participant had received something, or "
        "a cause that they name was found."
    )
    explained: int = Field(description="Those of them that name a cause which was found.")
    known: int = Field(description="Causes that the publisher's participant had in its past.")
    missed: int = Field(
        description="Causes that reached another participant of the same program: where there are "
        "any, participants are finer than programs."
    )
    hidden: int = Field(
        description="Causes that came by no way through the broker: see `/itc_db/hidden`."
    )
    coverage: float | None = Field(
        description="`explained` of `reactions`, between 0 and 1; `null` without any."
    )
    fit: float | None = Field(
        description="`known` of `known` and `missed`, between 0 and 1; `null` without any."
    )


class Gap(Model):
    """A span that lacks events, or may: after one, before another (null while it is open)."""

    id: int
    after_event_id: int
    before_event_id: int | None
    since: Time
    until: Time | None
    reason: str
    suspected: bool = Field(
        description="Whether it is probable, and may be taken back; otherwise it is certain."
    )
    declared: bool = Field(
        description="Whether it is no loss: only some exchanges and queues were asked for."
    )


class Certainty(BaseModel):
    """How far an answer is to be relied on."""

    complete: bool
    gaps: list[Gap]
    sound: bool = Field(description="Whether participants are those who act, as far as is seen.")
    doubts: list[str] = Field(description="Why it is not sound, a sentence each.")
    quiet: int = Field(
        description=f"Events of quiet traffic in its span, counted up to {MOST_QUIET}."
    )
