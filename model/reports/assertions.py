"""Reports on assertions: whether they hold over a period."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from model.assertions.judging import AssertionVerdict
from model.reports.facts import ReportFacts
from model.times import Microseconds
from model.words import BondWord


@dataclass(frozen=True, kw_only=True)
class AssertionFacts(ReportFacts):
    """A report on assertions without its lists."""

    report: Literal["assertions"]
    via: Annotated[BondWord, "What conversations are held together by."]
    assertions: Annotated[list[dict[str, Any]], "What was asserted, as it was asked."]
    verdict: Annotated[
        AssertionVerdict, "`violated` if one is; else `unknown` if one is; else `holds`."
    ]
    holds: Annotated[int, "How many assertions hold."]
    violated: int
    unknown: int


@dataclass(frozen=True, kw_only=True)
class ShownCase:
    """An event for which an assertion does not hold, or may not."""

    verdict: AssertionVerdict
    event: int
    root: Annotated[int | None, "Where its conversation begins, if that was looked at."]
    at: Microseconds
    sentence: str
    others: Annotated[list[int], "Events that show it."]


@dataclass(frozen=True, kw_only=True)
class AssertionResult:
    """One assertion: how often it holds, and the newest cases of which that cannot be said."""

    assertion: dict[str, Any]
    verdict: AssertionVerdict
    why: Annotated[str | None, "Why it is unknown, where no single event says so."]
    holds: int
    violated: int
    unknown: int
    items: list[ShownCase]
    truncated: Annotated[bool, "Whether there are more than `items`."]


@dataclass(frozen=True, kw_only=True)
class AssertionReport(AssertionFacts):
    """A report: the result of each assertion, in their order."""

    results: list[AssertionResult]
