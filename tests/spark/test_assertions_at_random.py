"""Assertions over random histories of which a part was lost or removed, against the whole truth.

The truth knows every event, with all that led to it, and judges by going through sets. What is
stored lacks some of it, and gaps say where, as roughly as they do. Whatever is said to hold must
hold, and what is said to be violated must be: else the answer is that it is not known.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import Connection, create_engine, delete, insert, update

from app.store.database.tables import (
    blocks,
    channels,
    edges,
    events,
    gaps,
    keys,
    metadata,
    participants,
    traces,
)
from model.assertions.assertion import Assertion, AtMost, Basis, LeadsTo, Precedence, TypePattern
from model.assertions.judging import AssertionVerdict
from model.blocks import MAX_ID
from model.words import Via
from spark_jobs.events.slices import id_spans
from spark_jobs.events.source import read
from spark_jobs.reports.assertions.clocks import firsts
from spark_jobs.reports.assertions.clocks_job import contacts_in, is_complete_to_its_end, past_of
from spark_jobs.reports.assertions.findings import CLOCK_COLUMNS, TYPE_COLUMNS, type_in
from spark_jobs.reports.assertions.links_job import Breaks, findings_in
from spark_jobs.reports.assertions_job import AssertionTally, reason_incomplete, result_of
from spark_jobs.reports.conversations import COLUMNS, conversation_of_rows, join_events
from spark_jobs.reports.period import Period, open_period
from spark_jobs.spark.database import DatabaseAddress
from tests.spark.histories import NOON, Actor, History, Link

SECOND = 1_000_000
HISTORIES = 40
TYPES = "abc"
MAY_HAVE = Basis.may_have


class Step(NamedTuple):
    """What happened: a publish that names deliveries, or a delivery of the publish ``of``."""

    who: int
    type: str
    at: int
    of: int | None
    named: tuple[int, ...]


@dataclass
class Truth:
    """All that happened, by number."""

    steps: list[Step]
    led: dict[int, set[int]] = field(default_factory=dict)  # messages that led to each message
    past: dict[int, set[int]] = field(default_factory=dict)  # steps at or before each, by clocks

    def __post_init__(self) -> None:
        last: dict[int, set[int]] = defaultdict(set)
        for number, step in enumerate(self.steps):
            self.past[number] = {number} | last[step.who]
            for cause in (*step.named, *([] if step.of is None else [step.of])):
                self.past[number] |= self.past[cause]
            last[step.who] = self.past[number]
            if step.of is None:
                causes = {self.message(each) for each in step.named}
                self.led[number] = causes.union(*(self.led[each] for each in causes))

    def message(self, number: int) -> int:
        of = self.steps[number].of
        return number if of is None else of

    def verdict(self, what: Any, number: int) -> AssertionVerdict | None:
        """The verdict on a step; None where it may turn out either way."""
        own, at = self.message(number), self.steps[number].at
        if isinstance(what, Precedence):
            before = (
                {self.message(each) for each in self.past[number]}
                if what.evidence is MAY_HAVE
                else self.led[own]
            ) - {own}
            return said(any(what.precursor.fits(self.steps[each].type) for each in before))
        future = [each for each, causes in self.led.items() if number in causes]
        if isinstance(what, AtMost):
            return said(len(future) <= what.causes_more_than)
        times = [self.steps[e].at for e in future if what.leads_to.fits(self.steps[e].type)]
        if any(what.limit is None or each <= at + what.limit for each in times):
            return AssertionVerdict.holds
        is_over = what.limit is not None and self.steps[-1].at > at + what.limit
        return AssertionVerdict.violated if is_over else None

    def began(self, number: int) -> int:
        """When the first of all that it is joined with was recorded."""
        own = self.message(number)
        joined = {own}
        while True:
            more = {
                other
                for other, causes in self.led.items()
                if other in joined or causes & joined or any(other in self.led[e] for e in joined)
            }
            if more <= joined:
                return min(self.steps[each].at for each in joined)
            joined |= more


def said(holds: bool) -> AssertionVerdict:
    return AssertionVerdict.holds if holds else AssertionVerdict.violated


def happened(dice: random.Random) -> Truth:
    steps: list[Step] = []
    at, handed = NOON, defaultdict[int, list[int]](list)
    for number in range(dice.randint(4, 24)):
        at += dice.choice((0, 1, 1, 2, 5)) * SECOND
        who = dice.randrange(3)
        published = [each for each, step in enumerate(steps) if step.of is None]
        if published and dice.random() < 0.5:
            of = dice.choice(published[-5:])
            steps.append(Step(who, steps[of].type, at, of, ()))
            handed[who].append(number)
            continue
        count = min(len(handed[who]), dice.choice((0, 1, 1, 2)))
        named = tuple(dice.sample(handed[who][-dice.choice((2, 10)) :], min(count, 2)))
        steps.append(Step(who, dice.choice(TYPES), at, None, named))
    return Truth(steps)


class Stored(NamedTuple):
    """What of a truth was stored: the step of each id, and the first id that is left."""

    url: str
    step_of: dict[int, int]
    is_whole: bool


def store(truth: Truth, dice: random.Random, path: Path) -> Stored:
    count = len(truth.steps)
    lost: list[range] = []
    for _ in range(dice.choice((0, 0, 1, 1, 2))):
        begins = dice.randrange(count)
        lost.append(range(begins, min(count, begins + dice.randint(1, 4))))
    gone = {number for each in lost for number in each} - {dice.randrange(count)}
    history, ids = History(), dict[int, int]()
    actors: dict[int, Actor] = {}  # numbered as they are first seen
    for number, step in enumerate(truth.steps):
        if number not in gone:
            if step.who not in actors:
                actors[step.who] = history.join()
            ids[number] = _store_one(history, actors[step.who], step, ids)
    first = dice.randint(2, len(ids)) if len(ids) > 2 and dice.random() < 0.3 else 1
    engine = create_engine(f"sqlite:///{path}")
    metadata.create_all(engine)
    with engine.begin() as connection:
        for table in (gaps, edges, keys, blocks, events, channels, participants, traces):
            connection.execute(delete(table))
        history.write_to(connection)
        for number, each in enumerate(lost):
            _note(connection, number, each, truth, ids, dice)
        connection.execute(delete(events).where(events.c.id < first))
        connection.execute(delete(edges).where(edges.c.effect_id < first))
        connection.execute(update(traces).values(pruned=first > 1))
    engine.dispose()
    left = {event: number for number, event in ids.items() if event >= first}
    return Stored(f"sqlite+aiosqlite:///{path}", left, not lost and first == 1)


def _store_one(history: History, actor: Actor, step: Step, ids: dict[int, int]) -> int:
    properties = {"properties": json.dumps({"type": step.type, "headers": {}})}
    if step.of is None:
        links = [Link(ids[each]) for each in step.named if each in ids]
        return history.publish(actor, links=links, recorded_at=step.at, **properties)
    return history.receive(actor, ids.get(step.of), recorded_at=step.at, **properties)


def _note(
    connection: Connection,
    number: int,
    lost: range,
    truth: Truth,
    ids: dict[int, int],
    dice: random.Random,
) -> None:
    """A gap, as wide as they may be, whose times are those at which somebody noticed."""
    before = [event for each, event in ids.items() if each < lost.start]
    after = [event for each, event in ids.items() if each >= lost.stop]
    ends = after[min(dice.randrange(3), len(after) - 1)] if after else None
    begins = before[-min(dice.choice((1, 1, 3)), len(before))] if before else 0
    # What is lost might have waited: whoever noticed may have done so before it was its turn.
    since = truth.steps[lost.start].at + dice.randint(-8, 2) * SECOND
    noticed = truth.steps[lost.stop - 1].at + dice.randint(-8, 2) * SECOND
    until = None if ends is None else max(since, noticed)
    values = {"id": number + 1, "trace_id": 1, "after_event_id": begins, "before_event_id": ends}
    values |= {"since": since, "until": until, "reason": "lost"}
    connection.execute(insert(gaps).values(**values, suspected=dice.random() < 0.5))


def assertions(dice: random.Random) -> list[Assertion]:
    def pattern() -> TypePattern:
        return TypePattern(dice.choice((*TYPES, "*")))

    whats = [
        LeadsTo(pattern(), pattern(), dice.randint(1, 20) * SECOND),
        LeadsTo(pattern(), pattern()),
        Precedence(pattern(), pattern()),
        AtMost(pattern(), dice.randrange(3)),
        Precedence(pattern(), pattern(), MAY_HAVE),
    ]
    return [Assertion(str(number), what) for number, what in enumerate(whats)]


def judged(database: DatabaseAddress, period: Period, asserted: list[Assertion]) -> Iterator[Any]:
    """(number of the assertion, finding), as the report has them."""
    assert period.ids is not None
    known = period.history.gaps_in_time(period.trace, 0, MAX_ID)
    through = period.history.newest_until(period.trace, MAX_ID)
    assert through is not None
    joined = join_events(period.history.connection, period.trace, period.ids, through[0], Via.links)
    of_a_past = ("quiet", "candidates", "doubtful")
    columns = dict.fromkeys((*COLUMNS, *TYPE_COLUMNS, *CLOCK_COLUMNS, *of_a_past))
    [part] = id_spans(period.trace, 1, through[0], 1)
    rows = {row["id"]: row for some in read(database, [*columns], part) for row in some.to_pylist()}
    numbered = [*enumerate(asserted)]
    for number, one in numbered[4:]:
        assert isinstance(one.requirement, Precedence)
        its = [row for row in rows.values() if period.ids[0] <= row["id"] <= period.ids[1]]
        first = firsts(contacts_in(its, one.requirement))
        is_sure = is_complete_to_its_end(period, known) and not period.sound.doubts
        for row in its:
            name = type_in(row)
            is_asked = row["type"] == 1 and period.holds(row["recorded_at"])
            if is_asked and one.requirement.subject.fits(name):
                yield number, past_of(row, name, one.requirement, first, is_sure=is_sure)
    roots = zip(joined.roots.tolist(), joined.ids.tolist(), strict=True)
    for root, its_ids in groupby(sorted(roots), key=lambda pair: pair[0]):
        conversation = conversation_of_rows(
            root, {each: rows[each] for _, each in its_ids}, Via.links
        )
        yield from findings_in(conversation, numbered[:4], through[1], known, Breaks())


@pytest.mark.parametrize(
    "part", [0, 1, *(pytest.param(each, marks=pytest.mark.long(3)) for each in (2, 3))]
)
def test_nothing_is_said_that_is_not_so(tmp_path: Path, part: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(part * HISTORIES, (part + 1) * HISTORIES):
        dice = random.Random(seed)
        truth = happened(dice)
        stored = store(truth, dice, tmp_path / "a.db")
        asserted = assertions(dice)
        times = [truth.steps[each].at for each in stored.step_of.values()]
        if not times:
            continue
        since, until = NOON, times[-1] + 1
        if dice.random() < 0.5:
            since, until = sorted((dice.choice(times), dice.choice(times) + SECOND))
        database = DatabaseAddress.from_url(stored.url)
        with open_period(database, "/", since, until) as period:
            found = [*judged(database, period, asserted)]
            _check_verdicts(truth, asserted, found, period, seed)
        for number, finding in found:
            true = truth.verdict(asserted[number].requirement, stored.step_of[finding.event])
            if finding.verdict is not AssertionVerdict.unknown:
                assert finding.verdict is true, (seed, asserted[number], finding)
            elif stored.is_whole and period.since == NOON:
                assert true is None or finding.by_absence is False, (seed, finding)
            seen[f"{number} {finding.verdict}"] += 1
    for number in range(5):
        assert seen[f"{number} holds"], seen
        assert seen[f"{number} violated"] or number in (1, 4), seen


def _check_verdicts(
    truth: Truth, asserted: list[Assertion], found: list[Any], period: Period, seed: int
) -> None:
    """What holds over a period holds for all of it, whether it was stored or not."""
    missing = reason_incomplete(period, period.history.gaps_in_time(period.trace, 0, MAX_ID))
    for number, one in enumerate(asserted):
        counts = Counter(str(each.verdict) for its, each in found if its == number)
        if (
            result_of(one, AssertionTally(counts, []), missing).verdict
            is not AssertionVerdict.holds
        ):
            continue
        what = one.requirement
        wanted = what.subject  # type: ignore[union-attr]
        for step, it in enumerate(truth.steps):
            is_asked = (it.of is not None) == isinstance(what, Precedence)
            is_by_clocks = isinstance(what, Precedence) and what.evidence is MAY_HAVE
            asked_at = it.at if is_by_clocks else truth.began(step)
            if is_asked and wanted.fits(it.type) and period.holds(asked_at):
                assert truth.verdict(what, step) is not AssertionVerdict.violated, (seed, one, step)
