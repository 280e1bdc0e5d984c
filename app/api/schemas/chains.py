"""Chains: what their job answers, the files that it wrote, their formats."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from app.api.schemas.causality import RelationWord, ViaWord
from app.api.schemas.common import Certainty, Model, Time
from model.answers import Answer


class Plan(BaseModel):
    """How a chain was found."""

    model_config = ConfigDict(extra="allow")

    form: str
    reason: str


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
