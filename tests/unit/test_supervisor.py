"""What is restarted, what is waited out, and when a trace is given up."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from app.errors import LeaseLostError, NotFoundError, OutageError
from app.traces.life import Life, Standing, TraceState
from app.traces.recorder import Rate
from app.traces.runs.feed import Feed
from app.traces.supervisor import (
    FIRST_RETRY_SECONDS,
    LONGEST_PAUSE_SECONDS,
    RECOVERED_SECONDS,
    Supervisor,
    patiently,
)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def pause(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(
    ("times", "restarted"),
    [
        ((0, 1, 2), [True, True, True]),
        ((0, 1, 2, 3), [True, True, True, False]),
        ((0, 1, 2, 10.5), [True, True, True, True]),
        ((0, 5, 9, 10), [True, True, True, False]),
        ((0, 20, 40, 60, 80), [True] * 5),
    ],
)
async def test_three_restarts_in_ten_seconds_and_no_more(
    times: tuple[float, ...], restarted: list[bool]
) -> None:
    clock, left = Clock(), iter(times)
    seen: list[bool] = []

    def fail_at(supervisor: Supervisor) -> None:
        look(supervisor)
        clock.now = next(left)
        raise ValueError("a bug")

    def look(supervisor: Supervisor) -> None:
        seen.append(supervisor.life.state is TraceState.starting)

    supervisor, _ = supervised(clock, iter([fail_at] * len(times) + [look]))
    await supervisor.supervise()
    assert seen == [True, *restarted]


def supervised(
    clock: Clock, steps: Iterator[Callable[[Supervisor], None]]
) -> tuple[Supervisor, list[float]]:
    started: list[float] = []

    async def run() -> None:
        started.append(clock.now)
        next(steps)(supervisor)

    supervisor = Supervisor("v", run, Life(), clock=clock, pause=clock.pause, time_of_day=clock)
    return supervisor, started


def fail(_: Supervisor) -> None:
    raise ValueError("a bug")


def outage(_: Supervisor) -> None:
    raise OutageError("the broker is away")


def taken(_: Supervisor) -> None:
    raise LeaseLostError("another run has taken this trace")


def end(_: Supervisor) -> None:
    return


async def test_the_fourth_failure_marks_the_trace_failed_with_its_reason() -> None:
    clock = Clock()
    seen: list[Standing] = []

    def look(supervisor: Supervisor) -> None:
        seen.append(supervisor.life.standing)

    supervisor, started = supervised(clock, iter([fail] * 4 + [look]))
    await supervisor.supervise()
    assert len(started) == 5
    (standing,) = seen
    assert (standing.state, standing.restarts) == (TraceState.failed, 4)
    assert (standing.last_error or "").startswith(
        f"an error in the service itself, ValueError at {__name__}:"
    )
    assert standing.waiting_for == "the next try, at 1970-01-01 00:00:10 UTC"


async def test_a_failed_trace_is_tried_again_with_growing_pauses() -> None:
    supervisor, started = supervised(Clock(), iter([fail] * 12 + [end]))
    await supervisor.supervise()
    pauses = [b - a for a, b in itertools.pairwise(started)]
    assert pauses == [0, 0, 0, 10, 20, 40, 80, 160, 300, 300, 300, 300]
    assert (supervisor.life.state, supervisor.life.standing.restarts) == (TraceState.stopped, 12)


async def test_a_failed_trace_that_runs_again_is_running() -> None:
    seen: list[TraceState] = []

    def come_through(supervisor: Supervisor) -> None:
        supervisor.running()
        seen.append(supervisor.life.state)

    supervisor, _ = supervised(Clock(), iter([fail] * 4 + [outage, come_through]))
    await supervisor.supervise()
    assert seen == [TraceState.running]
    assert supervisor.life.standing.waiting_for is None


async def test_one_that_runs_and_fails_at_once_is_not_tried_more_and_more_often() -> None:
    def stumble(supervisor: Supervisor) -> None:
        supervisor.running()
        raise ValueError("a bug")

    supervisor, started = supervised(Clock(), iter([stumble] * 12 + [end]))
    await supervisor.supervise()
    pauses = [b - a for a, b in itertools.pairwise(started)]
    assert [pause for pause in pauses if pause] == [10, 20, 40]


async def test_a_run_that_lasted_makes_the_next_pause_short_again() -> None:
    clock = Clock()

    def last(supervisor: Supervisor) -> None:
        supervisor.running()
        clock.now += RECOVERED_SECONDS
        raise ValueError("after a while")

    supervisor, started = supervised(clock, iter([fail] * 6 + [last] + [fail] * 3 + [end]))
    await supervisor.supervise()
    pauses = [b - a for a, b in itertools.pairwise(started)]
    assert pauses[-1] == FIRST_RETRY_SECONDS


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (ValueError("amqp://shop:hush@broker"), "ValueError"),
        (KeyError("hush"), "KeyError"),
        (NotFoundError("no such trace"), "no such trace"),
    ],
)
async def test_a_failure_is_told_without_a_text_that_may_hold_a_secret(
    failure: Exception, told: str
) -> None:
    def leak(_: Supervisor) -> None:
        raise failure

    supervisor, _ = supervised(Clock(), iter([leak, end]))
    await supervisor.supervise()

    assert told in (supervisor.life.standing.last_error or "")
    assert "hush" not in (supervisor.life.standing.last_error or "")


async def test_failures_far_apart_are_each_restarted() -> None:
    clock = Clock()

    def later(_: Supervisor) -> None:
        clock.now += 11
        raise ValueError("now and then")

    supervisor, started = supervised(clock, iter([later] * 6 + [end]))
    await supervisor.supervise()
    assert (len(started), supervisor.life.state) == (7, TraceState.stopped)


async def test_an_outage_is_waited_out_with_growing_pauses_and_does_not_count() -> None:
    supervisor, started = supervised(Clock(), iter([outage] * 20 + [end]))
    await supervisor.supervise()
    pauses = [b - a for a, b in itertools.pairwise(started)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE_SECONDS
    assert (supervisor.life.standing.restarts, supervisor.life.state) == (0, TraceState.stopped)


async def test_a_trace_that_another_has_taken_is_not_run_again_and_has_not_failed() -> None:
    supervisor, started = supervised(Clock(), iter([taken]))
    await supervisor.supervise()
    standing = supervisor.life.standing
    assert (len(started), standing.state, standing.restarts) == (1, TraceState.stopped, 0)
    assert standing.last_error is None


async def test_after_an_outage_has_ended_the_pauses_start_small_again() -> None:
    def come_through(supervisor: Supervisor) -> None:
        supervisor.running()
        raise OutageError("again")

    supervisor, started = supervised(Clock(), iter([outage, outage, come_through, outage, end]))
    await supervisor.supervise()
    pauses = [b - a for a, b in itertools.pairwise(started)]
    assert pauses[2] == pauses[0]


async def test_while_it_waits_the_trace_says_for_what() -> None:
    seen: list[tuple[TraceState, str | None]] = []

    def look(supervisor: Supervisor) -> None:
        seen.append((supervisor.life.state, supervisor.life.standing.waiting_for))

    supervisor, _ = supervised(Clock(), iter([outage, look]))
    await supervisor.supervise()
    assert seen == [(TraceState.waiting, "the broker is away")]
    assert supervisor.life.standing.waiting_for is None


def test_the_rate_is_the_mean_over_the_last_seconds() -> None:
    clock = Clock()
    rate = Rate(clock, span=10)
    rate.add(50)
    clock.now = 5
    rate.add(50)
    assert rate.per_second() == 10
    clock.now = 12
    assert rate.per_second() == 5
    clock.now = 60
    assert rate.per_second() == 0


async def test_the_feed_wakes_whoever_waits_for_more() -> None:
    feed = Feed()
    feed.advance(3)
    assert await feed.beyond(2) == 3
    feed.advance(2)
    assert feed.latest == 3


async def test_waiting_and_running_again_are_logged_once_each(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="app.traces.supervisor")
    outages = [OutageError("the broker is away"), OutageError("the broker is away"), None]

    async def run() -> None:
        if (outage := outages.pop(0)) is not None:
            raise outage
        supervisor.running()
        supervisor.running()

    async def pause(seconds: float) -> None:
        return

    supervisor = Supervisor("/", run, Life(), clock=lambda: 0.0, pause=pause)
    await supervisor.supervise()

    assert [record.getMessage() for record in caplog.records] == [
        "trace of '/' waits: the broker is away",
        "trace of '/' runs again",
    ]


async def test_a_store_that_takes_nothing_while_a_trace_runs_is_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.traces.supervisor.FIRST_PAUSE_SECONDS", 0.0)
    caplog.set_level("INFO", logger="app.traces.supervisor")
    life = Life()
    life.running()

    async def never() -> None:
        return

    supervisor = Supervisor("/", never, life, clock=Clock())
    tries = [True, True, False]
    seen: list[Standing] = []

    async def append() -> int:
        seen.append(life.standing)
        if tries.pop(0):
            raise OutageError("the disk is full")
        return 7

    assert await patiently(append, supervisor) == 7
    assert [standing.away for standing in (*seen, life.standing)] == [None, "store", "store", None]
    assert [record.getMessage() for record in caplog.records] == [
        "trace of '/' waits: the disk is full",
        "trace of '/' runs again",
    ]
