"""What a run finds of its queue: marks that do not come, and that it is full."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from app.broker.trace_queue import QueueState
from app.traces.losses import gapwatch, monitor
from app.traces.losses.audit import Tally
from app.traces.losses.gapwatch import GapWatch
from app.traces.losses.marks import Marks, Point
from app.traces.losses.monitor import FULL, MARKS_MISSING, OVERDUE_SECONDS, Monitor
from app.traces.pipeline import Ending, PipelineSettings
from tests.unit.run_ends import QuietSource, QuietStream
from tests.unit.test_gapwatch import GapStore

BEFORE = 300_000  # when the last event came before the run (µs)


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
    store = GapStore()
    await watched(monkeypatch, seconds, store, check_seconds=1e6)
    return [gap.reason for gap in store.gaps.values()]


async def watched(
    monkeypatch: pytest.MonkeyPatch,
    seconds: Sequence[Second],
    store: GapStore,
    check_seconds: float,
    settled: int = 0,
    mark_seconds: float = 1,
) -> GapWatch:
    """The gaps after these seconds; what was traced before ``settled`` (µs) is stored."""
    left, done = iter(seconds), asyncio.Event()
    gaps = GapWatch(store, 1)  # type: ignore[arg-type]  # it writes gaps, others read them
    moment, second = 0, Second(0)
    recorder = SimpleNamespace(tally=Tally(), epoch=1, last_event_id=1, settled=Point(1, settled))
    recorder.restored = SimpleNamespace(recorded_at=BEFORE)
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
            recorder.tally = Tally(second.seen)

    monkeypatch.setattr(monitor, "now", lambda: moment)
    monkeypatch.setattr(gapwatch, "now", lambda: moment)
    fake = SimpleNamespace(sleep=sleep)
    monkeypatch.setattr(monitor, "asyncio", fake)
    pipeline = SimpleNamespace(
        gaps=gaps,
        marks=marks,
        source=QuietSource(),
        trace=SimpleNamespace(vhost="/", taken=None, id=1),
        settings=PipelineSettings(check_seconds=check_seconds, mark_seconds=mark_seconds),
        store=SimpleNamespace(aliases=SimpleNamespace(learn=learn)),
    )
    task = asyncio.create_task(
        Monitor(pipeline, recorder, Stream(), Ending(), unheard).watch()  # type: ignore[arg-type]
    )
    await done.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return gaps


async def learn(trace_id: int) -> None:
    """Find no other names."""


def unheard(at: int, ready: int) -> None:
    """Nobody wants to know how long the queue is."""


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


async def test_the_gap_of_a_full_queue_begins_where_it_had_room_and_ends_soon_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, second, done = GapStore(), 0, asyncio.Event()
    gaps = GapWatch(store, 1)  # type: ignore[arg-type]  # it writes gaps, others read them
    full = range(12, 22)

    class Stream(QuietStream):
        @property
        def unacknowledged(self) -> int:  # type: ignore[override]
            return 100 if second < full.stop else 0

        async def queued(self) -> int:
            return 10_000 if second < full.stop else 0

    class Source(QuietSource):
        async def look(self, vhost: str, taken: object) -> QueueState:
            return QueueState(is_nearly_full=second in full)

    async def sleep(_: float) -> None:
        nonlocal second
        if second == 60:
            done.set()
            await asyncio.Event().wait()
        second += 1
        gaps.note_stored(10_000, 10_000 * second)

    monkeypatch.setattr(monitor, "now", lambda: second * 1_000_000)
    monkeypatch.setattr(monitor, "time", SimpleNamespace(monotonic=lambda: float(second)))
    monkeypatch.setattr(monitor, "asyncio", SimpleNamespace(sleep=sleep))
    pipeline = SimpleNamespace(
        gaps=gaps,
        marks=Marks(),
        source=Source(),
        store=SimpleNamespace(aliases=SimpleNamespace(learn=learn)),
        trace=SimpleNamespace(vhost="/", taken=None, id=1),
        settings=PipelineSettings(),
    )
    recorder = SimpleNamespace(tally=Tally(), epoch=1, last_event_id=1, settled=Point(1, BEFORE))
    heard: list[tuple[int, int]] = []
    measured = lambda *said: heard.append(said)  # noqa: E731
    task = asyncio.create_task(
        Monitor(pipeline, recorder, Stream(), Ending(), measured).watch()  # type: ignore[arg-type]
    )
    await done.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    # Those that were sent to us are no more in the queue.
    assert (heard[0], heard[-1]) == ((1_000_000, 9_900), (60_000_000, 0))
    (gap,) = store.gaps.values()
    # Seen at 15 s, and to have had room at 10 s, by a word that may be from 5 s.
    assert (gap.reason, gap.after_event_id) == (FULL, 50_000)
    assert (gap.before_event_id or 0) <= 270_000


@pytest.mark.parametrize(
    ("queued", "settled", "well"),
    [(0, 0, 3_000_000), (1, 0, 3_000_000), (500, 2_200_000, 2_200_000), (500, 0, BEFORE)],
)
async def test_what_waits_in_the_queue_was_traced_before_and_a_loss_may_be_of_it(
    monkeypatch: pytest.MonkeyPatch, queued: int, settled: int, well: int
) -> None:
    seconds = [Second(each, queued) for each in range(3)]
    gaps = await watched(monkeypatch, seconds, GapStore(), 0, settled)
    assert gaps.well.moment == well
    gaps = await watched(monkeypatch, seconds, GapStore(), 0, mark_seconds=0)
    assert gaps.well.moment == 3_000_000, "without marks there is no telling"
