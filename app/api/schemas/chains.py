"""The chain between two events, as it is found at once."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from app.api.schemas.causality import RelationWord, Step, ViaWord
from app.api.schemas.common import Certainty
from app.api.schemas.events import Event, EventColumns
from model.answers import Answer


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
