"""The judge: of which acts is it sure that they influenced a later one, and of which possible?

It reads the programs' logs and knows the queues, and nothing of the service, of trace messages or
of `x-death`. Influence goes from an act of a program to its later acts; from a publish to each
delivery of it; from who held a copy, until it parted with it, to whoever is handed the copy or what
came of it afterwards; from the publishes that made a queue too long to the dead letter that they
pushed out; and from an act that a publish names as its cause to that publish.

What is in every world (`worlds`) is sure, what is in any is possible. A delivery that the broker
pushed may have been on its way when its program acted last: so its program's earlier acts are not
among its sure causes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from drills.acts.log import Act, ActKind, Log
from drills.acts.topology import Layout
from drills.acts.worlds import Lineage, PossibleWorld, Worlds


class Influence(NamedTuple):
    """One step: from an act to a later one, and the situation it is of."""

    source: int
    target: int
    situation: str


class Inheritance(NamedTuple):
    """Acts, as the bits of a number: those that influenced an act for sure, and possibly."""

    sure: int = 0
    possible: int = 0


class Pushers(NamedTuple):
    """The publishes that pushed a copy out of a queue."""

    sure: list[Act]
    possible: list[Act]
    is_open: bool  # others may have


class Judge:
    """The judgement of one log."""

    def __init__(self, topology: Layout, log: Log) -> None:
        self._topology = topology
        self._log = log
        groups: defaultdict[str, list[Act]] = defaultdict(list)
        for act in log.acts:
            if act.body:
                groups[act.body].append(act)
        purges = [act for act in log.acts if act.kind is ActKind.purge]
        self.messages: dict[str, Worlds] = {}
        for body, acts in groups.items():
            both = sorted([*acts, *purges], key=lambda act: act.number)
            self.messages[body] = Worlds(topology, log, both)
        self._parted = {act.settles: act for act in log.acts if act.settles is not None}
        self._may_be_reached = {name: topology.gets_dead_letters(name) for name in topology.queues}
        self.steps: list[Influence] = []
        """The sure steps, between publishes and deliveries; a program's own are not among them."""
        self.past: list[Inheritance] = []
        """The acts that influenced each act; its own bit is not among them."""
        self._programs: defaultdict[str, list[tuple[int, Inheritance]]] = defaultdict(list)
        self._last: dict[str, int] = {}
        for act in log.acts:
            self._judge(act)

    @property
    def unexplained(self) -> list[Act]:
        """Deliveries for which the judge knows no copy: it is wrong about the broker."""
        return [act for message in self.messages.values() for act in message.unexplained]

    def is_sure(self, a: int, b: int) -> bool:
        """Tell whether an act influenced a later one for sure."""
        return bool(self.past[b].sure >> a & 1)

    def is_possible(self, a: int, b: int) -> bool:
        """Tell whether an act may have influenced a later one."""
        return bool(self.past[b].possible >> a & 1)

    def _judge(self, act: Act) -> None:
        mine = self._so_far(act.program, act.number)
        for cause in map(self._with, act.causes):
            mine = Inheritance(mine.sure | cause.sure, mine.possible | cause.possible)
        if act.kind is ActKind.delivery:
            before = self._so_far(act.program, act.since) if not act.pushed else Inheritance()
            sure, possible = self._handed(act)
            self.past.append(Inheritance(sure | before.sure, possible | mine.possible))
        else:
            self.past.append(mine)
        if act.kind in (ActKind.publish, ActKind.delivery):
            past, bit = self.past[-1], 1 << act.number
            joined = Inheritance(mine.sure | past.sure | bit, mine.possible | past.possible | bit)
            self._programs[act.program].append((act.number, joined))

    def _so_far(self, program: str, before: int) -> Inheritance:
        """Return what a program knew before this place in the log."""
        for number, past in reversed(self._programs[program]):
            if number < before:
                return past
        return Inheritance()

    def _with(self, number: int) -> Inheritance:
        """An act and its past. One that is no event of its own is only its past."""
        past = self.past[number]
        if self._log.acts[number].kind not in (ActKind.publish, ActKind.delivery):
            return past
        return Inheritance(past.sure | 1 << number, past.possible | 1 << number)

    def _handed(self, act: Act) -> tuple[int, int]:
        message = self.messages[act.body]
        if message.is_vague:
            return self._vague(message, act)
        sure, possible = -1, 0
        steps: set[Influence] | None = None
        for world in message.worlds:
            copy = world.of[act.number]
            certain, open_ = 0, 0
            found = set()
            for source, situation in self._sources(message, world, copy, act):
                certain |= self._with(source).sure
                open_ |= self._with(source).possible
                found |= set(self._shown(source, act.number, situation))
            for each in self._only_possible(message, world, copy, act):
                open_ |= self._with(each).possible
            sure &= certain
            possible |= open_
            steps = found if steps is None else steps & found
        self.steps += sorted(steps or ())
        return sure, possible

    def _vague(self, message: Worlds, act: Act) -> tuple[int, int]:
        possible = 0
        for each in self._log.acts[: act.number]:
            possible |= self._with(each.number).possible
        publishes = [each for each in message.publishes if each.number < act.number]
        sure = self._with(publishes[0].number).sure if len(publishes) == 1 else 0
        return sure, possible

    def _shown(self, source: int, target: int, situation: str) -> Iterator[Influence]:
        """The step from an act; from what a program did before it, where it is no event."""
        act = self._log.acts[source]
        if act.kind in (ActKind.publish, ActKind.delivery):
            yield Influence(source, target, situation)
            return
        done = [number for number, _ in self._programs[act.program] if number < source]
        if done:
            yield Influence(done[-1], target, f"{situation}, its holder meanwhile")

    def _sources(
        self, message: Worlds, world: PossibleWorld, copy: Lineage, act: Act
    ) -> Iterator[tuple[int, str]]:
        """The acts from which influence came to a delivery of a copy, with their situations."""
        yield copy.publish, self._situation(message, world, copy)
        for each in copy.ancestors():
            course = world.course(each)
            holders = [number for number in course.holders if number < act.number]
            for holder in holders:
                if message.is_timed(each.queue):
                    yield holder, "timed out, or settled in time"
                    continue
                parted = self._parted[holder]
                situation = {
                    ActKind.reject: "rejected",
                    ActKind.give_back: "returned",
                    ActKind.die: "returned by dying",
                }[parted.kind]
                yield holder, situation
                yield parted.number, situation
            if each == copy:
                unseen = message.unseen_holders(each.queue, act.number)
                is_quorum = self._topology.queues[each.queue].limit is not None
                says_so = act.redelivered and not copy.is_dead_letter and not is_quorum
                if says_so and not holders and len(unseen) == 1:
                    yield unseen[0].number, "returned unseen"
            elif course.rejection is None:
                reasons = message.silent_reasons(each, course)
                for push in self._pushers(each, world, act).sure if reasons == {"maxlen"} else ():
                    yield push.number, "overflow"

    def _only_possible(
        self, message: Worlds, world: PossibleWorld, copy: Lineage, act: Act
    ) -> Iterator[int]:
        """Acts whose influence on a delivery of a copy is possible."""
        for each in copy.ancestors():
            course = world.course(each)
            for holder in course.holders if message.is_timed(each.queue) else ():
                program = self._log.acts[holder].program
                yield from (n for n, _ in self._programs[program] if holder < n < act.number)
            for left in message.unseen_holders(each.queue, act.number):
                yield left.number
            if each == copy or course.rejection is not None:
                continue
            if "maxlen" in message.silent_reasons(each, course):
                pushers = self._pushers(each, world, act)
                yield from (push.number for push in pushers.possible)
                if pushers.is_open:
                    yield from range(copy.publish + 1, act.number)

    def _pushers(self, copy: Lineage, world: PossibleWorld, act: Act) -> Pushers:
        """The publishes that may have pushed a copy out of its queue before a delivery.

        Nothing behind a copy leaves a queue before it, unless somebody held it. So it is the first
        publishes behind it, as many as the queue may be long, that push it out.
        """
        queue = copy.queue
        longest = self._topology.queues[queue].longest or 0
        publish = self._log.acts[copy.publish]
        arrivals = [
            each
            for each in self._log.acts[: act.number]
            if each.kind is ActKind.publish
            and each.number != copy.publish
            and not _is_done(each, publish.number)
            and queue in self._topology.routed(each.exchange, each.keys)
        ]
        is_open = self._may_be_reached[queue] or self._came_back(queue, act.number)
        held = bool(world.course(copy).holders)
        if held or copy.is_dead_letter or publish.until is None:
            sure = arrivals if len(arrivals) == 1 and not is_open else []
            return Pushers(sure, arrivals, is_open)
        behind = [each for each in arrivals if each.number >= publish.until]
        possible = [
            each
            for each in arrivals
            if sum(_is_done(other, each.number) for other in behind) < longest
        ]
        if is_open:
            return Pushers([], arrivals, is_open)
        if len(possible) == 1:
            return Pushers(possible, possible, is_open)
        sure = [
            each
            for each in possible
            if each in behind
            and sum(not _is_after(other, each) for other in arrivals if other is not each) < longest
        ]
        return Pushers(sure, possible, is_open)

    def _came_back(self, queue: str, before: int) -> bool:
        return any(
            each.kind in (ActKind.give_back, ActKind.die, ActKind.leave) and each.queue == queue
            for each in self._log.acts[:before]
        )

    def _was_kept(self, copy: Lineage) -> bool:
        """Tell whether a copy's queue was bound only after its publish."""
        return any(
            each.kind is ActKind.bind and each.queue == copy.queue
            for each in self._log.acts[copy.publish :]
        )

    def _situation(self, message: Worlds, world: PossibleWorld, copy: Lineage) -> str:
        if len(message.publishes) > 1:
            is_replay = any(each.is_replay for each in message.publishes)
            return "replayed" if is_replay else "equal"
        if self._was_kept(copy):
            return "kept message"
        if not copy.is_dead_letter:
            return "message" if len(world.course(copy).holders) <= 1 else "redelivered message"
        dead = [*copy.ancestors()][:-1]
        silent = [each for each in dead if world.course(each).rejection is None]
        if len(silent) > 1:
            return f"{len(silent)} deaths in silence" if len(silent) < 3 else "3 or more in silence"
        if len(self._topology.after_death(dead[-1].way[-1])) > 1:
            return "dead letter in two queues"
        return "dead letter" if silent else "rejected message"


def _is_done(act: Act, place: int) -> bool:
    """Tell whether the broker had done it at this place in the log."""
    return act.until is not None and act.until <= place


def _is_after(act: Act, other: Act) -> bool:
    """Tell whether one act was begun when the broker had done the other."""
    return _is_done(other, act.number)
