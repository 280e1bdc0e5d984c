"""The planner against the truth: explicit causal pasts of random histories."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from itc import Relation
from model.jobs import Problem
from model.ranges import Dot, HeightPairs, RangeEnd, first_reached
from spark_jobs.chains.plan import Plan, choose, look_up, make_plan, read_span
from spark_jobs.errors import JobError
from spark_jobs.events.history import History as Lookups
from spark_jobs.events.ranges import Range, Ranges, compare_rows, merge_ranges
from spark_jobs.spark.database import DatabaseAddress
from tests.spark.histories import History, random_history


def ids_of(lookups: Lookups, plan: Plan, ranges: list[Range]) -> set[int]:
    if not ranges:
        return set()
    return set(lookups.members(plan.start.trace, Ranges.from_ranges(ranges))[0].tolist())


def scanned(database: DatabaseAddress, plan: Plan, batch_rows: int = 50) -> list[Range]:
    """What the executors do, here over the answer's batches."""
    sql = (
        "SELECT id, participant, height, seq, clock FROM events"
        f" WHERE trace_id = {plan.start.trace} AND id BETWEEN {plan.start.id} AND {plan.end.id}"
    )
    return merge_ranges(
        found
        for batch in database.query(sql, batch_rows)
        for found in compare_rows(
            *(batch.column(k).to_numpy() for k in range(4)),
            batch.column(4).to_pylist(),
            plan.bounds,
            plan.start.dot,
        )
    )


def pair(rng: random.Random, history: History) -> tuple[int, int]:
    """Two events of one trace, in one case of two with the first in the second's past."""
    row = rng.choice(history.rows)
    second = int(row["id"])
    past = history.past[second] - {second}
    if past and rng.random() < 0.5:
        return rng.choice(sorted(past)), second
    trace = [other["id"] for other in history.rows if other["trace_id"] == row["trace_id"]]
    return rng.choice([other for other in trace if other != second]), second


@pytest.mark.parametrize("churn", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_both_forms_give_the_true_chain(tmp_path: Path, seed: int, churn: float) -> None:
    rng = random.Random(seed)
    history = random_history(rng, 300, present=6, churn=churn, traces=2)
    database = DatabaseAddress.from_url(history.write(tmp_path / "store.db"))
    chains = 0
    with database.connect() as connection:
        lookups = Lookups(connection)
        for _ in range(60):
            first, second = pair(rng, history)
            truth = history.chain(first, second)
            plan = make_plan(lookups, first, second, form="ranges")
            assert plan.is_empty == (not truth)
            if plan.is_empty:
                continue
            chains += 1
            assert plan.ranges is not None
            assert ids_of(lookups, plan, plan.ranges) == truth
            assert sum(each.events for each in plan.ranges) == len(truth)
            assert scanned(database, plan) == plan.ranges
            assert look_up(lookups, plan) == read_span(lookups, plan) == plan.ranges
    assert chains > 5


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[tuple[History, Lookups]]:
    """One publishes (1), another receives (2) and publishes (3), a third acts alone (4)."""
    history = History(traces=2)
    one, two, three, other = (history.join(trace) for trace in (1, 1, 1, 2))
    first = history.publish(one)
    history.receive(two, first)
    history.publish(two)
    history.publish(three)
    history.publish(other, trace=2)
    database = DatabaseAddress.from_url(history.write(tmp_path / "store.db"))
    with database.connect() as connection:
        yield history, Lookups(connection)


def test_a_chain_asked_for_backwards_runs_from_cause_to_effect(
    relay: tuple[History, Lookups],
) -> None:
    plan = make_plan(relay[1], 3, 1)
    assert plan.relation is Relation.after
    assert (plan.start.id, plan.end.id) == (1, 3)
    assert plan.ranges is not None
    assert ids_of(relay[1], plan, plan.ranges) == {1, 2, 3}


def test_concurrent_events_have_an_empty_plan(relay: tuple[History, Lookups]) -> None:
    plan = make_plan(relay[1], 1, 4)
    assert plan.relation is Relation.concurrent
    assert plan.is_empty


@pytest.mark.parametrize(
    ("first", "second", "problem"),
    [
        (1, 1, Problem.bad_request),
        (1, 5, Problem.bad_request),
        (1, 99, Problem.not_found),
        (99, 1, Problem.not_found),
    ],
)
def test_ids_that_make_no_chain_are_refused(
    relay: tuple[History, Lookups], first: int, second: int, problem: Problem
) -> None:
    with pytest.raises(JobError) as caught:
        make_plan(relay[1], first, second)
    assert caught.value.problem is problem


def test_bisection_looks_at_few_events_near_a_short_answer() -> None:
    # One participant of a million events, the last 100 of which reached the start.
    interval, size, answer = "", 1_000_000, 100
    dot = Dot(interval, size - answer + 1)
    asked: list[HeightPairs] = []

    def mark(height: int) -> RangeEnd:
        from itc import Stamp, pack

        return RangeEnd(height, height, height, pack(Stamp.of_interval(interval, height)))

    def probe(wanted: HeightPairs) -> dict[int, RangeEnd]:
        asked.append(wanted)
        return {participant: mark(height) for participant, height in wanted}

    firsts = first_reached({1: mark(size)}, lambda each: dot.is_reached(each.clock), probe)
    assert firsts[1].height == size - answer + 1
    assert len(asked) < 20


def test_the_choice_weighs_participants_against_the_span() -> None:
    assert choose(64, 1_000, None)[0] == "ranges"
    assert choose(10_000, 5_000_000, None)[0] == "ranges"
    assert choose(5_000, 10_000, None)[0] == "ranges"
    assert choose(5_000, 100_000, None)[0] == "scan"
    assert choose(100_000, 1_000_000, None)[0] == "scan"
    assert choose(100_000, 1_000_000, "ranges")[0] == "ranges"
