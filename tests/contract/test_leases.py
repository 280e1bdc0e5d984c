"""Of all runs of a trace only the latest writes, and it restores all that earlier ones wrote."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

import pytest
from sqlalchemy import text

from app.errors import LeaseLostError, NotFoundError, OutageError
from app.store import Store
from app.stored.capture import ParticipantSettings
from app.stored.reading import EventFilter
from app.stored.restamps import RestampResult
from app.tracker import Bounds, Policy, Tracker
from tests.contract.history import History

EVERYTHING = EventFilter()


async def test_each_run_has_an_epoch_of_its_own(store: Store, trace_id: int) -> None:
    assert await store.leases.claim(trace_id, "one")
    first = await store.leases.take(trace_id, "one")
    second = await store.leases.take(trace_id, "one")
    assert second > first
    trace = await store.traces.find("/")
    assert trace is not None
    assert trace.holder == "one"


async def test_only_the_holder_takes_a_trace(store: Store, trace_id: int) -> None:
    assert await store.leases.claim(trace_id, "one")
    for other in ("two", None):
        with pytest.raises(LeaseLostError):
            await store.leases.take(trace_id, other)
    await store.leases.release(trace_id, "two")  # not its own
    await store.leases.take(trace_id, "one")
    await store.leases.release(trace_id, "one")
    with pytest.raises(LeaseLostError):
        await store.leases.take(trace_id, "one")
    assert await store.leases.claim(trace_id, "two")


async def test_a_trace_that_there_is_not_cannot_be_held(store: Store) -> None:
    with pytest.raises(NotFoundError):
        await store.leases.claim(99, "one")
    with pytest.raises(NotFoundError):
        await store.leases.take(99, "one")


async def test_a_run_that_another_has_come_after_writes_nothing(
    store: Store, trace_id: int
) -> None:
    history = History(seed=1)
    assert await store.leases.claim(trace_id, "one")
    old = await store.leases.take(trace_id, "one")
    await store.batches.append(trace_id, history.batch(20), old)
    gap = await store.gaps.open(trace_id, after_event_id=0, since=1, reason="lost", epoch=old)
    new = await store.leases.take(trace_id, "one")
    plan = await store.retention.plan(trace_id, keep_events=5)
    assert plan is not None
    standing = await store.restamps.extent(trace_id)
    late: list[Any] = [
        store.batches.append(trace_id, history.batch(5), old),
        store.gaps.open(trace_id, after_event_id=0, since=1, reason="late", epoch=old),
        store.gaps.close(gap, before_event_id=3, until=2, epoch=old),
        store.retention.prune(plan, Tracker(Policy.channel, Bounds()).checkpoint(), old),
        store.restamps.swap(
            trace_id,
            ParticipantSettings("user", ()),
            standing,
            RestampResult(b"", 0, [], []),
            lambda _: None,
            old,
        ),
    ]
    for each in late:
        with pytest.raises(LeaseLostError):
            await each
    assert await store.events.count(EVERYTHING) == 20
    (left,) = await store.gaps.newest(trace_id)
    assert (left.reason, left.until) == ("lost", None)
    await store.gaps.close(gap, before_event_id=3, until=2, epoch=new)


async def test_whoever_takes_over_restores_what_was_stored_until_then(
    store: Store, database_url: str, trace_id: int
) -> None:
    """Two services, each of which believes that the trace is its own."""
    other = await Store.open(database_url)
    history = History(seed=2)
    assert await store.leases.claim(trace_id, "one")
    stores, stored = [store, other], 0
    epoch = await store.leases.take(trace_id, "one")
    for turn in range(12):
        batch = history.batch(20)
        late = asyncio.create_task(stores[turn % 2].batches.append(trace_id, batch, epoch))
        await asyncio.sleep(0.002 * (turn % 4))
        taken = await stores[(turn + 1) % 2].leases.take(trace_id, "one")
        seen = (await stores[(turn + 1) % 2].checkpoints.restore(trace_id, 10)).last_event_id
        with contextlib.suppress(LeaseLostError):
            await late
        was_stored = late.exception() is None
        stored += 20 * was_stored
        assert await store.events.count(EVERYTHING) == stored == seen
        if not was_stored:
            await stores[(turn + 1) % 2].batches.append(trace_id, batch, taken)
            stored += 20
        epoch = taken
    await other.close()


async def test_a_commit_in_doubt_has_ended_before_the_batch_is_stored_again(
    store: Store, database_url: str, trace_id: int
) -> None:
    """The connection broke, and the server is still about the transaction."""
    other = await Store.open(database_url)
    history = History(seed=3)
    epoch = await store.leases.take(trace_id, None)
    await store.batches.append(trace_id, history.batch(5), epoch)
    batch = history.batch(10)
    entered, go_on = threading.Event(), threading.Event()

    async def slowly(connection: Any) -> range:
        ids: range = await type(store.batches)._append.__wrapped__(  # type: ignore[attr-defined]
            store.batches, connection, trace_id, batch, epoch
        )
        entered.set()
        if threading.current_thread() is threading.main_thread():
            await asyncio.to_thread(go_on.wait)
        else:  # the connection's own
            go_on.wait()
        return ids

    in_doubt = asyncio.create_task(store._database.write(slowly))
    await asyncio.to_thread(entered.wait)
    again = asyncio.create_task(other.batches.append(trace_id, batch, epoch))
    await asyncio.sleep(0.1)
    assert not again.done()
    go_on.set()
    assert await again == await in_doubt == range(6, 16)
    assert await store.events.count(EVERYTHING) == 15
    await other.close()


async def test_a_client_that_is_cut_off_in_its_transaction_holds_nobody_up(
    postgres_url: str,
) -> None:
    """It is stopped, or on the other side of a partition; the server knows nothing of it."""
    from app.store import migrate

    await migrate(postgres_url)
    store, other = await Store.open(postgres_url), await Store.open(postgres_url)
    trace_id = (await store.traces.create("/", "channel")).id
    assert await store.leases.claim(trace_id, "one")
    epoch = await store.leases.take(trace_id, "one")
    entered, never = asyncio.Event(), asyncio.Event()

    async def stands_still(connection: Any) -> None:
        await type(store.batches)._append.__wrapped__(  # type: ignore[attr-defined]
            store.batches, connection, trace_id, History(seed=4).batch(5), epoch
        )
        entered.set()
        await never.wait()
        await connection.execute(text("SELECT 1"))

    paused = asyncio.create_task(store._database.write(stands_still))
    await entered.wait()
    async with asyncio.timeout(5):
        assert await other.leases.claim(trace_id, "two")
        new = await other.leases.take(trace_id, "two")
    assert await other.batches.append(trace_id, History(seed=5).batch(5), new) == range(1, 6)
    never.set()
    with pytest.raises(OutageError):
        await paused
    assert await other.events.count(EVERYTHING) == 5
    await store.close()
    await other.close()
