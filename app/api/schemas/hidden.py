"""Hidden ways: causes that messages name, and that came there by no way through the broker."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from app.api.schemas.common import Model, Time
from app.api.schemas.events import LinkWord


class Who(Model):
    """A participant."""

    participant: int
    name: str


class HiddenLink(Model):
    """A publish that names a cause which reached no participant of its program."""

    effect: int = Field(description="The publish.")
    cause: int = Field(description="The event that it names.")
    rule: str
    kind: LinkWord
    recorded_at: Time = Field(description="When the effect was recorded.")
    from_: Who = Field(alias="from", description="Whom the id probably came from.")
    how: Literal["received", "published"] = Field(
        description="Whether they were handed the cause's message, last before the effect, or "
        "published it, and nobody was handed it."
    )
    to: Who = Field(description="Who published the effect.")


class HiddenWay(Model):
    """The links of one rule from one participant to another."""

    rule: str
    from_: Who = Field(alias="from")
    to: Who
    links: int
    first_at: Time
    last_at: Time
    last_effect: int = Field(description="The newest publish that came of it.")


class HiddenWays(Model):
    """Hidden ways, those used last first."""

    vhost: str
    links: int = Field(description="How many links were counted, the newest.")
    truncated: bool = Field(description="Whether there are older ones.")
    ways: list[HiddenWay]
