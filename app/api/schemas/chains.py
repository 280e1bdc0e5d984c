"""Chains: what their job answers, the files that it wrote, their formats."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from app.api.schemas.causality import RelationWord, Step, ViaWord
from app.api.schemas.common import Certainty, Model, Time
from app.api.schemas.events import Event, EventColumns
from model.answers import Answer


class Plan(BaseModel):
    """How a chain was found."""

    model_config = ConfigDict(extra="allow")

    form: str
    reason: str


class Chain(Certainty):
    """The chain between two events, as it is found at once."""

    model_config = ConfigDict(populate_by_name=True)

    from_: int = Field(alias="from")
    to: int
    vhost: str
    relation: RelationWord
    sentence: str
    answer: Answer = Field(description="Whether the earlier of the two had a part in the later.")
    path: list[Step] | None = Field(
        description="A shortest way of messages and links from the earlier to the later."
    )
    via: ViaWord
    start: int = Field(description="The smaller of the two ids.")
    end: int = Field(description="The larger of the two ids.")
    events: list[Event] | list[EventColumns] = Field(description="Its events, by id.")
    count: int | None = Field(
        description="How many events the whole chain has; `null` if that takes too long to count."
    )
    participants: int | None = Field(description="Of how many participants; `null` as `count`.")
    steps: list[Step] = Field(description="The messages and links among the events shown.")
    truncated: bool
    next: int | None = Field(
        description="Where it is truncated: `after` for more; `null` if it is too long to follow."
    )


class ChainSummary(Certainty):
    """The answer of a chain job."""

    model_config = ConfigDict(populate_by_name=True, extra="allow")

    job: int
    vhost: str
    from_: int = Field(alias="from")
    to: int
    via: ViaWord
    relation: RelationWord
    answer: Answer = Field(
        description="Whether messages and links lead from the earlier of the two to the later."
    )
    sentence: str
    file: str | None
    location: str | None
    format: str | None
    events: int
    participants: int
    bytes: int
    sha256: str | None
    plan: Plan | None
    seconds: dict[str, float]


class Export(BaseModel):
    """A file that a chain job wrote."""

    model_config = ConfigDict(populate_by_name=True)

    from_: int = Field(alias="from")
    to: int
    file: str
    location: str
    vhost: str
    bytes: int
    created_at: Time
    events: int


class Format(Model):
    """A form that an export can have."""

    extension: str
    media_type: str
    title: str
