"""The service's answers against what the judge knows, counted by situation."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields

from drills.acts.asking import CANNOT, CAUSED, Asked, Sightings
from drills.acts.judge import Influence, Judge
from drills.acts.log import Act, ActKind, Log
from model.event import Event
from model.words import EventType, Match

MOST_ASKED = 2_000  # suspicions of a round that are asked for one by one; of more, these at random
SAMPLE = 200
EXAMPLES = 3
EXACT = (("before", 1), ("concurrent", 0))
ROUTED, UNMATCHED = Match.routed, Match.unmatched


@dataclass
class RoundResult:
    """One round's result, or that of several."""

    events: int = 0
    pairs: int = 0
    sure: int = 0
    possible: int = 0
    relations: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)  # of the sample
    caused: int = 0
    steps: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """The answers on the sure steps of each situation."""
    suspected: int = 0
    asked: int = 0
    false_cannot: Counter[str] = field(default_factory=Counter)
    """Pairs of which a false "cannot have" was said, by the situation that was missed."""
    false_caused: Counter[str] = field(default_factory=Counter)
    """Pairs of which a false "caused" was said, by the steps of the way that was given."""
    inexact: int = 0  # pairs whose clocks say more or less than is true, where it is all known
    different: int = 0  # a comparison says otherwise than clocks and causes
    missing: int = 0  # acts that are not stored
    unseen: int = 0
    unexplained: int = 0  # acts that the judge cannot explain, or clocks it does not have
    lost: int = 0  # copies that are said to be gone
    mistaken: int = 0  # and were handed over all the same
    examples: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> int:
        """The number of errors."""
        return (
            self.false_cannot.total()
            + self.false_caused.total()
            + self.inexact
            + self.different
            + self.missing
            + self.unexplained
            + self.mistaken
        )

    def add(self, other: RoundResult) -> None:
        """Add another round's."""
        for each in fields(self):
            if each.type == "int":
                setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))
        self.relations += other.relations
        self.answers += other.answers
        self.false_caused += other.false_caused
        self.false_cannot += other.false_cannot
        for situation, said in other.steps.items():
            self.steps[situation] += said
        self.examples += other.examples

    def lines(self) -> list[str]:
        """The result as text."""
        width = max(map(len, (*self.steps, *self.false_cannot, "situation")))
        words = (CAUSED, "may have", "unknown", CANNOT)
        head = f"  {'step':{width}} " + " ".join(f"{word:>12}" for word in words)
        rows = [
            f"  {situation:{width}} " + " ".join(f"{said[word]:12}" for word in words)
            for situation, said in sorted(self.steps.items())
        ]
        return [
            f"{self.events} events, {self.pairs} pairs: {self.sure} surely influenced, "
            f"{self.possible} possibly; caused {self.caused}, clocks {dict(self.relations)}",
            head,
            *rows,
            f"  of {sum(self.answers.values())} comparisons: {dict(self.answers)}",
            f"  false caused {self.false_caused.total()} {dict(self.false_caused)}",
            f"  false cannot have {self.false_cannot.total()} {dict(self.false_cannot)} "
            f"({self.suspected} suspected, {self.asked} asked for)",
            f"  related otherwise {self.inexact}, compared otherwise {self.different}, acts not "
            f"stored {self.missing}, not explained {self.unexplained}, deliveries that nobody saw "
            f"{self.unseen}",
            f"  copies said to be gone {self.lost}, handed over all the same {self.mistaken}",
            *(f"  {each}" for each in self.examples),
        ]


def described(act: Act) -> str:
    """An act in words."""
    where = f"{act.exchange or 'default'}:{act.key}" if act.kind is ActKind.publish else act.queue
    again = " redelivered" if act.redelivered else " replay" if act.is_replay else ""
    return f"#{act.number} {act.program} {act.kind}{again} {act.body} {where}"


