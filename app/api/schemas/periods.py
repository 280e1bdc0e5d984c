"""Periods of time: how many events there were in each part, and what is known of a whole one."""

from __future__ import annotations

from pydantic import Field

from app.api.schemas.common import Certainty, Model, Time


class Bucket(Model):
    """One part of a period."""

    at: Time = Field(description="When it begins.")
    events: int | None = Field(description="`null`: they were not counted.")
    published: int | None = Field(description="`null` where `events` is an estimate, as the next.")
    received: int | None
    unmatched: int | None


class Histogram(Model):
    """Events over time."""

    since: Time | None = Field(description="When the first bucket begins; `null` without events.")
    until: Time | None = Field(description="When the last one ends.")
    seconds: float = Field(description="How long each bucket is.")
    events: int = Field(description="Those of all buckets.")
    counted_since: Time | None = Field(
        description="Events before were not looked at one by one: what is said of them is an "
        "estimate, or `null`. `null` if all were."
    )
    buckets: list[Bucket]


class PeriodCertainty(Certainty):
    """How far answers about a period of a virtual host are to be relied on."""

    vhost: str
    since: Time | None
    until: Time | None
    first_event: int | None = Field(description="The first event in it; `null` if there is none.")
    last_event: int | None
    gap_count: int = Field(description="How many gaps there are; `gaps` are the newest of them.")
    known_since: Time | None = Field(
        description="When the trace was made, or when the oldest event was recorded that is still "
        "kept: of what was before nothing is known."
    )
    state: str = Field(description="That of the trace now.")
    as_of: Time
