"""What the service knows of a process that runs traces, and reads some ahead of their runs."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from app.errors import OutageError
from app.traces.feed import Feed
from app.traces.life import NOT_RUN, Standing, TraceState
from app.traces.processes import STARTING_SECONDS, Notice, TraceProcess, TraceProcesses
from app.traces.status import Snapshot
from tests.unit.test_attempt import TRACE

OTHER = msgspec.structs.replace(TRACE, id=2)
READ = Notice(TRACE.id, Snapshot(NOT_RUN), True, of_run=False)
NOT_READ = Notice(TRACE.id, Snapshot(NOT_RUN), False, of_run=False)
RUNS = Notice(OTHER.id, Snapshot(Standing(TraceState.running)), True)


class QuietChild:
    """A child that says nothing for so many seconds, which pass at once."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds
        self.said: list[Notice | None] = [RUNS]

    async def read(self) -> Notice | None:
        if self.seconds == 0:
            return self.said.pop(0)
        self.seconds -= 1
        raise TimeoutError

    def write(self, order: Any) -> None:
        self.order = order


@pytest.fixture
async def process() -> TraceProcess:
    process = TraceProcess(b"{}", Feed(), (), most_silent=10)
    await process.close()  # it never started a child
    return process


@pytest.mark.parametrize(
    ("runs", "read", "most_silent"),
    [
        (None, True, None),
        (None, False, None),
        (True, True, 10),
        (True, False, STARTING_SECONDS),
        (False, True, STARTING_SECONDS),
    ],
)
async def test_a_process_has_to_say_something_of_the_traces_that_it_runs_alone(
    process: TraceProcess, runs: bool | None, read: bool, most_silent: int | None
) -> None:
    ahead = process.take(TRACE, "read")
    if read:
        ahead.heard(READ)
    if runs is not None:
        running = process.take(OTHER, "run")
        if runs:
            running.heard(RUNS)
    child: Any = QuietChild(1000)
    heard = await process._heard(child)
    assert (heard, 1000 - child.seconds) == (
        (RUNS, 1000) if most_silent is None else (None, most_silent)
    )


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_reading_that_a_run_overtakes_ends_and_leaves_the_run_alone(
    process: TraceProcess, is_cancelled: bool
) -> None:
    processes = TraceProcesses(1, b"{}")
    processes._processes = [process]
    child: Any = QuietChild(0)
    process._child = child
    reading = asyncio.create_task(processes.read(TRACE))
    await asyncio.sleep(0)
    run = processes.run(TRACE)
    if is_cancelled:
        reading.cancel()
    with pytest.raises(asyncio.CancelledError if is_cancelled else OutageError):
        await reading
    assert (child.order.do, process._traces) == ("run", {TRACE.id: run})
    child.said = [NOT_READ, None]  # crossed the order to run it
    await process._attend(child)
    assert run.is_alive


async def test_a_trace_of_which_nothing_was_read_is_not_prepared(process: TraceProcess) -> None:
    processes = TraceProcesses(1, b"{}")
    processes._processes = [process]
    reading = asyncio.create_task(processes.read(TRACE))
    await asyncio.sleep(0)
    process._traces[TRACE.id].heard(NOT_READ)
    with pytest.raises(OutageError, match="not read ahead"):
        await reading
    assert len(process) == 0
