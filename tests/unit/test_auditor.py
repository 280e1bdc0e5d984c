"""What the audit records as gaps: suspected until all is at rest, then certain or taken back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace

import pytest

from app.traces.losses import auditor
from app.traces.losses.audit import LATE_SECONDS, Audit, Tally
from app.traces.losses.auditor import Auditor
from app.traces.losses.gapwatch import GapWatch
from app.traces.losses.marks import Point
from model.gaps import Gap
from tests.unit.test_gapwatch import GapStore


class World:
    """A broker whose counters, queue and inside are set by hand; an event for each publish."""

    def __init__(self) -> None:
        self.now = 0.0
        self.counted = self.stored = self.queue = 0
        self.store = GapStore()
        self.gaps = self.watch()
        self.recorder = SimpleNamespace(
            audit=Audit(None, Tally(), 0.0), tally=Tally(), is_ledger_new=False
        )
        self.restart()

    def watch(self) -> GapWatch:
        return GapWatch(self.store, 1)  # type: ignore[arg-type]  # it writes gaps, others read them

    def restart(self) -> None:
        """Begin another run, as after a crash."""
        self.gaps = self.watch()
        self.gaps.resume(self.stored, 1, self.all, self.queue)
        self.recorder.audit = Audit(self.recorder.audit.state, self.recorder.tally, self.now)
        pipeline = SimpleNamespace(source=self, gaps=self.gaps, trace=SimpleNamespace(vhost="/"))
        self._auditor = Auditor(pipeline, self.recorder, self)  # type: ignore[arg-type]

    @property
    def all(self) -> Sequence[Gap]:
        return list(self.store.gaps.values())

    async def counts(self, vhost: str) -> SimpleNamespace:
        return SimpleNamespace(
            publishes=self.counted, deliveries_at_least=0, deliveries_at_most=0, started={"n": 1}
        )

    most_per_message = 1

    async def queued(self) -> int:
        return self.queue

    async def happen(self, counted: int, stored: int) -> None:
        """So many are counted and stored from now on; the service looks twice."""
        self.counted, self.stored = self.counted + counted, self.stored + stored
        self.recorder.tally = Tally(self.stored)
        self.gaps.note_stored(stored, self.stored)
        for _ in range(2):
            await self._auditor.look()
            self.now += 1

    async def rest(self) -> None:
        self.now += LATE_SECONDS
        await self._auditor.look()
        await self.gaps.write()


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """A virtual host of which a hundred events are stored, and compared at rest."""
    made = World()
    clock: Callable[[], float] = lambda: made.now  # noqa: E731
    monkeypatch.setattr(auditor, "time", SimpleNamespace(monotonic=clock))
    await made.happen(100, 100)
    await made.rest()
    assert made.recorder.audit.state.even_event_id == 100
    return made


async def flood(world: World) -> Gap:
    """More is counted than comes; returns the gap."""
    await world.happen(60_000, 20_000)
    await world.happen(60_000, 60_000)
    [gap] = world.all
    assert gap.suspected
    assert gap.after_event_id == 100
    assert "may be lost, or still on its way inside the broker" in gap.reason
    return gap


async def test_what_came_after_all_is_taken_back(world: World) -> None:
    await flood(world)
    await world.happen(0, 40_000)
    assert world.all, "nothing is known before all is at rest"
    await world.rest()
    assert world.all == []
    await flood_again_is_another_gap(world)


async def flood_again_is_another_gap(world: World) -> None:
    before = world.stored
    await world.happen(60_000, 20_000)
    [gap] = world.all
    assert (gap.after_event_id, gap.suspected) == (before, True)


async def test_what_never_came_is_a_certain_gap_up_to_the_rest(world: World) -> None:
    await flood(world)
    await world.happen(0, 39_000)
    await world.rest()
    [gap] = world.all
    assert gap.reason == "the broker counted 1,000 publishes that never came"
    assert (gap.suspected, gap.after_event_id) == (False, 100)
    assert gap.before_event_id == world.stored + 1
    assert gap.until


async def test_a_suspicion_grows_with_what_is_short(world: World) -> None:
    await flood(world)
    await world.happen(10_000, 0)
    await world.happen(100, 100)
    await world.gaps.write()
    [gap] = world.all
    assert gap.before_event_id
    await world.happen(30_000, 10_000)
    [later] = world.all
    assert (later.id, later.after_event_id) == (gap.id, 100)
    assert (later.before_event_id or 0) > gap.before_event_id


@pytest.mark.parametrize(("more", "left"), [(40_000, 0), (39_000, 1)])
async def test_a_later_run_decides_about_the_suspicion_of_an_earlier_one(
    world: World, more: int, left: int
) -> None:
    await flood(world)
    world.restart()
    await world.happen(0, more)
    await world.rest()
    assert [gap.suspected for gap in world.all] == [False] * left


async def test_what_another_gap_explains_is_not_suspected(world: World) -> None:
    await world.gaps.open("tracing was off", begins=Point(100, 1))
    await world.happen(60_000, 20_000)
    await world.rest()
    assert [gap.reason for gap in world.all] == ["tracing was off"]


async def test_counters_that_begin_anew_decide_nothing(world: World) -> None:
    gap = await flood(world)
    world.counted = 0
    for _ in range(3):
        await world.happen(0, 0)
    await world.rest()
    await world.rest()
    assert [(each.id, each.suspected) for each in world.all] == [(gap.id, True)]
