"""A mark that does not come proves a loss once nothing else comes either."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from app.traces import monitor
from app.traces.audit import Tally
from app.traces.gapwatch import GapWatch
from app.traces.marks import Marks, Point
from app.traces.monitor import MARKS_MISSING, OVERDUE_SECONDS, Monitor
from app.traces.pipeline import Ending, PipelineSettings
from tests.unit.run_ends import QuietSource, QuietStream
from tests.unit.test_gapwatch import GapStore


class Second(NamedTuple):
    """What a second brings: how many are seen by then, and wait in the queue."""

    seen: int
    queued: int = 0


class Publisher:
    """The broker takes each mark."""

    async def publish(self, series: str, number: int) -> None:
        pass

    async def close(self) -> None:
        pass


async def reasons(monkeypatch: pytest.MonkeyPatch, seconds: Sequence[Second]) -> list[str]:
    """The gaps after these seconds, before which a mark was published that does not come."""
    store, left, done = GapStore(), iter(seconds), asyncio.Event()
    gaps = GapWatch(store, 1)  # type: ignore[arg-type]  # it writes gaps, others read them
    moment, second = 0, Second(0)
    recorder = SimpleNamespace(seen=Tally(), epoch=1, last_event_id=1)
    marks = Marks()
    await marks.publish([Publisher()], Point(1, 0))

    class Stream(QuietStream):
        async def queued(self) -> int:
            return second.queued

    async def sleep(_: float) -> None:
        nonlocal moment, second
        following = next(left, None)
        if following is None:
            done.set()
            await asyncio.Event().wait()
        else:
            moment, second = moment + 1_000_000, following
            recorder.seen = Tally(second.seen)

    monkeypatch.setattr(monitor, "now", lambda: moment)
    fake = SimpleNamespace(sleep=sleep)
    monkeypatch.setattr(monitor, "asyncio", fake)
    pipeline = SimpleNamespace(
        gaps=gaps,
        marks=marks,
        source=QuietSource(),
        trace=SimpleNamespace(vhost="/", taken=None, id=1),
        settings=PipelineSettings(check_seconds=1e6),
    )
    task = asyncio.create_task(
        Monitor(pipeline, recorder, Stream(), Ending()).watch()  # type: ignore[arg-type]
    )
    await done.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return [gap.reason for gap in store.gaps.values()]


STILL = int(OVERDUE_SECONDS) + 2


async def test_where_nothing_comes_it_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await reasons(monkeypatch, [Second(5)] * STILL) == [MARKS_MISSING]


async def test_while_others_come_it_may_wait_behind_them(monkeypatch: pytest.MonkeyPatch) -> None:
    flood = [Second(seen) for seen in range(20)]
    assert await reasons(monkeypatch, flood) == []
    assert await reasons(monkeypatch, [*flood, *[Second(20)] * STILL]) == [MARKS_MISSING]


async def test_while_the_queue_holds_something_it_may_be_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert await reasons(monkeypatch, [Second(5, queued=1)] * 20) == []
