"""What events touched, and what they cannot have."""

from __future__ import annotations

from pydantic import Field

from app.api.schemas.common import Certainty
from app.api.schemas.events import Event, EventColumns


class Touched(Certainty):
    """Of the events since some: how many these caused, may have influenced, or did not."""

    events: list[int]
    vhost: str
    as_of: int = Field(description="The newest event that was looked at.")
    since: int = Field(description="How many events came after the first of them.")
    caused: int = Field(description="To which messages and links lead.")
    may_have: int = Field(description="Which happened after one of them, and no more is known.")
    cannot_have: int = Field(
        description="Which happened after none of them: not influenced by any, if the answer is "
        "complete and sound."
    )
    caused_truncated: bool = Field(
        description="More were caused than could be followed; they are among the others."
    )
    sentence: str
    items: list[Event] | list[EventColumns] | None = Field(
        description="The events with the verdict that is asked for, by id."
    )
    truncated: bool
    next: int | None = Field(description="Where it is truncated: `after` for more.")
