"""How a run puts portions of what arrives together to batches."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest

from app.broker.deliveries import Arrival
from app.broker.own import OTHERS, About
from app.errors import OutageError
from app.stored.capture import Batch, PrunePlan, Trace, TraceRedactions
from app.traces import retention
from app.traces.pipeline import PipelineSettings
from app.traces.runs import run, stamper
from app.traces.runs.attempts import Capture, RunningTrace
from app.traces.runs.feed import Feed
from app.tracker import Channel, Deliver, Publish, RestorePoint, Settlement
from app.tracker._pass import MOST_STEP
from app.tracker.events import Checkpoint
from app.tracker.links import BUILT_IN, Rule, of_all
from app.tracker.taken import Selection
from tests.introductions import NOBODY
from tests.unit.run_ends import QuietSource, QuietStream

TRACE = Trace(1, "shop", "channel", (), True, 0, None, None, 0, 0, 2, 0)
CHANNEL = Channel("rabbit@one", "10.0.0.1:5000 -> 10.0.0.2:5672", 1, "alice")
OWN = Rule.from_json({"name": "own", "kind": "conversation", "child": "$message.header#/a"})


class Portion(NamedTuple):
    """How many messages come, with bodies of that many bytes, and what happens before.

    Or what is ``said``, instead of publishes.
    """

    messages: int
    size: int = 1
    before: Callable[[], Awaitable[None]] | None = None
    said: Sequence[Deliver | Settlement] = ()


class Queue(QuietStream):
    """A stream that hands out portions, and asks the run to end once all are acknowledged."""

    def __init__(self) -> None:
        self.portions: deque[Portion] = deque()
        self.asked: list[int] = []
        self.acknowledged: list[int] = []
        self.is_through: Callable[[], None] = lambda: None
        self.turns = 0
        self.turns_before: list[int] = []  # each message was stamped
        self._tag = 0
        self.answers: deque[Portion | None] = deque()  # when it asks where channels stand

    async def ask_channels(self) -> None:
        if self.answers and (answer := self.answers.popleft()):
            self.portions.append(answer)

    async def batch(self, most: int, linger: float) -> Sequence[Arrival]:
        await asyncio.sleep(0)
        if not self.portions:
            self.is_through()
            return []
        self.asked.append(most)
        count, size, before, said = self.portions.popleft()
        if before is not None:
            await before()
        assert count <= most
        tags = range(self._tag + 1, self._tag + 1 + count)
        self._tag += count
        messages = said or [_publish(size)] * count
        return [
            Arrival(tag, False, "", b"", b"", tag, message, size=size)
            for tag, message in zip(tags, messages, strict=True)
        ]

    async def acknowledge(self, tag: int) -> None:
        self.acknowledged.append(tag)

    def about(self, message: object) -> About:
        self.turns_before.append(self.turns)
        return OTHERS

    async def take_turns(self) -> None:
        """Count how often somebody else has the event loop."""
        while True:
            await asyncio.sleep(0)
            self.turns += 1


class Store:
    """A store that is each of its own subjects, and remembers what is appended."""

    def __init__(self) -> None:
        self.appended: list[Batch] = []
        self.batches = self.checkpoints = self.gaps = self.retention = self.leases = self
        self.link_rules = self.redactions = self
        self.own_rules: list[Rule] = []
        self.rules_of_redaction = TraceRedactions()
        self.too_many = 0  # events, for what is to be kept
        self.order: list[str] = []
        self.looked = asyncio.Event()

    async def take(self, trace_id: int, holder: str | None) -> int:
        return 1

    async def restore(
        self, trace_id: int, handovers: int, named: int, ahead: RestorePoint | None
    ) -> RestorePoint:
        return RestorePoint(b"", [], [], [], [], link_rules=of_all(BUILT_IN))

    async def of_trace(self, trace_id: int) -> TraceRedactions:
        return self.rules_of_redaction

    async def list_own(self, trace_id: int) -> Sequence[Rule]:
        self.looked.set()
        return self.own_rules

    async def newest(self, trace_id: int) -> Sequence[Any]:
        return []

    open_declared = newest

    async def open(self, trace_id: int, **gap: Any) -> int:
        return 1

    async def close(self, gap_id: int, **gap: Any) -> None:
        pass

    async def append(self, trace_id: int, batch: Batch, epoch: int | None = None) -> range:
        first = 1 + sum(len(each.events) for each in self.appended)
        self.appended.append(batch)
        self.order += ["stored"] if batch.events else []
        return range(first, first + len(batch.events))

    async def plan(self, trace_id: int, limit: int, **bounds: Any) -> PrunePlan | None:
        going = min(self.too_many, limit)
        return PrunePlan(trace_id, 0, 0, going, []) if going else None

    async def prune(self, plan: PrunePlan, checkpoint: Checkpoint, epoch: int | None) -> None:
        self.too_many -= plan.events
        self.order.append(f"{plan.events} removed")

    async def reclaim(self) -> bool:
        return False  # nothing is free

    @property
    def sizes(self) -> list[int]:
        """How many events each batch had that had any."""
        return [len(batch.events) for batch in self.appended if batch.events]


class Source(QuietSource):
    """A broker with one queue."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

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
    ) -> AsyncIterator[Queue]:
        yield self._queue


