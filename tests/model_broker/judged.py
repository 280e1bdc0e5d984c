"""The tracker's answers on all pairs of a script's events, held against the truth."""

from __future__ import annotations

import random
from collections import Counter
from typing import NamedTuple

from app.tracker import Bounds, Policy, Publish, StampedEvent, Tracker
from app.tracker.links import BUILT_IN, Rules
from drills.acts.topology import Layout
from model.deaths import deaths_of
from model.words import EdgeKind
from tests.model_broker.broker import ModelBroker
from tests.model_broker.manners import MANNERS
from tests.model_broker.script import Act, Author, layout_of, shortened
from tests.unit.test_tracker import Store

RULES = Rules(BUILT_IN)


class Fault(NamedTuple):
    """A false answer on two events, by their numbers."""

    answer: str
    earlier: int
    later: int


class Answers(NamedTuple):
    """How often each was given, and the false ones."""

    counts: Counter[str]
    faults: list[Fault]


class Run:
    """A model broker, and the service that traces it."""

    def __init__(self, version: str, seed: int = 0, layout: Layout | None = None) -> None:
        self.draw = random.Random(f"{version} {seed}")
        self.broker = ModelBroker(layout or layout_of(self.draw), MANNERS[version])
        self._store = Store()
        self._tracker = self._begun()
        self._events: list[StampedEvent] = []
        self._fed = 0

    def play(self, act: Act) -> None:
        """Have the broker or the service do something; it is traced."""
        if act.what == "restart":
            self._commit()
            self._tracker = self._begun()
        elif act.what == "look":
            self._look()
        else:
            self.broker.now += 1_000
            getattr(self.broker, act.what)(act.who, **act.of)
            self._trace()

    def events(self) -> list[StampedEvent]:
        """All events so far, stored."""
        self._commit()
        return self._store.events

    def answers(self) -> Answers:
        """Answer on all pairs as the service does (`model.answers`), and judge it."""
        events, past = self.events(), self.broker.past
        assert len(events) == len(past)
        counts: Counter[str] = Counter()
        faults: list[Fault] = []
        caused: list[int] = []
        doubtful: list[tuple[int, StampedEvent]] = []
        for b, event in enumerate(events):
            causes = [event.cause] if event.cause is not None else []
            causes += [e.cause for e in event.edges if e.kind is not EdgeKind.candidate]
            path = 0
            for cause in causes:
                assert cause.id is not None
                path |= caused[cause.id - 1] | 1 << cause.id - 1
            caused.append(path)
            height_at, truth = event.stamp.height_at, past[b]
            if event.is_doubtful:
                doubtful.append((b, event))
            unclear = max(
                (n for n, doubt in doubtful if height_at(doubt.stamp.interval) >= doubt.height),
                default=0,
            )
            for a, earlier in enumerate(events[:b]):
                if path >> a & 1:
                    answer = "caused"
                elif height_at(earlier.stamp.interval) >= earlier.height:
                    answer = "may have"
                else:
                    answer = "unknown" if a < unclear else "cannot have"
                counts[answer] += 1
                is_true = truth >> a & 1
                if answer == ("cannot have" if is_true else "caused"):
                    faults.append(Fault(answer, a, b))
        return Answers(counts, faults)

    def _begun(self) -> Tracker:
        restored = self._store.restored
        tracker = Tracker(Policy.client, Bounds(), restored, rules=RULES)
        tracker.trace_replies(self.broker.manners.traces_replies)
        return tracker

    def _trace(self) -> None:
        for number in range(self._fed, len(self.broker.records)):
            if number not in self.broker.hidden:
                record, time = self.broker.records[number], self.broker.times[number]
                self._events += self._tracker.apply(record, time)
        self._fed = len(self.broker.records)

    def _look(self) -> None:
        """Let the service see which queues are empty, as it does now and then."""
        for copy in [*self._tracker.pending()[0]]:
            if copy.queue in self.broker.queues and self.broker.is_empty(copy.queue):
                self._tracker.lose(copy, self.broker.now, "not_there")

    def _commit(self) -> None:
        events, self._events = self._events, []
        self._store.append(events, self._tracker.checkpoint())


def drawn(version: str, seed: int, count: int, **author: bool) -> tuple[list[Act], Run]:
    """Acts that a seed draws, and the run of them."""
    run = Run(version, seed)
    writes = Author(run.draw, run.broker, **author)
    acts = []
    for _ in range(count):
        acts.append(writes.act())
        run.play(acts[-1])
    return acts, run


def replayed(version: str, seed: int, acts: list[Act], layout: Layout | None = None) -> Run:
    """The run of some of a seed's acts, or of others on a layout."""
    run = Run(version, seed, layout)
    for act in acts:
        run.play(act)
    return run


def shortest(version: str, seed: int, acts: list[Act], fault: Fault) -> str:
    """The fewest acts that show a fault of this kind, and what was traced, a line each."""

    def fails(some: list[Act]) -> bool:
        faults = replayed(version, seed, some).answers().faults
        return any(other.answer == fault.answer for other in faults)

    acts = shortened(acts, fails)
    run = replayed(version, seed, acts)
    lines = [f"{version}, seed {seed}:", *map(repr, acts), *map(str, run.answers().faults)]
    return "\n  ".join([*lines, *story(run)])


def story(run: Run) -> list[str]:
    """What was traced, and what is known of it, a line each."""
    lines = []
    for number, event in enumerate(run.events()):
        record = event.record
        kind = "publish" if isinstance(record, Publish) else "again" * record.redelivered
        end = record.queue or f"{record.exchange}:{record.routing_keys[0]} → {record.routed_queues}"
        who = next(p.name for p in run.broker.programs.values() if p.is_at(record.channel))
        edges = [(edge.rule, edge.kind.name, (edge.cause.id or 0) - 1) for edge in event.edges]
        cause = "" if event.cause is None else f"of {(event.cause.id or 0) - 1}"
        doubt = "doubtful" * event.is_doubtful
        deaths = [(d.queue, d.reason, d.count) for d in deaths_of(record.properties)]
        said = (kind, record.body.decode(), end, event.match.name, cause, edges, deaths, doubt)
        lines.append(" ".join(str(word) for word in (number, who, *said) if word))
    return lines
