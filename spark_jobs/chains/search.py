"""A chain as a search finds it: its ranges and the slices to read it in.

The result is the same from the store and from an archive, so that what exports it need not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from itc import Relation
from model.gaps import Gap
from model.sound import Soundness
from model.words import Via
from spark_jobs.chains.plan import Form
from spark_jobs.events.ranges import Longs, Range
from spark_jobs.events.slices import Slice


@dataclass(frozen=True)
class ChainResult:
    """A chain, or the fact that there is none.

    Attributes:
        vhost: whose events they are.
        relation: of the request's ``from`` to its ``to``.
        form: how the chain was found; ``reason`` says why in this way.
        gaps: in which parts of it may be missing.
        doubtful: why events that are concurrent by their clocks may be in an order after all.
        candidates: of how many equal messages the later one may be; None if that is certain.
        soundness: whether there may be more of it between participants, and what was quiet.
        caused: whether messages and links lead from the earlier event to the later.
        ranges: its events by participant, sorted; empty if there is no chain.
        slices: what to read it in, by id.
        names: looks up the names and intervals of its participants.
        heights: looks up the heights of each participant's events in it, ascending.
        check: raises JobError if part of it was removed meanwhile.
    """

    vhost: str
    relation: Relation
    form: str
    reason: str
    gaps: Sequence[Gap]
    doubtful: str | None
    candidates: int | None
    soundness: Soundness
    caused: bool
    ranges: Sequence[Range]
    slices: Sequence[Slice]
    names: Callable[[], Mapping[int, tuple[str, str]]]
    heights: Callable[[], dict[int, Longs]]
    check: Callable[[], None]

    @property
    def events(self) -> int:
        """The number of its events."""
        return sum(run.events for run in self.ranges)

    @property
    def participants(self) -> list[int]:
        """The participants of its events."""
        return numbers_of(self.ranges)


class ChainQuestion(NamedTuple):
    """A question for a chain: the ids of both ends, along what, and how to find it."""

    ends: tuple[int, int]
    via: Via
    form: Form | None


def numbers_of(ranges: Iterable[Range]) -> list[int]:
    """The participants of some ranges, each once."""
    return sorted({run.participant for run in ranges})


def by_participant(numbers: Iterable[int], participants: Longs, heights: Longs) -> dict[int, Longs]:
    """Heights by participant, in the order in which they come."""
    return {int(number): heights[participants == number] for number in numbers}
