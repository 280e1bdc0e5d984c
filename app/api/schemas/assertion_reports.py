"""Reports on assertions: whether they hold over a period."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from app.api.schemas.common import Gap, Model, Time, names_of
from model.assertions import Verdict
from model.sound import MOST_QUIET
from model.words import Via

VerdictWord = Annotated[str, names_of(Verdict)]
ViaWord = Annotated[str, names_of(Via)]


class AssertionFacts(Model):
    """A report on assertions without its lists."""

    id: str
    report: Literal["assertions"]
    vhost: str
    since: Time
    until: Time
    via: ViaWord = Field(description="What conversations are held together by.")
    assertions: list[dict[str, Any]] = Field(description="What was asserted, as it was asked.")
    made_at: Time
    verdict: VerdictWord = Field(
        description="`violated` if one is; else `unknown` if one is; else `holds`."
    )
    holds: int = Field(description="How many assertions hold.")
    violated: int
    unknown: int
    complete: bool
    gaps: list[Gap]
    sound: bool
    doubts: list[str]
    quiet: int = Field(
        description=f"Events of quiet traffic in the period, counted up to {MOST_QUIET}."
    )


class ShownCase(Model):
    """An event for which an assertion does not hold, or may not."""

    verdict: VerdictWord
    event: int
    root: int | None = Field(description="Where its conversation begins, if that was looked at.")
    at: Time
    sentence: str
    others: list[int] = Field(description="Events that show it.")


class AssertionResult(Model):
    """One assertion: how often it holds, and the newest cases of which that cannot be said."""

    assertion: dict[str, Any]
    verdict: VerdictWord
    why: str | None = Field(description="Why it is unknown, where no single event says so.")
    holds: int
    violated: int
    unknown: int
    items: list[ShownCase]
    truncated: bool = Field(description="Whether there are more than `items`.")


class AssertionReport(AssertionFacts):
    """A report: the result of each assertion, in their order."""

    results: list[AssertionResult]
