"""A process that stood still while there was traffic does not know what it missed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from app.traces.losses import monitor
from app.traces.losses.gapwatch import GapWatch
from app.traces.losses.monitor import STILL_SECONDS, STOOD_STILL, Monitor
from app.traces.pipeline import Ending
from tests.unit.test_gapwatch import GapStore
from tests.unit.test_monitor import unheard


class Stream:
    """Thirty messages wait in the queue."""

    async def queued(self) -> int:
        return 30


async def suspected(
    monkeypatch: pytest.MonkeyPatch, ticks: Sequence[tuple[float, int]]
) -> list[tuple[int, int | None]]:
    """The gaps after some ticks, each with how long it took (s) and what is seen after it."""
    monkeypatch.setattr(monitor, "TICK_SECONDS", 0)
    store, now, done = GapStore(), 0.0, asyncio.Event()
    recorder = SimpleNamespace(traffic=0)
    gaps = GapWatch(store, 1)  # type: ignore[arg-type]  # it writes gaps, others read them
    left = iter(ticks)
    begun = False

    def clock() -> float:
        nonlocal now, begun
        begun = not begun
        if begun:
            return now
        tick = next(left, None)
        if tick is None:
            done.set()
            return now
        now += tick[0]
        recorder.traffic = tick[1]
        gaps.note_stored(0, tick[1])
        return now

    pipeline = SimpleNamespace(gaps=gaps)
    watching = Monitor(pipeline, recorder, Stream(), Ending(), unheard)  # type: ignore[arg-type]
    task = asyncio.create_task(watching.suspect_standstills(clock))
    await done.wait()
    task.cancel()
    gaps.note_stored(30, 1_000)
    await gaps.write()
    assert all(gap.suspected and gap.reason == STOOD_STILL for gap in store.gaps.values())
    return [(gap.after_event_id, gap.before_event_id) for gap in store.gaps.values()]


async def test_what_came_before_the_standstill_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = [(0.5, 10), (0.5, 20), (STILL_SECONDS + 1, 25)]
    assert await suspected(monkeypatch, ticks) == [(20, 1_001)]


@pytest.mark.parametrize(
    "ticks",
    [
        pytest.param([(0.5, 10), (STILL_SECONDS / 2, 20), (0.5, 30)], id="a loop that is late"),
        pytest.param([(STILL_SECONDS + 1, 0), (0.5, 0)], id="no traffic at all"),
        pytest.param([(0.5, 10), *[(0.5, 10)] * 12, (STILL_SECONDS + 1, 10)], id="none for long"),
    ],
)
async def test_no_loss_is_suspected(
    monkeypatch: pytest.MonkeyPatch, ticks: Sequence[tuple[float, int]]
) -> None:
    assert not await suspected(monkeypatch, ticks)
