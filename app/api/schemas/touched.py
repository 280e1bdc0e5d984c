"""What events touched, and what they cannot have."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

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


class Start(BaseModel):
    """The event whose future it is: its place and its stamp."""

    id: int
    participant: int
    interval: str
    seq: int
    height: int
    clock: str = Field(description="Its packed clock, base64.")


class Signature(BaseModel):
    """Who vouches for a manifest, where the service has a key."""

    algorithm: str
    key: str = Field(description="The public key, base64.")
    value: str = Field(description="The signature of the rest of the manifest, base64.")


class TouchedSummary(Certainty):
    """The answer of a job that wrote what an event touched; the manifest has the same."""

    model_config = ConfigDict(extra="allow")

    job: int
    event: int
    vhost: str
    as_of: int
    events: int = Field(description="How many events came since.")
    caused: int
    may_have: int
    cannot_have: int
    unknown: int = Field(
        description="Those that happened after none, where it is not complete or not sound."
    )
    sentence: str
    starts: list[Start]
    format: str
    file: str
    location: str
    bytes: int
    sha256: str
    seconds: dict[str, float]
    versions: dict[str, str]
    signature: Signature | None = None
