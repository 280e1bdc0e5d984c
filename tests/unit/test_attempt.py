"""What is known of a trace before its run has begun, and how a run begins and ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from app.errors import LeaseLostError, OutageError
from app.stored.capture import Batch, Trace, TraceRedactions
from app.traces.life import TraceState
from app.traces.losses.audit import Ledger
from app.traces.pipeline import PipelineSettings
from app.traces.runs import run
from app.traces.runs.attempts import Capture, RunningTrace
from app.traces.runs.feed import Feed
from app.tracker import RestorePoint
from app.tracker.links import BUILT_IN, Origin, Rule, TraceRule, merge_rules, of_all
from app.tracker.taken import Selection
from tests.introductions import NOBODY
from tests.unit.run_ends import QuietSource, QuietStream

TRACE = Trace(1, "shop", "channel", (), True, 0, None, None, 5, 5, 2, 0)


OWN = Rule.from_json({"name": "own", "kind": "conversation", "child": "$message.header#/a"})


class FakeStore:
    """A store that restores a trace as of its event 7, and remembers what is appended.

    It is also each of its own subjects.
    """

    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.answers.set()
        self.appended: list[Batch] = []
        self.batches = self.checkpoints = self.gaps = self.retention = self.leases = self
        self.link_rules = self.redactions = self
        self.epoch = 0
        self.own_rules: list[Rule] = [OWN]
        self.is_away = False
        self.changed = asyncio.Condition()

    async def take(self, trace_id: int, holder: str | None) -> int:
        self.epoch += 1
        return self.epoch

    async def restore(
        self, trace_id: int, handovers: int, named: int, ahead: RestorePoint | None
    ) -> RestorePoint:
        await self.answers.wait()
        held = (*of_all(BUILT_IN), TraceRule(OWN, Origin.own))
        ledger = Ledger(accounts=("old",)).dump()
        return RestorePoint(
            b"", [], [], [], [], b"", ledger, last_event_id=7, link_rules=held, own_rules=(OWN,)
        )

    async def of_trace(self, trace_id: int) -> TraceRedactions:
        return TraceRedactions()

    async def list_own(self, trace_id: int) -> Sequence[Rule]:
        if self.is_away:
            self.is_away = False
            raise OutageError("the database is away")
        return self.own_rules

    async def newest(self, trace_id: int) -> Sequence[Any]:
        return []

    open_declared = newest

    async def append(self, trace_id: int, batch: Batch, epoch: int | None = None) -> range:
        if epoch != self.epoch:
            raise LeaseLostError("another run has taken this trace")
        self.appended.append(batch)
        async with self.changed:
            self.changed.notify_all()
        return range(0)

    async def has_taken_up(self, own: Sequence[Rule]) -> None:
        """Wait until a batch says that these rules hold besides the built-in ones."""
        wanted = merge_rules(of_all(BUILT_IN), own)
        async with self.changed:
            await self.changed.wait_for(
                lambda: bool(self.appended) and self.appended[-1].link_rules == wanted
            )


class FakeStream(QuietStream):
    """An empty queue."""

    def __init__(self) -> None:
        self.looked = asyncio.Event()

    async def batch(self, most: int, linger: float) -> Sequence[Any]:
        self.looked.set()
        await asyncio.sleep(0)
        return []

    def about(self, message: object) -> Any:
        raise AssertionError("there are no messages")


class FakeSource(QuietSource):
    """A broker that can be reached once ``reachable`` is set, or not at all."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.reachable = asyncio.Event()
        self.error: OutageError | None = None
        self.stream = FakeStream()

    @asynccontextmanager
    async def open(
        self,
        vhost: str,
        prefetch: int,
        sentinel: str | None,
        taken: Selection,
        before: Selection,
        *,
        again: int,
        passing: bool,
    ) -> AsyncIterator[FakeStream]:
        self.asked.set()
        await self.reachable.wait()
        if self.error is not None:
            raise self.error
        yield self.stream


class World:
    """A trace whose attempts nobody supervises, and both ends of it as fakes."""

    def __init__(self) -> None:
        self.store: Any = FakeStore()
        self.source: Any = FakeSource()
        settings = PipelineSettings(mark_seconds=0, audit_seconds=0)
        capture = Capture(self.store, self.source, settings, NOBODY, Feed())
        self.trace = RunningTrace(TRACE, capture, None)
        self.trace._task.cancel()
        self.life, self.ending = self.trace._life, self.trace._ending
        self.attempt = self.trace._attempt

    def known(self) -> tuple[int, bool]:
        """The last event's id, and whether totals are known."""
        snapshot = self.trace.snapshot()
        return snapshot.last_event_id, snapshot.totals is not None


@pytest.fixture
async def world() -> World:
    return World()


async def test_before_it_is_restored_only_what_the_store_said_at_the_start_is_known(
    world: World,
) -> None:
    world.store.answers.clear()
    running = asyncio.create_task(world.attempt())
    await asyncio.sleep(0)
    assert world.known() == (5, False)
    running.cancel()
    await asyncio.wait({running})
    assert world.known() == (5, False)


async def test_a_restored_trace_that_waits_for_its_broker_is_known(world: World) -> None:
    world.source.error = OutageError("the broker is away")
    running = asyncio.create_task(world.attempt())
    await world.source.asked.wait()
    assert world.known() == (7, True)
    assert world.life.state is TraceState.starting
    world.source.reachable.set()
    with pytest.raises(OutageError, match="away"):
        await running
    assert world.known() == (7, True), "also until the next attempt"


async def test_a_run_that_is_asked_to_end_before_it_has_begun_ends_at_once(world: World) -> None:
    running = asyncio.create_task(world.attempt())
    await world.source.asked.wait()
    world.ending.at_once = True
    world.source.reachable.set()
    await asyncio.wait_for(running, 30)
    assert not world.source.stream.looked.is_set()
    # That tracing was on is stored, so that the next start is a return.
    [batch] = world.store.appended
    assert batch.events == []
    # What was traced of an account that captured once is known for our own, as this one will be.
    assert world.source.stream.former == ("old",)
    known = Ledger.load(batch.ledger)
    assert known is not None
    assert known.accounts == ("old", "itc")


async def test_a_run_follows_its_stream_until_the_queue_is_empty(world: World) -> None:
    world.source.reachable.set()
    running = asyncio.create_task(world.attempt())
    await world.source.stream.looked.wait()
    assert world.life.state is TraceState.running
    world.ending.when_empty = True
    await asyncio.wait_for(running, 30)
    assert world.known() == (7, True)


async def test_rules_of_links_are_taken_up_as_they_change_and_stored_without_any_message(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "RULES_SECONDS", 0.001)
    store, other = world.store, msgspec.structs.replace(OWN, name="other")
    world.source.reachable.set()
    running = asyncio.create_task(world.attempt())
    await world.source.stream.looked.wait()
    assert all(batch.link_rules is None for batch in store.appended)
    store.is_away = True
    for own in ([OWN, other], [other], []):
        store.own_rules = own
        async with asyncio.timeout(30):
            await store.has_taken_up(own)
    told = len([batch for batch in store.appended if batch.link_rules is not None])
    assert told == 3
    world.ending.at_once = True
    await asyncio.wait_for(running, 30)
