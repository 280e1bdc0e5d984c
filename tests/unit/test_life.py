"""A trace's life: what may follow what, by the table, and the lives that real traces have."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from app.traces.life import (
    NOT_RUN,
    TRANSITIONS,
    IllegalTransitionError,
    Life,
    Standing,
    TraceState,
)

Step = Callable[[Life], None]


def running(life: Life) -> None:
    life.running()


def waiting(life: Life) -> None:
    life.waiting("the broker is away")


def fail(life: Life) -> None:
    life.restarting("a bug")


def give_up(life: Life) -> None:
    life.failed("a bug")


def stop(life: Life) -> None:
    life.stopping()


def over(life: Life) -> None:
    life.stopped()


# A path to each state, and the step that leads into it from another.
WAY: dict[TraceState, list[Step]] = {
    TraceState.starting: [],
    TraceState.running: [running],
    TraceState.waiting: [waiting],
    TraceState.stopping: [stop],
    TraceState.stopped: [over],
    TraceState.failed: [give_up],
}
INTO: dict[TraceState, Step] = {
    TraceState.starting: fail,
    TraceState.running: running,
    TraceState.waiting: waiting,
    TraceState.stopping: stop,
    TraceState.stopped: over,
    TraceState.failed: give_up,
}
CHANGES = list(itertools.permutations(TraceState, 2))
LEGAL = [(source, target) for source, target in CHANGES if target in TRANSITIONS[source]]
# What the last run reports while its trace is being stopped.
OVERRULED = [(TraceState.stopping, TraceState[name]) for name in
             ("starting", "running", "waiting", "failed")]  # fmt: skip


def lived(*steps: Step) -> Life:
    life = Life()
    for step in steps:
        step(life)
    return life


def test_the_table_knows_every_state_and_none_that_follows_itself() -> None:
    assert set(TRANSITIONS) == set(TraceState)
    assert all(state not in following for state, following in TRANSITIONS.items())
    assert all(lived(*way).state is state for state, way in WAY.items())


@pytest.mark.parametrize(("source", "target"), LEGAL)
def test_a_legal_transition_happens(source: TraceState, target: TraceState) -> None:
    life = lived(*WAY[source])
    INTO[target](life)
    assert life.state is target


@pytest.mark.parametrize(("source", "target"), sorted(set(CHANGES) - set(LEGAL) - set(OVERRULED)))
def test_an_illegal_transition_raises_and_changes_nothing(
    source: TraceState, target: TraceState
) -> None:
    life = lived(*WAY[source])
    before = life.standing
    with pytest.raises(IllegalTransitionError, match=f"{source} cannot be {target}"):
        INTO[target](life)
    assert life.standing == before


@pytest.mark.parametrize(("source", "target"), OVERRULED)
def test_what_a_run_says_while_its_trace_is_stopped_does_not_undo_that(
    source: TraceState, target: TraceState
) -> None:
    life = lived(*WAY[source], INTO[target])
    assert life.state is TraceState.stopping
    assert life.standing.restarts == (target in (TraceState.starting, TraceState.failed))
    assert (life.standing.waiting_for is not None) == (target is TraceState.waiting)


@pytest.mark.parametrize(
    "state", [state for state in TraceState if state is not TraceState.starting]
)
def test_entering_the_present_state_again_is_no_transition(state: TraceState) -> None:
    assert lived(*WAY[state], INTO[state]).state is state


@pytest.mark.parametrize(
    ("steps", "standing"),
    [
        pytest.param([], Standing(), id="begun"),
        pytest.param([running], Standing(TraceState.running), id="start"),
        pytest.param([running, stop, over], NOT_RUN, id="start and stop"),
        pytest.param([stop, over], NOT_RUN, id="stop before it runs"),
        pytest.param([running, over, over], NOT_RUN, id="the queue is empty before the stop"),
        pytest.param(
            [running, waiting, waiting],
            Standing(TraceState.waiting, waiting_for="the broker is away"),
            id="outage",
        ),
        pytest.param(
            [waiting, running, waiting, running], Standing(TraceState.running), id="outages over"
        ),
        pytest.param(
            [waiting, stop],
            Standing(TraceState.stopping, waiting_for="the broker is away"),
            id="stop while waiting",
        ),
        pytest.param([waiting, stop, over], NOT_RUN, id="stopped while waiting"),
        pytest.param(
            [running, fail], Standing(last_error="a bug", restarts=1), id="failure while running"
        ),
        pytest.param(
            [fail, waiting, fail, running],
            Standing(TraceState.running, last_error="a bug", restarts=2),
            id="failures and an outage",
        ),
        pytest.param(
            [fail, fail, fail, give_up],
            Standing(TraceState.failed, last_error="a bug", restarts=4),
            id="given up",
        ),
        pytest.param(
            [give_up, stop, over],
            Standing(TraceState.stopped, last_error="a bug", restarts=1),
            id="stopped after it was given up",
        ),
        pytest.param(
            [running, stop, fail, over],
            Standing(TraceState.stopped, last_error="a bug", restarts=1),
            id="failure while stopping",
        ),
        pytest.param([running, stop, stop, over, over], NOT_RUN, id="stopped by two at once"),
    ],
)
def test_the_lives_of_traces_are_legal(steps: list[Step], standing: Standing) -> None:
    assert lived(*steps).standing == standing
