"""The task that resolves spans: as long as there is more to do, and again after an outage."""

from __future__ import annotations

import asyncio
from typing import TypeAlias

from app.errors import OutageError
from app.stored.spans import ResolutionOutcome, SpanState
from app.traces.spanwatch import SpanWatch

Found: TypeAlias = tuple[int, int, bool]
"""How many links, how many of them clocks had, and whether there is more."""


class FakeStore:
    """Gives these results, one after another, and then nothing more."""

    def __init__(self, *results: Found | Exception) -> None:
        self.results = list(results)
        self.looked = asyncio.Event()
        self.pruned: list[tuple[int | None, int]] = []

    async def resolve(self, state: SpanState) -> bool:
        if not self.results:
            self.looked.set()
            return False
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        links, known, more = result
        state.outcomes[ResolutionOutcome.linked] += links
        state.links += links
        state.known += known
        return more

    async def prune(self, older_than: int | None, keep: int) -> int:
        self.pruned.append((older_than, keep))
        return 2


def watch(store: FakeStore, days: float | None = None) -> SpanWatch:
    return SpanWatch(store, days, keep=10, clock=lambda: 3 * 86_400_000_000, pause_seconds=0.0)


async def test_it_goes_on_while_there_is_more_and_counts() -> None:
    store = FakeStore((2, 1, True), (1, 0, False))
    one = watch(store)
    await one.look()
    assert store.results == []
    assert (one.state.links, one.state.known) == (3, 1)
    assert one.state.outcomes == {ResolutionOutcome.linked: 3}


async def test_spans_are_removed_as_events_are_when_it_is_time() -> None:
    store = FakeStore()
    one = watch(store, 2.0)
    await one.look()
    await one.look()
    assert store.pruned == [(86_400_000_000, 10)]
    assert one.state.pruned == 2


async def test_an_outage_or_a_failure_does_not_end_it() -> None:
    store = FakeStore(OutageError("away"), ValueError("a bug"), (1, 1, False))
    one = watch(store)
    one.start()
    try:
        while one.state.links == 0:
            one.arrived()
            await asyncio.sleep(0)
        one.arrived()
        await asyncio.wait_for(store.looked.wait(), 10)
    finally:
        await one.stop()
    assert one.state.links == 1