class Comparison:
    """All pairs of a round's events: what is said, and what is true.

    ``is_exact``: whatever is possible is sure, and so clocks have to say just that.
    """

    def __init__(
        self, log: Log, truth: Judge, seen: Sightings, asked: Asked, *, is_exact: bool = False
    ) -> None:
        self._is_exact = is_exact
        self._log = log
        self._truth = truth
        self._seen = seen
        self._asked = asked
        self._numbers = sorted(seen.event_of)
        self._into: defaultdict[int, list[Influence]] = defaultdict(list)
        for step in truth.steps:
            self._into[step.target].append(step)
        self.outcome = RoundResult(events=len(self._numbers))

    def judge_lost(self, lost: Collection[tuple[int, str]], events: Sequence[Event]) -> None:
        """Judge what is said to be gone: nobody is handed it out of that queue."""
        bodies = Counter(each.payload for each in events if each.type is EventType.published)
        handed = {
            (each.payload, each.queue) for each in events if each.match in (ROUTED, UNMATCHED)
        }
        published = {each.id: each.payload for each in events}
        self.outcome.lost = len(lost)
        for publish, queue in lost:
            body = published[publish]
            if bodies[body] == 1 and (body, queue) in handed:
                self.outcome.mistaken += 1
                self.outcome.examples.append(f"mistaken for gone: event {publish} in {queue}")

    async def judge(self, draw: random.Random) -> RoundResult:
        """Judge all pairs."""
        outcome = self.outcome
        outcome.missing = len(self._seen.missing)
        outcome.unseen = len(self._seen.unseen)
        outcome.inexact += self._is_exact and outcome.unseen
        outcome.unexplained = len(self._truth.unexplained) + self._unknown_clocks()
        for act in self._truth.unexplained[:EXAMPLES]:
            about = [described(each) for each in self._log.acts if each.body == act.body]
            outcome.examples += [f"not explained: {described(act)}", *(f"    {a}" for a in about)]
        await self._asked.ask_causes(self._numbers)
        await self._check_causes()
        suspected = self._compare_all()
        outcome.suspected = len(suspected)
        steps = {(step.source, step.target) for step in self._truth.steps}
        rest = [pair for pair in suspected if pair not in steps]
        chosen = rest if len(rest) <= MOST_ASKED else draw.sample(rest, MOST_ASKED)
        for a, b in sorted([*chosen, *(pair for pair in suspected if pair in steps)]):
            outcome.asked += 1
            await self._ask(a, b)
        await self._ask_steps()
        outcome.answers, outcome.different = await self._asked.sample(SAMPLE, draw)
        return outcome

    def _unknown_clocks(self) -> int:
        """Count how often a program knew what the judge says that it cannot: the judge is wrong."""
        return sum(
            not (number - 1 == act.number or self._truth.is_possible(number - 1, act.number))
            for act in self._log.acts
            for number in act.clock.values()
        )

    def _compare_all(self) -> list[tuple[int, int]]:
        """Relate all pairs; returns those that are said to be unrelated, and are not."""
        suspected = []
        outcome = self.outcome
        for place, b in enumerate(self._numbers):
            past = self._truth.past[b]
            for a in self._numbers[:place]:
                is_sure, is_possible = past.sure >> a & 1, past.possible >> a & 1
                relation = self._asked.relation(a, b)
                outcome.pairs += 1
                outcome.relations[relation] += 1
                outcome.sure += is_sure
                outcome.possible += is_possible
                if self._is_exact and (relation, is_sure) not in EXACT:
                    outcome.inexact += 1
                    if outcome.inexact <= EXAMPLES:
                        self._example(f"said to be {relation}", a, b)
                if is_sure and relation != "before":
                    suspected.append((a, b))
        return suspected

    async def _check_causes(self) -> None:
        """Check that whatever is said to have caused something can have caused it."""
        for b in self._numbers:
            for a in sorted(self._asked.caused[b]):
                self.outcome.caused += 1
                if a > b or not self._truth.is_possible(a, b):
                    said = await self._asked.comparison(a, b)
                    steps = [step["rule"] or step["how"] for step in said["path"] or ()]
                    way = ", ".join(steps)
                    self.outcome.false_caused[way] += 1
                    self._example(f"false caused ({way})", a, b)

    async def _ask(self, a: int, b: int) -> None:
        said = await self._asked.comparison(a, b)
        if said["answer"] != CANNOT and self._asked.relation(a, b) != "after":
            return
        missed = self._missed(a, b)
        self.outcome.false_cannot[missed] += 1
        if self.outcome.false_cannot[missed] <= EXAMPLES:
            self._example(f"false cannot have ({missed})", a, b)

    def _missed(self, a: int, b: int) -> str:
        """The situation of the step that the clocks lack between two acts."""
        for step in self._into[b]:
            if step.source == a or self._truth.is_sure(a, step.source):
                if self._asked.relation(step.source, b) != "before":
                    return step.situation
                if step.source != a and self._asked.relation(a, step.source) != "before":
                    return self._missed(a, step.source)
        program = self._log.acts[b].program
        for act in reversed(self._log.acts[:b]):
            is_own = act.program == program and act.number in self._seen.event_of
            if is_own and self._truth.is_sure(act.number, b) and self._truth.is_sure(a, act.number):
                if self._asked.relation(a, act.number) != "before":
                    return self._missed(a, act.number)
                return "its program's past"
        return "one of several copies"

    async def _ask_steps(self) -> None:
        """Ask what is said of each sure step."""
        for step in self._truth.steps:
            if {step.source, step.target} <= self._seen.event_of.keys():
                said = await self._asked.comparison(step.source, step.target)
                self.outcome.steps[step.situation][said["answer"]] += 1

    def _story(self, a: int, b: int) -> list[str]:
        """The acts about a message from one act to another that it led to in one step."""
        steps = [step for step in self._into[b] if step.source == a]
        body = self._log.acts[b].body
        acts = [act for act in self._log.acts[: b + 1] if act.body == body]
        return [described(act) for act in acts] if steps else []

    def _example(self, what: str, a: int, b: int) -> None:
        if len(self.outcome.examples) < 80:
            one, other = self._log.acts[a], self._log.acts[b]
            ids = [self._seen.event_of[number].id for number in (a, b)]
            self.outcome.examples += [
                f"{what}: {described(one)} → {described(other)} (events {ids[0]}, {ids[1]})",
                *(f"    {line}" for line in self._story(a, b)),
            ]