def _publish(size: int) -> Publish:
    return Publish(CHANNEL, "", ("q",), ("q",), {}, b"x" * size)


class World:
    """A run between its two ends."""

    def __init__(self) -> None:
        self.queue, self.store = Queue(), Store()

    async def run(self, *portions: Portion, **settings: Any) -> list[int]:
        """Let these portions come; return the sizes of the batches that come of them."""
        store: Any = self.store
        source: Any = Source(self.queue)
        self.queue.portions.extend(portions)
        by = PipelineSettings(mark_seconds=0, audit_seconds=0, **settings)
        self.trace = RunningTrace(TRACE, Capture(store, source, by, NOBODY, Feed()), None)
        self.trace._task.cancel()  # nobody supervises here
        self.queue.is_through = self.trace.drain
        await asyncio.wait_for(self.trace._attempt(), 30)
        return self.store.sizes

    async def stop(self) -> None:
        """Ask the run to end at once."""
        self.trace._ending.at_once = True


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(autouse=True)
def small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "PORTION", 10)


async def test_whole_portions_in_a_row_are_stored_with_what_ends_the_row(world: World) -> None:
    assert await world.run(Portion(10), Portion(10), Portion(3), Portion(2)) == [23, 2]
    assert world.queue.acknowledged == [23, 25]


async def test_a_batch_has_no_more_events_than_it_may(world: World) -> None:
    portions = [Portion(10), Portion(10), Portion(5), Portion(10), Portion(1)]
    assert await world.run(*portions, batch_events=25) == [25, 11]
    assert world.queue.asked == [10, 10, 5, 10, 10]


async def test_a_batch_smaller_than_a_portion_is_stored_at_once(world: World) -> None:
    assert await world.run(Portion(4), Portion(4), batch_events=4) == [4, 4]


async def test_large_bodies_do_not_wait_for_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "BATCH_BYTES", 1_500)
    sizes = await world.run(Portion(10, 100), Portion(10, 100), Portion(10), Portion(1))
    assert sizes == [20, 11]


async def test_no_event_waits_for_its_batch_longer_than_it_may(world: World) -> None:
    assert await world.run(Portion(10), Portion(10), batch_seconds=0.0) == [10, 10]


async def test_a_run_that_is_asked_to_end_stores_what_it_has_stamped(world: World) -> None:
    sizes = await world.run(Portion(10), Portion(10, before=world.stop), Portion(10))
    assert sizes == [20]
    assert world.queue.acknowledged == [20]
    assert len(world.queue.portions) == 1


