"""What comes in bundles is stored once and in order, whatever breaks off in between."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from app.errors import OutageError
from app.store import Store
from app.stored.reading import EventFilter
from app.traces.pipeline import PipelineSettings
from app.traces.runs.attempts import Capture, RunningTrace
from app.traces.runs.feed import Feed
from model.gaps import Gap
from tests.bundles import bundle
from tests.contract.test_content import message
from tests.introductions import NOBODY
from tests.unit.run_ends import FilledSource, FilledStream, Message


class FailingStream(FilledStream):
    """One that is lost now and then before an acknowledgement arrives."""

    dice: random.Random

    async def acknowledge(self, tag: int) -> None:
        if self.dice.random() < 0.5:
            raise OutageError("the connection was lost")
        await super().acknowledge(tag)


class FailingSource(FilledSource):
    def __init__(self, messages: Sequence[Message], dice: random.Random | None = None) -> None:
        super().__init__(messages)
        self.dice = dice

    @asynccontextmanager
    async def open(self, *_: object, **__: object) -> AsyncIterator[FilledStream]:
        self.opened += 1
        stream = FilledStream(self)
        if self.dice is not None:
            stream = FailingStream(self)
            stream.dice = self.dice
        try:
            yield stream
        finally:
            self.returned.extendleft(reversed(stream.held))


async def stored(
    store: Store, source: Any, batch_events: int = 20, vhost: str = "/"
) -> tuple[list[bytes], list[Gap]]:
    """Run a trace until its queue is empty, again after each outage: its bodies, and its gaps."""
    trace = await store.traces.create(vhost, "channel")
    by = PipelineSettings(mark_seconds=0, audit_seconds=0, batch_events=batch_events)
    running = RunningTrace(trace, Capture(store, source, by, NOBODY, Feed()), None)
    running._task.cancel()
    source.is_through = running.drain
    async with asyncio.timeout(60):
        while True:
            try:
                await running._attempt()
                break
            except OutageError:
                running._ending.when_empty = False
    events = (await store.events.find(EventFilter(vhost=vhost), after=0, limit=1_000)).items
    return [event.payload or b"" for event in events], await store.gaps.newest(trace.id)


def in_both_forms(count: int, dice: random.Random) -> Iterator[Message]:
    """Numbered messages, in turn some by themselves and some in bundles; those are all alike."""
    number = first = left = 0
    while left < count:
        size = dice.randint(1, 12)
        if dice.random() < 0.5:
            yield from (message(b"%d" % n) for n in range(left, left + size))
        else:
            yield bundle([message(b"alike")] * size, number, first)
            number, first = number + 1, first + size
        left += size


@pytest.mark.parametrize("seed", range(4))
async def test_each_record_is_stored_once_though_acknowledgements_are_lost(
    store: Store, seed: int
) -> None:
    messages = [*in_both_forms(400, random.Random(seed))]
    plain, _ = await stored(store, FailingSource(messages), vhost="plain")
    source = FailingSource(messages, random.Random(seed))
    again, gaps = await stored(store, source)
    assert source.opened > 3
    assert again == plain
    assert plain.count(b"alike") > 100
    assert [gap.reason for gap in gaps] == []


async def test_lost_bundles_are_a_gap_with_their_number_of_records(store: Store) -> None:
    sent = [bundle([message(b"%d" % n) for n in range(4)], n, 4 * n) for n in range(9)]
    bodies, gaps = await stored(store, FailingSource(sent[:3] + sent[5:]), batch_events=4)
    assert len(bodies) == 28
    (gap,) = gaps
    assert gap.reason.startswith("8 records of the broker plugin on rabbit@one never came")
    assert "8 in 2 lost bundles" in gap.reason
    assert gap.after_event_id in (4, 8), "the batch before may be on its way into the store"
    assert gap.before_event_id == 17


async def test_a_broken_bundle_is_left_out_with_a_gap_and_the_others_are_stored(
    store: Store,
) -> None:
    sent = [bundle([message(b"x")] * 3, n, 3 * n) for n in range(3)]
    key, header, body = sent[1]
    bodies, gaps = await stored(store, FailingSource([sent[0], (key, header, body[:-1]), sent[2]]))
    assert len(bodies) == 6
    (gap,) = gaps
    assert "bundle 1 of rabbit@one" in gap.reason
    assert "of 3 records, from the 4th on, cannot be read" in gap.reason


async def test_a_killed_collector_is_a_gap_and_one_that_ends_in_order_is_none(
    store: Store,
) -> None:
    sent = [
        bundle([message(b"1")], 0, 0, epoch=1),
        bundle([], 1, 1, epoch=1, end=True),
        message(b"2"),
        bundle([message(b"3")], 0, 0, epoch=2),
        bundle([message(b"4")], 0, 0, epoch=3),
    ]
    bodies, gaps = await stored(store, FailingSource(sent))
    assert bodies == [b"1", b"2", b"3", b"4"]
    (gap,) = gaps
    assert "ended without notice" in gap.reason
