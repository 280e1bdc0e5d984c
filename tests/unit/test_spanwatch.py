"""The task that resolves spans: as long as there is more to do, and again after an outage."""

from __future__ import annotations

import asyncio

from app.errors import OutageError
from app.traces.spanwatch import SpanWatch


class FakeStore:
    """Gives these results, one after another, and then nothing more."""

    def __init__(self, *results: bool | Exception) -> None:
        self.results = list(results)
        self.looked = asyncio.Event()
        self.pruned: list[tuple[int | None, int]] = []

    async def resolve(self) -> bool:
        if not self.results:
            self.looked.set()
            return False
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    async def prune(self, older_than: int | None, keep: int) -> int:
        self.pruned.append((older_than, keep))
        return 2


def watch(store: FakeStore, days: float | None = None) -> SpanWatch:
    one = SpanWatch(store, days, keep=10, clock=lambda: 3 * 86_400_000_000)
    one.pause_seconds = 0.0
    return one


async def test_it_goes_on_while_there_is_more() -> None:
    store = FakeStore(True, False, False)
    one = watch(store)
    await one.look()
    assert store.results == [False]


async def test_spans_are_removed_as_events_are_when_it_is_time() -> None:
    store = FakeStore()
    one = watch(store, 2.0)
    await one.look()
    await one.look()
    assert store.pruned == [(86_400_000_000, 10)]


async def test_an_outage_or_a_failure_does_not_end_it() -> None:
    store = FakeStore(OutageError("away"), ValueError("a bug"), False)
    one = watch(store)
    one.start()
    try:
        while store.results:
            one.wake()
            await asyncio.sleep(0)
        one.wake()
        await asyncio.wait_for(store.looked.wait(), 10)
    finally:
        await one.stop()
    assert store.results == []
