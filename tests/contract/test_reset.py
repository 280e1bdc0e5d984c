"""A trace whose checkpoint cannot be read says so, leaves the others alone, and can be reset."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from sqlalchemy import update

from app.errors import CheckpointError, ConflictError, LeaseLostError, NotFoundError, OutageError
from app.store import Store
from app.store.database import tables
from app.stored.capture import Batch, Trace
from app.traces.life import TraceState
from app.traces.pipeline import PipelineSettings
from app.traces.registry import TraceRegistry
from app.traces.retention import RetentionLimits
from app.tracker import Bounds, Deliver, Policy, Publish, Tracker
from itc import Relation, compare
from tests.introductions import NOBODY
from tests.model_broker.broker import channel

REORDERING = Bounds(reorder_window=1_000_000)


class NoBroker:
    """A trace that runs here fails, unless it ``works``: then it is away."""

    def __init__(self) -> None:
        self.works = False
        self.opened = asyncio.Event()

    @asynccontextmanager
    async def open(self, *_: object, **__: object) -> AsyncIterator[Any]:
        if not self.works:
            raise AssertionError("no trace runs here")
        self.opened.set()
        raise OutageError("the broker is away")
        yield


def publish(who: str, body: bytes) -> Publish:
    return Publish(channel(who), "x", ("key",), ("q",), {}, body)


def deliver(who: str, body: bytes) -> Deliver:
    return Deliver(channel(who), "x", ("key",), "q", False, {}, body)


async def tracked(store: Store, vhost: str, records: list[Any]) -> int:
    """Store what a tracker makes of records, on from where the trace stands; gives its number."""
    trace = await store.traces.create(vhost, "channel")
    restored = await store.checkpoints.restore(trace.id, 100)
    tracker = Tracker(Policy.channel, REORDERING, restored)
    events = [event for record in records for event in tracker.apply(record, 1)]
    await store.batches.append(trace.id, Batch(events, tracker.checkpoint(), b""))
    await store.traces.set_wanted(trace.id, False)
    return trace.id


async def damage(store: Store, trace_id: int, state: bytes) -> None:
    broken = update(tables.traces).where(tables.traces.c.id == trace_id).values(checkpoint=state)
    await store._database.write(lambda connection: connection.execute(broken))


def flagged(state: bytes) -> bytes:
    """A state as it was stored when a flag was taken for a channel's number."""
    known = msgspec.msgpack.decode(state)
    known["held"][0]["record"]["channel"]["number"] = True
    return msgspec.msgpack.encode(known)


DAMAGES = {
    "a flag for a number": flagged,
    "rubbish": lambda _: b"\xc1 rubbish",
    "cut": lambda s: s[:9],
}


@pytest.fixture(params=sorted(DAMAGES))
async def damaged(store: Store, request: pytest.FixtureRequest) -> int:
    records = [publish("ann", b"1"), deliver("bob", b"1"), deliver("cid", b"lost")]
    trace_id = await tracked(store, "shop", records)
    await tracked(store, "other", records)
    trace = await store.traces.find("shop")
    assert trace is not None
    assert trace.checkpoint is not None
    await damage(store, trace_id, DAMAGES[request.param](trace.checkpoint))
    return trace_id


def registry(store: Store) -> TraceRegistry:
    return TraceRegistry(store, NoBroker(), PipelineSettings(bounds=REORDERING), NOBODY)  # type: ignore[arg-type]


async def test_it_is_failed_with_a_sentence_and_the_others_are_not(
    store: Store, damaged: int
) -> None:
    other, shop = await registry(store).statuses()
    assert (shop.state, shop.events, shop.participants) == (TraceState.failed, 2, 2)
    assert "rabbitmq-itc trace reset" in (shop.last_error or "")
    assert (other.state, other.last_error) == (TraceState.stopped, None)


async def test_retention_says_so_too(store: Store, damaged: int) -> None:
    with pytest.raises(CheckpointError, match="cannot be read"):
        await registry(store).upkeep.prune("shop", keep_events=1)


