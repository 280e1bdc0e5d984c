"""Several questions answered as of one moment, in one transaction, on both databases."""

from __future__ import annotations

import asyncio

import pytest

from app.errors import NotFoundError
from app.store import Store
from tests.contract.history import History


async def test_what_is_written_meanwhile_is_not_seen(store: Store, trace_id: int) -> None:
    history = History(seed=1)
    await store.batches.append(trace_id, history.batch(10))

    async def asked() -> tuple[int, int]:
        before = await store.events.last_id()
        # A task of its own writes, as another request would.
        await asyncio.create_task(store.batches.append(trace_id, history.batch(10)))
        return before, await store.events.last_id()

    before, after = await store.at_once(asked)
    assert before == after
    assert await store.events.last_id() > after


async def test_a_task_that_is_started_within_reads_by_itself(store: Store, trace_id: int) -> None:
    history = History(seed=1)
    await store.batches.append(trace_id, history.batch(10))
    over = asyncio.Event()

    async def later() -> int:
        await over.wait()
        return await store.events.last_id()

    async def asked() -> tuple[int, asyncio.Task[int]]:
        return await store.events.last_id(), asyncio.create_task(later())

    seen, task = await store.at_once(asked)
    await store.batches.append(trace_id, history.batch(10))
    over.set()
    assert await task > seen


async def test_one_within_another_is_the_same(store: Store, trace_id: int) -> None:
    history = History(seed=1)
    await store.batches.append(trace_id, history.batch(10))

    async def inner() -> int:
        return await store.events.last_id()

    async def outer() -> tuple[int, int]:
        return await store.events.last_id(), await store.at_once(inner)

    first, second = await store.at_once(outer)
    assert first == second


async def test_errors_of_what_is_asked_pass(store: Store) -> None:
    with pytest.raises(NotFoundError, match="no event has the id 1"):
        await store.at_once(lambda: store.events.get(1))
    assert await store.events.last_id() == 0
