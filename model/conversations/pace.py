"""The pace of a participant: how long it takes until it publishes for a delivery, by its own past.

Of ``n`` durations that are spread exponentially the median is ``log 2`` times their mean and the
longest ``log n`` times, and the next one exceeds ``log 1/p`` times their mean with a chance of
``p``. So the distance from the median to the longest tells how far beyond that the next one may be:
the less far, the more are known and the less they differ.

Time passes only while the participant is seen at work: between two of its publishes no more counts
than it usually takes. One that stands still publishes nothing, and then what it owes at once.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import pairwise, zip_longest
from statistics import median
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

LEAST_STEPS, LEAST_MULTIPLE, LEAST_ENDS = 16, 1.5, 8
_CHANCE = 1e-5


class Handling(NamedTuple):
    """The times of a delivery and of what its participant published for it (µs)."""

    received_at: int
    published_at: int


class Course(NamedTuple):
    """The way by which a message comes: those of one may take a time of their own.

    Of what a participant publishes, ``queue`` is None.
    """

    queue: str | None
    exchange: str
    routing_keys: tuple[str, ...]


Share: TypeAlias = Set[tuple[Course, int]]
"""The share of a participant in a conversation: how many messages it had, by each course."""


class Passage(NamedTuple):
    """The course of a message that a participant was handed, or published, and when (µs)."""

    course: Course
    at: int


def last_shares(conversations: Iterable[Sequence[Passage]], old_until: int) -> Set[Share]:
    """The shares with which a participant is through, by what it did in each conversation.

    With such a share it published nothing more unless it was handed more first, ever, and in some
    conversations nothing came for long.
    """
    over, before_more = Counter[Share](), set[Share]()
    for passages in conversations:
        courses = Counter[Course]()
        for passage, following in zip_longest(passages, passages[1:]):
            courses[passage.course] += 1
            if passage.course.queue is None:
                share = frozenset(courses.items())
                if following is None:
                    over[share] += passage.at <= old_until
                elif following.course.queue is None:
                    before_more.add(share)
    return {share for share, times in over.items() if times >= LEAST_ENDS} - before_more


class Pace:
    """A participant's steps, and when it published (µs, in their order).

    ``longest`` is its longest step, in time at work, and ``patience`` how long it is waited for.
    ``by_course`` are the paces of courses of which enough steps are known, ``ends`` its shares in
    conversations that have ended (`last_shares`), and ``publishes`` all courses by which it does.
    """

    def __init__(
        self,
        steps: Sequence[Handling] = (),
        published_at: Sequence[int] = (),
        by_course: Mapping[Course, Sequence[Handling]] = MappingProxyType({}),
        ends: Set[Share] = frozenset(),
        publishes: Set[Course] = frozenset(),
    ) -> None:
        self._ends, self._publishes = ends, publishes
        self._times = published_at
        self._by_course = {
            course: Pace(own, published_at)
            for course, own in by_course.items()
            if len(own) >= LEAST_STEPS
        }
        most = round(2 * median(step.published_at - step.received_at for step in steps or [_NONE]))
        self._most = max(most, 1)
        self._work = [0]
        for earlier, later in pairwise(published_at):
            self._work.append(self._work[-1] + min(later - earlier, self._most))
        durations = [self.work_between(*step) for step in steps]
        self.longest = max(durations, default=0)
        self.patience = longest_to_expect(durations) if len(steps) >= LEAST_STEPS else math.inf

    def of_course(self, course: Course) -> Pace:
        """The pace for messages that come by a course; the whole where too few are known."""
        return self._by_course.get(course, self)

    def is_through(self, courses: Counter[Course]) -> bool:
        """Tell whether its share in a conversation is an end, and has all that it publishes."""
        return frozenset(courses.items()) in self._ends and self._publishes <= courses.keys()

    def has_had_time(self, since: int) -> bool:
        """Tell whether it was at work since then for longer than it takes, as far as is known."""
        return bool(self._times) and self.work_between(since, self._times[-1]) > self.patience

    def work_between(self, since: int, until: int) -> int:
        """The time at work between two times (µs)."""
        return self._work_until(until) - self._work_until(since)

    def _work_until(self, moment: int) -> int:
        last = bisect_right(self._times, moment) - 1
        if last < 0:
            return min(moment - self._times[0], 0) if self._times else 0
        return self._work[last] + min(moment - self._times[last], self._most)


_NONE = Handling(0, 0)


def longest_to_expect(durations: Sequence[int]) -> float:
    """The duration that the next one does not exceed, by those that are known, two at least."""
    longest, usual = max(durations), median(durations)
    steps = math.log(len(durations))
    beyond = max(-math.log(_CHANCE) - steps, 0) / (steps - math.log(2))
    return max(longest + beyond * (longest - usual), LEAST_MULTIPLE * longest)