async def test_what_is_stamped_and_not_stored_is_not_in_any_checkpoint(world: World) -> None:
    """Otherwise what comes again after an outage would be taken for something else."""

    async def lose() -> None:
        raise OutageError("the broker is away")

    with pytest.raises(OutageError, match="away"):
        await world.run(Portion(10), Portion(1), Portion(10), Portion(10, before=lose))
    assert world.store.sizes == [11]
    assert world.queue.acknowledged == [11]
    assert len(world.store.appended[-1].events) == 11


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention removes five events at a time."""
    for module in (retention, run):
        monkeypatch.setattr(module, "AT_MOST", 5)


@pytest.mark.usefixtures("small_parts")
async def test_a_batch_waits_for_one_part_of_the_retention_and_not_for_all_of_it(
    world: World,
) -> None:
    world.store.too_many = 12
    await world.run(*[Portion(3)] * 4, retention=retention.RetentionLimits(keep_events=1))
    removed = [each for each in world.store.order if each != "stored"]
    assert removed == ["5 removed", "5 removed", "2 removed"]
    assert world.store.order[:5] == ["5 removed", "stored", "5 removed", "stored", "2 removed"]


@pytest.mark.usefixtures("small_parts")
async def test_retention_removes_no_less_than_is_stored_meanwhile(world: World) -> None:
    world.store.too_many = 1_000
    await world.run(*[Portion(8)] * 3, retention=retention.RetentionLimits(keep_events=1))
    part = "5 removed"
    assert world.store.order[:6] == [part, "stored", part, part, "stored", part]


async def test_other_rules_of_links_are_taken_up_between_two_batches(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "RULES_SECONDS", 0.001)

    async def change() -> None:
        """Set a rule, and wait until the run knows."""
        world.store.own_rules = [OWN]
        for _ in range(2):
            world.store.looked.clear()
            await world.store.looked.wait()

    await world.run(Portion(10), Portion(10, before=change), Portion(1), Portion(1))
    first, second = (batch for batch in world.store.appended if batch.events)
    assert (len(first.events), first.link_rules) == (21, None)
    assert second.link_rules is not None
    assert "own" in {each.rule.name for each in second.link_rules}


@pytest.mark.parametrize(("seconds", "turns"), [(0.0, 10), (60.0, 1)])
async def test_others_get_the_event_loop_before_a_portion_is_stamped(
    world: World, monkeypatch: pytest.MonkeyPatch, seconds: float, turns: int
) -> None:
    monkeypatch.setattr(stamper, "MOST_SECONDS", seconds)
    others = asyncio.create_task(world.queue.take_turns())
    assert await world.run(Portion(10)) == [10]
    others.cancel()
    assert len(set(world.queue.turns_before)) == turns


async def test_where_deliveries_may_be_missing_none_are_counted_until_channels_say_where_they_are(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they are asked to once the loss is over: what they say before may be wrong by then."""
    monkeypatch.setattr(run, "ASKING_SECONDS", 0)

    async def lose() -> None:
        world.trace.pipeline.gaps.note("something is missing", 3)

    def opened(pid: str, next_tag: int = 1) -> Settlement:
        return Settlement("channel", CHANNEL, 1, pid=pid, next_tag=next_tag)

    deliver = Deliver(CHANNEL, "", ("q",), "q", False, {}, b"")
    world.queue.answers.extend([None, Portion(2, said=[opened("<2>", next_tag=3), deliver])])
    await world.run(
        Portion(2, said=[opened("<1>"), deliver]),
        Portion(3, said=[deliver, opened("<2>"), deliver], before=lose),
        Portion(1, said=[deliver]),
        Portion(1),
    )
    said = [batch.checkpoint.settlements for batch in world.store.appended if batch.events]
    assert [len(each.settled) for each in said] == [1, 0, 0, 0, 1]
    assert [[*each.channels] for each in said] == [["<1>"], [], [], [], ["<2>"]]
    assert [each.unknown_after for each in said[:2]] == [None, 0]


async def test_what_is_in_hand_stays_known_while_a_loss_may_be_taken_back(world: World) -> None:
    async def doubt() -> None:
        await world.trace.pipeline.gaps.open("marks are overdue", tentative=True)

    async def believe() -> None:
        await world.trace.pipeline.gaps.close("marks are overdue", 0)

    deliver = Deliver(CHANNEL, "", ("q",), "q", False, {}, b"")
    opened = Settlement("channel", CHANNEL, 1, pid="<1>", next_tag=1)
    await world.run(
        Portion(2, said=[opened, deliver]),
        Portion(1, said=[deliver], before=doubt),
        Portion(1, said=[deliver]),
        Portion(1, said=[deliver], before=believe),
    )
    said = [batch.checkpoint.settlements for batch in world.store.appended if batch.events]
    assert [len(each.settled) for each in said] == [1, 1, 1, 0]
    assert [each.unknown_after for each in said] == [None, None, None, 0]


def test_the_trackers_time_goes_on_while_nothing_comes() -> None:
    assert PipelineSettings().batch_seconds * 1e6 < MOST_STEP / 2, "with as much left for the rest"
