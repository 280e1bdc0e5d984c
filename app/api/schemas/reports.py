"""What all reports say of their period, and reports on order: races and inversions."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from app.api.schemas.common import Gap, Model, Time, WhoActed
from model.sound import MOST_QUIET

OrderWord = Literal["races", "inversions"]


class ReportFacts(Model):
    """What is said of each report."""

    id: str
    vhost: str
    since: Time
    until: Time
    made_at: Time
    complete: bool
    gaps: list[Gap]
    sound: bool
    doubts: list[str]
    quiet: int = Field(
        description=f"Events of quiet traffic in the period, counted up to {MOST_QUIET}."
    )


class OrderFacts(ReportFacts):
    """A report on order without its lists."""

    report: OrderWord
    key: str | None = Field(description="What messages share that were compared.")
    count: int = Field(description="How many pairs there are.")
    counted_all: bool = Field(
        description="Whether all messages were compared; else the newest of each queue."
    )


class OrderedPair(Model):
    """Two messages of one queue."""

    queue: str
    key: str | None = Field(description="What they share; `null` where no key was asked for.")
    a: int = Field(description="A publish; of `inversions` the one that was before the other.")
    b: int = Field(description="The other, with the greater id.")
    a_by: WhoActed
    b_by: WhoActed
    handed_a: int | None = Field(description="The first delivery of `a` from this queue.")
    handed_b: int | None
    handed_a_by: WhoActed | None = Field(description="Whom it went to.")
    handed_b_by: WhoActed | None
    participants: list[str] = Field(description="The names of those whom they went to.")
    at: Time = Field(description="When `b` was recorded.")


class OrderedGroup(Model):
    """How many pairs a queue has."""

    queue: str
    count: int
    counted_all: bool


class OrderReport(OrderFacts):
    """A report: the newest pairs, and the queues with the most."""

    items: list[OrderedPair]
    groups: list[OrderedGroup]
    truncated: bool = Field(description="Whether there are more pairs than `items`.")
