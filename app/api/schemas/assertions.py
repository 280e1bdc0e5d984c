"""Assertions that are held against a trace, and what did not hold."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from app.api.schemas.common import Model, Time, names_of
from app.stored.assertions import Delivery, ViolationKind

ViolationWord = Annotated[str, names_of(ViolationKind)]
DeliveryWord = Annotated[str, names_of(Delivery)]


class AssertionInfo(Model):
    """An assertion of a virtual host, and what came of it since it was set."""

    vhost: str
    name: str
    assertion: dict[str, Any] = Field(description="As one writes it.")
    unwatched: str | None = Field(
        description="Why it is not held against events as they come; `null` if it is."
    )
    set_by: str
    set_at: Time
    from_event_id: int = Field(description="The first event that it is held against.")
    judged_id: int = Field(description="All events up to this one are judged.")
    waiting: int = Field(
        description="Events that are read and wait for their time, as of the last that was judged."
    )
    held: int = Field(description="For how many events it held.")
    violated: int = Field(description="For how many it did not.")
    unknown: int = Field(
        description="For how many nobody knows: by a gap, a doubt, a trace that lagged, or a "
        "conversation that is too large."
    )


class ViolationInfo(Model):
    """An event for which an assertion does not hold."""

    id: int
    vhost: str
    assertion: str = Field(description="Its name.")
    kind: ViolationWord
    event: int
    root: int | None = Field(description="Where the event's conversation begins, if it is known.")
    type: str | None = Field(
        description="The type of the event's message. `null`, as `sentence`, for whom the broker "
        "would not hand every message of the virtual host."
    )
    at: Time = Field(description="When the event was recorded.")
    found_at: Time
    sentence: str | None
    complete: bool = Field(description="Whether no gap has turned up where it was looked for.")
    delivery: DeliveryWord = Field(description="Whether the webhook has taken it.")
    attempts: int = Field(description="How often the webhook was tried.")
    delivered_at: Time | None
    error: str | None = Field(description="Why the webhook did not take it, the last time.")


class ViolationPage(Model):
    """Violations, newest first."""

    items: list[ViolationInfo]
    truncated: bool = Field(description="Whether there are more.")
    next: int | None = Field(description="`before` for those.")
