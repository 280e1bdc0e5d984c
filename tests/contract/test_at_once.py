"""Several questions answered as of one moment, in one transaction, on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

import pytest

from app.errors import NotFoundError
from app.store import Store
from tests.contract.history import History

T = TypeVar("T")


class Elsewhere:
    """Tasks of their own, as other requests are; also for who runs in a connection's thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def end(self, begun: Future[T]) -> T:
        try:
            asyncio.get_running_loop()
        except RuntimeError:  # in a thread, which nothing else needs meanwhile
            return begun.result(timeout=30)
        return await asyncio.wrap_future(begun)


async def test_what_is_written_meanwhile_is_not_seen(store: Store, trace_id: int) -> None:
    history, elsewhere = History(seed=1), Elsewhere()
    await store.batches.append(trace_id, history.batch(10))

    async def asked() -> tuple[int, int]:
        before = await store.events.last_id()
        writing = elsewhere.begin(store.batches.append(trace_id, history.batch(10)))
        await elsewhere.end(writing)
        return before, await store.events.last_id()

    before, after = await store.at_once(asked)
    assert before == after
    assert await store.events.last_id() > after


async def test_a_task_that_is_started_within_reads_by_itself(store: Store, trace_id: int) -> None:
    history, elsewhere = History(seed=1), Elsewhere()
    await store.batches.append(trace_id, history.batch(10))
    over = asyncio.Event()

    async def later() -> int:
        await over.wait()
        return await store.events.last_id()

    async def asked() -> tuple[int, Future[int]]:
        return await store.events.last_id(), elsewhere.begin(later())

    seen, reading = await store.at_once(asked)
    await store.batches.append(trace_id, history.batch(10))
    over.set()
    assert await elsewhere.end(reading) > seen


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
