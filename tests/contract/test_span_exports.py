"""Spans are sent once each, whoever is killed between sending and storing, and however late."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence

import pytest
from msgspec import structs

from app.store import Store
from app.stored.exporting import CopyLoss, SpanPortion
from app.stored.reading import EventFilter
from app.tracker import Deliver, Policy, Publish
from model.event import Event
from model.sampling import SpanShare, is_sampled, span_shares
from model.spans import Context, ExportedSpan
from model.words import Disposition, EventType
from tests.contract.broker import Broker
from tests.contract.failing import ADMIN, BILLING, death, handed, letter, message
from tests.contract.outbox import side_by_side, tell, tracker_by
from tests.contract.test_lost import Trace as LosingTrace
from tests.contract.test_settlements import CHANNEL, Trace, opened, settled

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
        self.sent_ends: dict[int, frozenset[int]] = {}
        self.lost: CopyLoss | None = None
        self.kills = 0.3

    async def begin(self) -> None:
        await self.store.span_exports.begin(["/"], LATER)

    async def follow(self) -> None:
        """Send all that there is, in portions of any size; some are lost, some are sent twice."""
        while True:
            [place] = await self.store.span_exports.positions([])
            size = self.chance.randrange(1, 30)
            sent_ends = self.sent_ends.get(place.read_id, frozenset())
            place = place._replace(lost=self.lost or place.lost)
            portion = await self.store.span_exports.next(place, self.rules, size, LATER, sent_ends)
            if self.chance.random() < self.kills:
                self.sent_ends, self.lost = {}, None
                if self.chance.random() < 0.5:
                    self.take(portion.spans)  # taken, but nobody knows
                continue
            self.take(portion.spans)
            await self.store.span_exports.advance(portion, refused=0)
            self.sent_ends, self.lost = {portion.through: portion.ended}, portion.lost
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


async def test_the_ends_of_many_at_once_are_sent_in_portions(store: Store, trace_id: int) -> None:
    trace, chance = Trace(store, trace_id), random.Random(1)
    orders = [Publish(ADMIN, "", ("work",), ("work",), {}, b"%d" % n) for n in range(40)]
    taken = [Deliver(CHANNEL, "", ("work",), "work", False, {}, order.body) for order in orders]
    collector = Collector(store, chance)
    await collector.begin()
    await trace.take([opened(), *orders, *taken, settled(40, up_to=True)])
    sent_ends: frozenset[int] = frozenset()
    while True:
        [place] = await store.span_exports.positions([])
        portion = await store.span_exports.next(place, ALL, 7, LATER, sent_ends)
        words = Counter(span.name.partition(" ")[0] for span in portion.spans)
        assert max(words.values(), default=0) <= 7
        collector.take(portion.spans)
        await store.span_exports.advance(portion, refused=0)
        sent_ends = portion.ended
        if not portion.goes_on:
            break
    assert plain(collector.parts()) == expected(await stored(store))
    assert collector.doubles == 0


async def test_the_last_settlement_of_a_quiet_trace_is_sent(store: Store, trace_id: int) -> None:
    trace, collector = Trace(store, trace_id), Collector(store, random.Random(1))
    collector.kills = 0
    await collector.begin()
    order = message(1, "work")
    await trace.take([opened(), order, handed(CHANNEL, order, "work")])
    await collector.follow()
    assert collector.parts() == {(1, "publish"), (2, "wait")}
    await trace.take([settled(1)])
    await collector.follow()
    await collector.follow()
    assert collector.parts() >= {(2, "process"), (2, "ack")}
    assert collector.doubles == 0


async def test_a_death_is_sent_and_a_loss_is_whenever_it_is_noticed(store: Store) -> None:
    trace = LosingTrace(store, (await store.traces.create("/", Policy.channel)).id)
    store._database.clock = lambda: 0  # losses come by their time
    collector = Collector(store, random.Random(2))
    collector.kills = 0
    await collector.begin()
    order, other = message(1), message(2)
    await trace.happens(order, handed(BILLING, order), letter(ADMIN, order, death("orders")), other)
    await collector.follow()
    assert (3, "move") in collector.parts()
    await trace.loses("not_there")
    await collector.follow()
    [lost] = [span for span in collector.spans.values() if span.name == "delete orders"]
    assert (span_event(lost), lost.attributes["itc.reason"]) == (4, "not_there")
    await collector.follow()
    assert collector.doubles == 0
    collector.check_ancestry()


async def test_a_conversation_that_fails_is_sent_whole_and_no_other(
    store: Store, trace_id: int
) -> None:
    tracker = tracker_by(Policy.channel)
    collector = Collector(store, random.Random(3), span_shares("0"))
    await collector.begin()
    orders = [message(number) for number in range(6)]
    await tell(store, trace_id, tracker, orders)
    await collector.follow()
    await tell(store, trace_id, tracker, [handed(BILLING, order) for order in orders])
    await collector.follow()
    assert collector.spans == {}
    await tell(store, trace_id, tracker, [letter(ADMIN, orders[3], death("orders"))])
    await collector.follow()
    sent = {(4, "publish"), (10, "wait"), (10, "process"), (13, "wait"), (13, "process")}
    assert plain(collector.parts()) == {*sent, (13, "move")}
    [rejected] = [span for span in collector.spans.values() if span.error]
    assert span_event(rejected) == 10
    store.span_exports._beginnings.clear()  # another service goes on
    again = letter(ADMIN, orders[3], death("orders"), again=True)
    await tell(store, trace_id, tracker, [again, handed(BILLING, orders[2], again=True)])
    await collector.follow()
    assert {event for event, _ in collector.parts()} == {4, 10, 13, 14}
    collector.check_ancestry()


@pytest.mark.parametrize("seed", range(3))
async def test_a_share_is_of_whole_conversations(store: Store, trace_id: int, seed: int) -> None:
    chance = random.Random(seed)
    tracker, collector = tracker_by(Policy.channel), Collector(store, chance, span_shares("0.5"))
    everything = Collector(store, chance)
    await collector.begin()
    for record in [*side_by_side(chance)]:
        if isinstance(record, Publish):  # what reaches no queue has failed
            record = structs.replace(record, routed_queues=record.routing_keys)
        await tell(store, trace_id, tracker, [record])
        if chance.random() < 0.3:
            await collector.follow()
    await collector.follow()
    await store.span_exports.begin([], LATER)
    await store.span_exports.begin(["/"], 0)
    await everything.follow()
    traces = {context.trace_id for context in everything.spans}
    kept = {trace for trace in traces if is_sampled(trace, 0.5)}
    assert 0 < len(kept) < len(traces) == 20
    part = {c: s for c, s in everything.spans.items() if c.trace_id in kept}
    assert collector.spans.keys() == part.keys()


async def test_retention_says_what_it_took_before_it_was_sent(store: Store, trace_id: int) -> None:
    trace, collector = Trace(store, trace_id), Collector(store, random.Random(4))
    collector.kills = 0
    await collector.begin()
    orders = [message(number, "work") for number in range(10)]
    await trace.take([opened(), *orders[:5], *(handed(CHANNEL, o, "work") for o in orders[:5])])
    await trace.take([settled(3, up_to=True), *orders[5:]])
    await collector.follow()
    await trace.take([handed(CHANNEL, order, "work") for order in orders[5:]])
    before = len(collector.spans)
    plan = await store.retention.plan(trace_id, last_id=18)
    assert plan is not None
    trace.tracker.forget_before(plan.before_id)
    await store.retention.prune(plan, trace.tracker.checkpoint())
    [state] = await store.span_exports.states()
    assert (state.through, state.missed) == (18, 3 + 2)  # two were in hand
    await trace.take([settled(10, up_to=True)])
    await collector.follow()
    assert {span_event(span) for span in [*collector.spans.values()][before:]} == {19, 20}
    [state] = await store.span_exports.states()
    assert (state.behind, state.sent) == (0, len(collector.spans))


async def test_of_two_services_one_moves_on(store: Store, trace_id: int) -> None:
    trace, collector = Trace(store, trace_id), Collector(store, random.Random(5))
    await collector.begin()
    await trace.take([message(number) for number in range(4)])
    [position] = await store.span_exports.positions([trace_id])
    first = await store.span_exports.next(position, ALL, 2, LATER)
    second = await store.span_exports.next(position, ALL, 4, LATER)
    assert await store.span_exports.advance(first, refused=1)
    assert not await store.span_exports.advance(second, refused=0)
    [state] = await store.span_exports.states()
    assert (state.through, state.sent, state.refused) == (2, 1, 1)


async def test_a_trace_begins_with_what_comes_from_then_on(store: Store, trace_id: int) -> None:
    trace = Trace(store, trace_id)
    await trace.take([message(number) for number in range(3)])
    await store.span_exports.begin(["/"], LATER)
    [position] = await store.span_exports.positions([])
    assert position.read_id == 3
    await store.span_exports.begin([], LATER)
    assert await store.span_exports.positions([]) == []
    await store.span_exports.begin(["/"], 0)  # it is newer than that
    [position] = await store.span_exports.positions([])
    assert position.read_id == 0
