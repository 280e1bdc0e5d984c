"""Reports on order: races and inversions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from model.reports.facts import ReportFacts
from model.times import Microseconds
from model.who import Who

OrderWord: TypeAlias = Literal["races", "inversions"]


@dataclass(frozen=True, kw_only=True)
class OrderFacts(ReportFacts):
    """A report on order without its lists."""

    report: OrderWord
    key: Annotated[str | None, "What messages share that were compared."]
    count: Annotated[int, "How many pairs there are."]
    counted_all: Annotated[
        bool, "Whether all messages were compared; else the newest of each queue."
    ]


@dataclass(frozen=True, kw_only=True)
class OrderedPair:
    """Two messages of one queue."""

    queue: str
    key: Annotated[str | None, "What they share; `null` where no key was asked for."]
    a: Annotated[int, "A publish; of `inversions` the one that was before the other."]
    b: Annotated[int, "The other, with the greater id."]
    a_by: Who
    b_by: Who
    handed_a: Annotated[int | None, "The first delivery of `a` from this queue."]
    handed_b: int | None
    handed_a_by: Annotated[Who | None, "Whom it went to."]
    handed_b_by: Who | None
    at: Annotated[Microseconds, "When `b` was recorded."]

    @property
    def participants(self) -> list[str]:
        """The names of those whom they went to."""
        both = (self.handed_a_by, self.handed_b_by)
        return [*dict.fromkeys(each.name for each in both if each is not None)]


@dataclass(frozen=True)
class OrderedGroup:
    """The number of pairs that a queue has."""

    queue: str
    count: int
    counted_all: bool


@dataclass(frozen=True, kw_only=True)
class OrderReport(OrderFacts):
    """A report: the newest pairs, and the queues with the most."""

    items: list[OrderedPair]
    groups: list[OrderedGroup]
    truncated: Annotated[bool, "Whether there are more pairs than `items`."]
