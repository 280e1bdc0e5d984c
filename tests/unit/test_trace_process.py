"""A process that runs traces: what it does with what it read ahead of their runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app import trace_process
from app.errors import OutageError
from app.stored.capture import Trace
from app.trace_process import Attendant
from app.traces.processes import Notice, TraceOrder
from tests.unit.test_attempt import TRACE


class Reading:
    """A store that takes its time, and what its traces were run with."""

    def __init__(self) -> None:
        self.answers: asyncio.Queue[object] = asyncio.Queue()
        self.ran: list[object] = []

    async def read(self, trace: Trace) -> Any:
        answer = await self.answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def run(self, trace: Trace, ahead: object) -> Any:
        self.ran.append(ahead)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> asyncio.Queue[Notice]:
    """What the service is told."""
    said: asyncio.Queue[Notice] = asyncio.Queue()
    monkeypatch.setattr(trace_process, "tell_service", said.put_nowait)
    return said


@pytest.mark.parametrize(
    "answer",
    ["what is stored", OutageError("the database is away"), ValueError("another version's")],
)
async def test_what_was_read_ahead_is_what_a_trace_runs_with(
    said: asyncio.Queue[Notice], answer: object
) -> None:
    reading: Any = Reading()
    attendant = Attendant(reading)
    attendant._follow(TraceOrder("read", TRACE))
    reading.answers.put_nowait(answer)
    read = None if isinstance(answer, Exception) else answer
    assert (await said.get()).is_alive == (read is not None)
    attendant._follow(TraceOrder("run", TRACE))
    attendant._follow(TraceOrder("run", TRACE))
    assert reading.ran == [read, None]


@pytest.mark.parametrize("is_read", [True, False])
async def test_nothing_is_kept_of_a_trace_that_runs_elsewhere_and_reading_ends(
    said: asyncio.Queue[Notice], is_read: bool
) -> None:
    reading: Any = Reading()
    attendant = Attendant(reading)
    attendant._follow(TraceOrder("read", TRACE))
    if is_read:
        reading.answers.put_nowait("what is stored")
        await said.get()
    attendant._follow(TraceOrder("end", TRACE))
    attendant._follow(TraceOrder("run", TRACE))
    assert reading.ran == [None]