async def test_after_a_reset_it_goes_on_with_the_same_participants_and_a_gap(
    store: Store, damaged: int
) -> None:
    traces = registry(store)
    lost = await traces.upkeep.reset("shop")
    assert "deliveries that waited" in lost
    status = await traces.status("shop")
    assert (status.state, status.events) == (TraceState.stopped, 2)
    (gap,) = status.gaps
    assert (gap.after_event_id, gap.until) == (await _last_id(store, "shop"), None)
    assert lost in gap.reason

    before = await store.checkpoints.restore(damaged, 100)
    tracker = Tracker(Policy.channel, Bounds(), before)
    old = {state.name: stamp for state, stamp, _ in before.participants}
    (by_bob,) = tracker.apply(publish("bob", b"2"), 5)
    (by_dan,) = tracker.apply(publish("dan", b"3"), 6)
    ann, bob = (next(s for n, s in old.items() if n.startswith(who)) for who in ("ann", "bob"))
    assert compare(ann, by_bob.stamp) is Relation.before
    assert compare(bob, by_bob.stamp) is Relation.before
    for stamp in (ann, bob, by_bob.stamp):
        assert compare(stamp, by_dan.stamp) is Relation.concurrent
    numbers = {state.number for state, _, _ in before.participants}
    assert by_dan.participant not in numbers
    assert len({by_dan.channel_key, *(c.key for c in before.channels)}) == 1 + len(before.channels)
    await store.batches.append(damaged, Batch([by_bob, by_dan], tracker.checkpoint(), b""))


async def test_counters_stay_where_only_waiting_records_cannot_be_read(store: Store) -> None:
    records = [publish("ann", b"1"), deliver("bob", b"1"), deliver("cid", b"lost")]
    trace_id = await tracked(store, "shop", records)
    trace = await store.traces.find("shop")
    assert trace is not None
    assert trace.checkpoint is not None
    await damage(store, trace_id, flagged(trace.checkpoint))
    traces = registry(store)
    assert await traces.upkeep.reset("shop") == "deliveries that waited for their publish"
    counters = (await traces.status("shop")).counters
    assert (counters.published, counters.received) == (1, 1)


async def test_one_that_fails_goes_on_without_what_it_remembers(store: Store) -> None:
    """Whatever of that made it fail: a copy of which a row is there already that it is lost."""
    source = NoBroker()
    traces = TraceRegistry(store, source, PipelineSettings(bounds=REORDERING), NOBODY)  # type: ignore[arg-type]
    await tracked(store, "shop", [publish("ann", b"1"), deliver("bob", b"1"), publish("ann", b"2")])
    await traces.here.begin(await traces.here.find("shop"))
    async with asyncio.timeout(10):
        while (await traces.status("shop")).state != TraceState.failed:  # noqa: ASYNC110  asking tells
            await asyncio.sleep(0.01)
    with pytest.raises(OutageError, match="the trace of 'shop' has failed"):  # readiness asks so
        await traces.here.check_failed()
    source.works = True
    lost = await traces.upkeep.reset("shop")
    assert "copies that wait in queues" in lost
    async with asyncio.timeout(10):
        await source.opened.wait()
    await traces.here.check_failed()
    status = await traces.status("shop")
    assert (status.events, status.pending_copies) == (3, 0)
    assert lost in status.gaps[0].reason
    assert status.gaps[0].reason.startswith("the trace was reset, as it failed again and again")
    await traces.shutdown(5)


async def test_one_that_can_be_read_is_left_alone(store: Store, damaged: int) -> None:
    with pytest.raises(ConflictError, match="can be read"):
        await registry(store).upkeep.reset("other")


@pytest.mark.parametrize("is_held", [False, True])
async def test_retention_goes_on_for_the_others(store: Store, damaged: int, is_held: bool) -> None:
    if is_held:  # by another service, which lives
        await store.services.register("another", "there", 60.0)
        await store.leases.claim(damaged, "another")
    traces = TraceRegistry(
        store,
        NoBroker(),  # type: ignore[arg-type]
        PipelineSettings(bounds=REORDERING, retention=RetentionLimits(keep_events=1)),
        NOBODY,
    )
    await traces.upkeep.look()
    assert {each.vhost: each.events for each in await store.traces.list()} == {
        "other": 1,
        "shop": 2,
    }


@pytest.mark.parametrize("why", [NotFoundError("gone"), LeaseLostError("taken"), ValueError("odd")])
async def test_one_whose_retention_fails_keeps_no_other_from_it(
    store: Store, monkeypatch: pytest.MonkeyPatch, why: Exception
) -> None:
    for vhost in ("first", "other"):
        await tracked(store, vhost, [publish("ann", b"1"), deliver("bob", b"1")])
    settings = PipelineSettings(bounds=REORDERING, retention=RetentionLimits(keep_events=1))
    traces = TraceRegistry(store, NoBroker(), settings, NOBODY)  # type: ignore[arg-type]
    known = traces.here.find

    async def fails_for_first(vhost: str) -> Trace:
        if vhost == "first":
            raise why
        return await known(vhost)

    monkeypatch.setattr(traces.here, "find", fails_for_first)
    await traces.upkeep.look()
    assert [each.events for each in await store.traces.list()] == [2, 1]


async def _last_id(store: Store, vhost: str) -> int:
    trace = await store.traces.find(vhost)
    assert trace is not None
    return trace.last_event_id
