"""Possible fates of the copies of a message, told from the log alone.

A message here is a body: equal messages, and a dead letter that was published again, are one. A
*world* says of each delivery which copy was handed over: of which publish, and through which queues
it had come. There is one world where programs know it all, and several where a message died in more
than one place, or several have the same body. A world that is not excluded for certain counts: so
what is true in all worlds is true, and what is true in none is false.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from drills.acts.log import Act, ActKind, Log
from drills.acts.topology import Layout, Stay

MOST_WORLDS = 256  # of one message; beyond it nothing is said for certain of its copies
DEEPEST = 12  # queues that a copy is followed through


class Lineage(NamedTuple):
    """A copy: its publish, and the queues that it or those it came of have been in."""

    publish: int
    way: tuple[Stay, ...]

    @property
    def queue(self) -> str:
        """The queue it is in."""
        return self.way[-1].queue

    @property
    def is_dead_letter(self) -> bool:
        """Tell whether it died before."""
        return len(self.way) > 1

    def ancestors(self) -> Iterator[Lineage]:
        """The copies that it came of, the oldest first, and itself."""
        return (Lineage(self.publish, self.way[: n + 1]) for n in range(len(self.way)))


@dataclass(frozen=True)
class Course:
    """The course of a copy so far. ``died`` by rejection is the act's number, None by itself."""

    holders: tuple[int, ...] = ()
    is_held: bool = False
    is_over: bool = False
    is_dead: bool = False
    rejection: int | None = None
    purged: int | None = None  # it was in the queue, and is gone for who asks from here on


FRESH = Course()


@dataclass
class PossibleWorld:
    """One way it may have been: each copy's course, and the copy that each delivery is of."""

    copies: dict[Lineage, Course] = field(default_factory=dict)
    of: dict[int, Lineage] = field(default_factory=dict)

    def course(self, copy: Lineage) -> Course:
        return self.copies.get(copy, FRESH)

    def but(self, copy: Lineage, course: Course) -> PossibleWorld:
        """This world with another course of one copy."""
        return PossibleWorld({**self.copies, copy: course}, self.of)


class Worlds:
    """A body's acts, and its worlds; ``is_vague`` where there are too many."""

    def __init__(self, topology: Layout, log: Log, acts: list[Act]) -> None:
        self._topology = topology
        self._log = log
        self.publishes: list[Act] = [each for each in acts if each.kind is ActKind.publish]
        self.worlds = [PossibleWorld()]
        self.is_vague = False
        self.unexplained: list[Act] = []
        self._left = [each for each in log.acts if each.kind is ActKind.leave]
        consumed = [*self._left, *(each for each in log.acts if each.pushed)]
        self._pushed = {each.queue for each in consumed}
        for act in acts:
            self._go_on(act)

    def silent_reasons(self, copy: Lineage, course: Course) -> set[str]:
        """The reasons for which a copy may die with nobody rejecting it."""
        rules = self._topology.queues[copy.queue]
        found = set()
        expires = self._log.acts[copy.publish].expires and not copy.is_dead_letter
        if rules.ttl is not None or expires:
            found.add("expired")
        if rules.longest is not None:
            found.add("maxlen")
        if rules.limit is not None and course.holders:
            found.add("delivery_limit")
        return found

    def is_timed(self, queue: str) -> bool:
        """Tell whether the broker may have taken a copy back, whatever its holder does with it."""
        return self._topology.queues[queue].timeout is not None

    def _go_on(self, act: Act) -> None:
        if self.is_vague:
            return
        if act.kind is ActKind.delivery:
            worlds = [more for world in self.worlds for more in self._handed(world, act)]
            if not worlds:
                self.unexplained.append(act)
                self.is_vague = True
            elif len(worlds) > MOST_WORLDS:
                self.is_vague = True
            else:
                self.worlds = worlds
        elif act.settles is not None:
            self.worlds = [_parted(world, act, act.settles) for world in self.worlds]
        elif act.kind is ActKind.purge:
            self.worlds = [self._purged(world, act) for world in self.worlds]

    def _handed(self, world: PossibleWorld, act: Act) -> Iterator[PossibleWorld]:
        """The worlds in which a delivery is of this copy or that."""
        for publish in self.publishes:
            if publish.number > act.number:
                break
            for queue in self._topology.routed(publish.exchange, publish.keys):
                root = Lineage(publish.number, (Stay(queue, publish.keys),))
                for copy, courses in self._reachable(world, root, {}):
                    if copy.queue != act.queue:
                        continue
                    course = world.course(copy)
                    if not self._may_be_handed(copy, course, act):
                        continue
                    held = replace(course, holders=(*course.holders, act.number), is_held=True)
                    copies = {**world.copies, **courses, copy: held}
                    yield PossibleWorld(copies, {**world.of, act.number: copy})

    def _reachable(
        self, world: PossibleWorld, copy: Lineage, courses: dict[Lineage, Course]
    ) -> Iterator[tuple[Lineage, dict[Lineage, Course]]]:
        """The copies that there may be now, each with the silent deaths that it takes."""
        course = world.course(copy)
        yield copy, courses
        if len(copy.way) >= DEEPEST:
            return
        if not course.is_dead:
            is_kept = (course.is_held or course.is_over) and not self.is_timed(copy.queue)
            if is_kept or not self.silent_reasons(copy, course):
                return
            courses = {**courses, copy: replace(course, is_dead=True, is_over=True)}
        for stay in self._topology.after_death(copy.way[-1]):
            child = Lineage(copy.publish, (*copy.way, stay))
            yield from self._reachable(world, child, courses)

    def _may_be_handed(self, copy: Lineage, course: Course, act: Act) -> bool:
        if self.is_timed(act.queue):
            return True
        if course.is_held or course.is_over:
            return False
        if course.purged is not None and act.since >= course.purged:
            return False
        if self._topology.queues[act.queue].limit is not None:
            return True
        if not act.redelivered:
            return not course.holders
        # Since 4.0 a dead letter keeps the flag that it had in the queue where it died.
        is_flagged = copy.is_dead_letter or bool(self.unseen_holders(act.queue, act.number))
        return bool(course.holders) or is_flagged

    def unseen_holders(self, queue: str, before: int) -> list[Act]:
        """Return who left a session on a queue: it may have been handed what it never saw."""
        return [each for each in self._left if each.number < before and each.queue == queue]

    def _purged(self, world: PossibleWorld, act: Act) -> PossibleWorld:
        """Purge what was in the queue for certain; of all else it is not known."""
        if act.until is None or act.queue in self._pushed:
            return world
        for publish in self.publishes:
            if publish.until is None or publish.until > act.number:
                continue
            if act.queue in self._topology.routed(publish.exchange, publish.keys):
                copy = Lineage(publish.number, (Stay(act.queue, publish.keys),))
                course = world.course(copy)
                if not course.holders and course.purged is None and not course.is_over:
                    world = world.but(copy, replace(course, purged=act.until))
        return world


def _parted(world: PossibleWorld, act: Act, delivery: int) -> PossibleWorld:
    copy = world.of[delivery]
    course = replace(world.course(copy), is_held=False)
    if act.kind in (ActKind.acknowledge, ActKind.reject):
        course = replace(course, is_over=True)
    if act.kind is ActKind.reject:
        course = replace(course, is_dead=True, rejection=act.number)
    return world.but(copy, course)
