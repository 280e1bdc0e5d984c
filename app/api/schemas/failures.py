"""Failures: messages that died, came back, reached nobody, or were put into an error queue."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.api.schemas.common import Gap, Model, Time, names_of
from app.stored.failures import FailureKind
from model.sound import MOST_QUIET

KindWord = Annotated[str, names_of(FailureKind)]


class WhoActed(Model):
    """A participant."""

    number: int
    name: str


class Failure(Model):
    """A failure, known by the event that tells of it."""

    event: int = Field(
        description="A dead letter's delivery, the third redelivery, the publish that went nowhere "
        "or into an error queue; of `overdue` the event that led to nothing."
    )
    message: int | None = Field(description="The message's publish; `null` if not stored.")
    vhost: str
    kind: KindWord
    queue: str | None = Field(description="Where it failed.")
    reason: str | None = Field(
        description="Of `died`, as the broker says it: `rejected`, `expired`, `maxlen` or "
        "`delivery_limit`; of `overdue` the assertion that says so."
    )
    type: str = Field(description="The message's type: what it is called, or where it was sent.")
    exception: str | None = Field(description="Its type and its message, of `error_queue`.")
    at: Time = Field(description="When the event was recorded.")
    by: WhoActed | None = Field(
        description="Who was handed it last before; `null` if nobody was, or it is not certain."
    )
    handed_over: int | None = Field(description="By which event.")
    times: int = Field(description="How often it died or came back so, up to now.")
    to: str | None = Field(description="The queue where it went from there.")
    publisher: WhoActed | None = Field(description="Who published the message.")
    exchange: str = Field(description="Where it was published to.")
    routing_key: str


class FailureGroup(Model):
    """Failures of one kind, queue, reason, message type and type of exception."""

    vhost: str
    kind: KindWord
    queue: str | None
    reason: str | None
    type: str
    exception: str | None = Field(description="Its type alone, where it has one.")
    count: int
    first_at: Time
    last_at: Time
    newest: int = Field(description="The newest failure's event.")
    by: list[str] = Field(description="Who was handed the messages last, five names at most.")


class FailureSpan(Model):
    """How many there were in a span of time."""

    at: Time
    count: int


class OverTime(Model):
    """Failures over time, in spans of equal length."""

    seconds: int = Field(description="How long each span is.")
    counts: list[FailureSpan] = Field(description="From the first to the last, none left out.")


class Failures(Model):
    """Failures, newest first, and what all that were counted come to."""

    items: list[Failure]
    groups: list[FailureGroup] = Field(description="Those with the newest failures first.")
    groups_truncated: bool = Field(description="Whether there are more groups than these.")
    over_time: OverTime
    counted: int = Field(description="How many are in `groups` and `over_time`, the newest.")
    counted_all: bool = Field(description="Whether there are no others.")
    truncated: bool = Field(description="Whether there are more than `items`.")
    next: int | None = Field(description="`before` for those.")


class FailuresOfOne(Failures):
    """Those of one virtual host, and how far that is to be relied on."""

    complete: bool
    gaps: list[Gap]
    sound: bool
    doubts: list[str]
    quiet: int = Field(
        description=f"Events of quiet traffic in the period, counted up to {MOST_QUIET}."
    )
