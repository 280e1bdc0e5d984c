"""What the schemas of several subjects share."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from model.times import iso_time


def _to_iso(value: object) -> object:
    return iso_time(value) if isinstance(value, int) else value


Time = Annotated[
    str, BeforeValidator(_to_iso), WithJsonSchema({"type": "string", "format": "date-time"})
]


class Model(BaseModel):
    """What all have in common: made from the service's own values by attribute."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


class Problem(Model):
    """An error."""

    error: str = Field(description="A word for programs.")
    reason: str = Field(description="A sentence for people.")


class Gap(Model):
    """A span that may lack events: behind one event, before another (null while it lasts)."""

    id: int
    after_event_id: int
    before_event_id: int | None
    since: Time
    until: Time | None
    reason: str
