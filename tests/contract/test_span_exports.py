"""Spans are sent once each, whoever is killed between sending and storing, and however late."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import pytest

from app.store import Store
from app.stored.exporting import SpanPortion
from app.stored.reading import EventFilter
from app.tracker import Policy
from model.event import Event
from model.sampling import SpanShare, span_shares
from model.spans import Context, ExportedSpan
from model.words import Disposition, EventType
from tests.contract.broker import Broker
from tests.contract.outbox import side_by_side, tell, tracker_by
from tests.contract.test_settlements import Trace

LATER = 1 << 62
ALL = span_shares("1")
SETTLED = (Disposition.acknowledged, Disposition.rejected, Disposition.returned)


class Collector:
    """A collector that keeps each span once, and a follower that is killed now and then."""

    def __init__(
        self, store: Store, chance: random.Random, rules: Sequence[SpanShare] = ALL
    ) -> None:
        self.store, self.chance, self.rules = store, chance, rules
        self.spans: dict[Context, ExportedSpan] = {}
        self.doubles = 0
        self.told: dict[int, frozenset[int]] = {}
        self.kills = 0.3

    async def begin(self) -> None:
        await self.store.span_exports.begin(["/"], LATER)

    async def follow(self) -> None:
        """Send all that there is, in portions of any size; some are lost, some are sent twice."""
        while True:
            [place] = await self.store.span_exports.positions([])
            size = self.chance.randrange(1, 30)
            told = self.told.get(place.read_id, frozenset())
            portion = await self.store.span_exports.next(place, self.rules, size, LATER, told)
            if self.chance.random() < self.kills:
                self.told = {}
                if self.chance.random() < 0.5:
                    self.take(portion.spans)  # taken, but nobody was told
                continue
            self.take(portion.spans)
            await self.store.span_exports.advance(portion, refused=0)
            self.told = {portion.through: portion.ended}
            if is_idle(portion):
                return

    def take(self, spans: Iterable[ExportedSpan]) -> None:
        for span in spans:
            self.doubles += span.context in self.spans
            self.spans[span.context] = span

    def parts(self) -> set[tuple[int, str]]:
        return {(span_event(span), span.name.partition(" ")[0]) for span in self.spans.values()}

    def check_ancestry(self) -> None:
        """Each parent and each linked span is there, in its trace."""
        assert len({context.span_id for context in self.spans}) == len(self.spans)
        for span in self.spans.values():
            if span.parent is not None and not span.is_remote:
                assert Context(span.context.trace_id, span.parent) in self.spans, span
            assert all(link in self.spans for link in span.links), span


def is_idle(portion: SpanPortion) -> bool:
    return portion.through == portion.place.read_id and not portion.spans


def span_event(span: ExportedSpan) -> int:
    event = span.attributes["itc.event.id"]
    assert isinstance(event, int)
    return event


async def stored(store: Store) -> list[Event]:
    return [*(await store.events.find(EventFilter(), after=0, limit=10_000)).items]


def expected(events: Iterable[Event]) -> set[tuple[int, str]]:
    """The spans that are due, by event and first word, but for deaths."""
    words = {2: "ack", 3: "reject", 4: "requeue"}
    parts: set[tuple[int, str]] = set()
    for event in events:
        if event.type is EventType.published:
            parts.add((event.id, "publish"))
            continue
        if event.cause is not None:
            parts.add((event.id, "wait"))
        if event.settlement is not Disposition.in_hand:
            parts.add((event.id, "process"))
        if event.settlement in SETTLED:
            parts.add((event.id, words[event.settlement]))
    return parts


def plain(parts: Iterable[tuple[int, str]]) -> set[tuple[int, str]]:
    return {(event, "process" if word == "receive" else word) for event, word in parts}


@pytest.mark.parametrize("seed", range(6))
async def test_every_settlement_is_sent_whoever_is_killed(
    store: Store, trace_id: int, seed: int
) -> None:
    broker, trace, chance = Broker(seed), Trace(store, trace_id), random.Random(seed)
    collector = Collector(store, chance)
    await collector.begin()
    for _ in range(25):
        await trace.take(broker.records(chance.randrange(40)))
        if chance.random() < 0.3:
            await trace.killed()
        if chance.random() < 0.6:
            await collector.follow()
    await trace.take(broker.late)
    await collector.follow()
    events = await stored(store)
    assert plain(collector.parts()) == expected(events)
    assert len(events) > 100
    collector.check_ancestry()


async def test_nothing_is_sent_twice_where_nobody_is_killed(store: Store, trace_id: int) -> None:
    broker, trace, chance = Broker(3), Trace(store, trace_id), random.Random(3)
    collector = Collector(store, chance)
    collector.kills = 0
    await collector.begin()
    for _ in range(25):
        await trace.take(broker.records(chance.randrange(40)))
        await collector.follow()
    assert plain(collector.parts()) == expected(await stored(store))
    assert collector.doubles == 0


@pytest.mark.parametrize("seed", range(4))
async def test_a_conversation_is_one_trace_in_whatever_portions_it_came(
    store: Store, trace_id: int, seed: int
) -> None:
    chance = random.Random(seed)
    tracker, collector = tracker_by(Policy.channel), Collector(store, chance)
    await collector.begin()
    records = [*side_by_side(chance)]
    while records:
        count = chance.randrange(1, 12)
        await tell(store, trace_id, tracker, records[:count])
        records = records[count:]
        await collector.follow()
        if chance.random() < 0.3:  # another service goes on
            store.span_exports._beginnings.clear()
    collector.check_ancestry()
    events = await stored(store)
    assert plain(collector.parts()) == expected(events)
    traces = {context.trace_id for context in collector.spans}
    roots = {span.attributes["itc.conversation.id"] for span in collector.spans.values()}
    assert len(traces) == len(roots) == 20
