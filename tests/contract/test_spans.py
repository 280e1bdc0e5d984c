"""Links that imported spans tell of, on both databases: the same whatever comes first."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence

import msgspec
import pytest
from sqlalchemy import func, select

from app.restamp.replay import Replay
from app.store import Store
from app.store.database import tables
from app.store.spans import imported
from app.stored.capture import Batch, ParticipantSettings
from app.stored.spans import (
    HandlingTime,
    Span,
    SpanKind,
    SpanLink,
)
from app.traces.pipeline import PipelineSettings
from app.tracker import Bounds, Channel, Deliver, Policy, Publish, Record, Tracker
from app.tracker.links import BUILT_IN, SPANS_RULE, Rules
from model.sound import Evidence
from model.words import Via

START = 1_700_000_000_000_000  # µs
TRACE = bytes(range(1, 17))

SHOP = Channel("rabbit@one", "10.0.0.1:1 -> 10.0.0.9:5672", 1, "shop")
# One program that receives on one connection, and publishes on another.
BILLING, BILLING_OUT = (
    Channel("rabbit@one", f"10.0.0.2:{port} -> 10.0.0.9:5672", 1, "billing") for port in (1, 2)
)
AUDIT = Channel("rabbit@one", "10.0.0.3:1 -> 10.0.0.9:5672", 1, "audit")


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    opened = await Store.open(database_url, traceparents=True)
    yield opened
    await opened.close()


def context(name: str) -> bytes:
    return TRACE + name.encode().rjust(8, b"_")


def header(name: str) -> str:
    return f"00-{TRACE.hex()}-{context(name)[16:].hex()}-01"


def publish(channel: Channel, queue: str, name: str | None, body: str = "") -> Publish:
    headers = {} if name is None else {"traceparent": header(name)}
    queues = tuple(queue.split())
    return Publish(channel, "", (queue,), queues, {"headers": headers}, body.encode())


def deliver(channel: Channel, sent: Publish, queue: str = "", again: bool = False) -> Deliver:
    queue = queue or sent.routed_queues[0]
    return Deliver(channel, "", sent.routing_keys, queue, again, sent.properties, sent.body)


def span(
    name: str,
    parent: str | None = None,
    kind: SpanKind = SpanKind.producer,
    *,
    remote: bool | None = False,
    links: Sequence[str] = (),
    at: int = START,
) -> Span:
    return Span(
        context(name),
        None if parent is None else context(parent),
        remote,
        kind,
        at,
        at + 5_000,
        "svc",
        tuple(SpanLink(context(each), True) for each in links),
    )


def consumer(name: str, parent: str | None, links: Sequence[str] = (), at: int = START) -> Span:
    return span(name, parent, SpanKind.consumer, remote=True, links=links, at=at)


class Trace:
    """A trace in a store, and what was told of it."""

    def __init__(self, store: Store, trace_id: int, policy: Policy = Policy.channel) -> None:
        self.store = store
        self.id = trace_id
        self.tracker = Tracker(policy, Bounds())
        self.now = START

    async def tell(self, *records: Record) -> None:
        events = []
        for record in records:
            self.now += 1_000
            events += self.tracker.apply(record, self.now)
        await self.store.batches.append(self.id, Batch(events, self.tracker.checkpoint(), b""))

    async def resolve(self) -> None:
        """Everything that can be."""
        while await self.store.spans.resolve():
            pass

    async def waiting(self) -> set[int]:
        """The publishes that wait for a span."""
        its = tables.traceparents.c
        query = select(its.event_id).where(its.waits_for.is_not(None))

        async def read(connection):  # type: ignore[no-untyped-def]
            return {*(await connection.execute(query)).scalars()}

        return set(await self.store._database.read(read))

    async def late(self) -> int:
        """How many links no clock has."""
        query = select(func.count()).select_from(tables.late_edges)

        async def read(connection):  # type: ignore[no-untyped-def]
            return (await connection.execute(query)).scalar_one()

        return int(await self.store._database.read(read))

    async def edges(self) -> set[tuple[int, int]]:
        """(cause, effect) of the links that spans told of."""

        async def read(connection):  # type: ignore[no-untyped-def]
            its = tables.edges.c
            rows = await connection.execute(
                select(its.cause_id, its.effect_id, its.trace_id, its.rule)
            )
            return {(row[0], row[1]) for row in rows if row[3] == SPANS_RULE}

        return set(await self.store._database.read(read))


@pytest.fixture
async def trace(store: Store, trace_id: int) -> Trace:
    return Trace(store, trace_id)


ORDER = publish(SHOP, "billing", "sent")
BILL = publish(BILLING, "audit", "billed")
# An order (1), handed to billing (2), which publishes a bill (3), which audit gets (4).
STORY = [ORDER, deliver(BILLING, ORDER), BILL, deliver(AUDIT, BILL)]
SPANS = [span("sent"), consumer("handling", "sent"), span("billed", "handling")]


@pytest.mark.parametrize("seed", range(8))
async def test_the_order_of_arrival_does_not_matter(trace: Trace, seed: int) -> None:
    chance = random.Random(seed)
    work: list[Record | Span] = [*STORY]
    for each in SPANS:
        work.insert(chance.randrange(len(work) + 1), each)
    for one in work:
        if isinstance(one, Span):
            await trace.store.spans.add([one])
        else:
            await trace.tell(one)
        if chance.random() < 0.5:
            await trace.resolve()
    await trace.resolve()
    assert await trace.edges() == {(2, 3)}
    assert (await trace.waiting(), await trace.late()) == (set(), 0)


async def test_what_spans_tell_is_counted_beside_what_messages_name(trace: Trace) -> None:
    """The relay was handed nothing; what billing publishes next names its cause itself."""
    named = publish(BILLING, "audit", "named")
    named.properties["headers"]["causation_id"] = "order"
    trace.tracker = Tracker(Policy.host, Bounds(), rules=Rules(BUILT_IN))
    order = msgspec.structs.replace(ORDER, properties={**ORDER.properties, "message_id": "order"})
    relayed = publish(AUDIT, "nobody", "relayed")
    await trace.tell(order, deliver(BILLING, order), BILL, named, relayed)
    assert await trace.store.doubts.evidence(trace.id) == Evidence(2, 1, known=1)
    more = [span("named", "handling"), span("relayed", "handling")]
    for each in (SPANS[0], *more, *SPANS[1:]):
        await trace.store.spans.add([each])
        await trace.resolve()
    assert await trace.edges() == {(2, 3), (2, 4), (1, 5)}
    wanted = Evidence(3, 1, known=1, spanned=2)
    assert await trace.store.doubts.evidence(trace.id) == wanted
    assert (wanted.coverage, wanted.coverage_by_spans) == (1 / 3, 2 / 3)
    await trace.tell(publish(BILLING, "nobody", None))  # which neither tells nor names any
    wanted = Evidence(4, 1, known=1, spanned=2)
    assert await trace.store.doubts.evidence(trace.id) == wanted
    work = Replay(
        trace.store.restamps,
        trace.id,
        ParticipantSettings(Policy.user, ()),
        print,
        PipelineSettings(),
    )
    await work.catch_up()
    await work.finish()
    assert await trace.store.doubts.evidence(trace.id) == wanted
    its = {who.name: who.evidence for who in await trace.store.participants.list(trace.id)}
    assert its["audit"] == Evidence(1, spanned=1)


async def test_a_link_shows_in_walks_and_paths(trace: Trace) -> None:
    await trace.tell(*STORY)
    await trace.store.spans.add(SPANS)
    await trace.resolve()
    causes = await trace.store.causality.walk(4, -1, via=Via.links)
    assert [event.id for event in causes.items] == [3, 2, 1]
    effects = await trace.store.causality.walk(1, 1, via=Via.links)
    assert [event.id for event in effects.items] == [2, 3, 4]
    path = await trace.store.causality.path(1, 4)
    assert path.steps is not None
    assert [(step.cause, step.effect, step.rule) for step in path.steps] == [
        (1, 2, None),
        (2, 3, "opentelemetry"),
        (3, 4, None),
    ]


async def test_what_clocks_do_not_have_is_said_until_a_restamp(trace: Trace) -> None:
    bill = publish(BILLING_OUT, "audit", "billed")
    await trace.tell(ORDER, deliver(BILLING, ORDER), bill, deliver(AUDIT, bill))
    store = trace.store
    await store.spans.add(SPANS)
    await trace.resolve()
    assert await trace.edges() == {(2, 3)}
    assert await trace.late() == 1
    assert await store.spans.late_between(trace.id, 4, 1) == 1
    assert await store.spans.late_between(trace.id, 3, 4) == 0
    doubts = [str(each) for each in (await store.doubts.between(trace.id, 1, 4)).doubts]
    assert any("1 link was found only after" in doubt for doubt in doubts)

    for policy, late in ((Policy.channel, 0), (Policy.host, 0)):
        work = Replay(
            store.restamps,
            trace.id,
            ParticipantSettings(policy, ()),
            lambda said: None,
            PipelineSettings(),
        )
        await work.catch_up()
        await work.finish()
        await work.tidy()
        assert await store.spans.late_between(trace.id, 1, 4) == late
    assert await trace.edges() == {(2, 3)}


async def test_what_clocks_do_not_have_is_known_until_its_effect_is_pruned(trace: Trace) -> None:
    """Chains over an archive lead from causes that the store has no more; no restamp sees these."""
    bill = publish(BILLING_OUT, "audit", "billed")
    await trace.tell(ORDER, deliver(BILLING, ORDER), bill, deliver(AUDIT, bill))
    store = trace.store
    await store.spans.add(SPANS)
    await trace.resolve()
    for keep, late in ((2, 1), (1, 0)):
        plan = await store.retention.plan(trace.id, keep_events=keep)
        assert plan is not None
        trace.tracker.forget_before(plan.before_id)
        await store.retention.prune(plan, trace.tracker.checkpoint())
        assert await store.spans.settle_late(trace.id) == late
        assert await store.spans.late_between(trace.id, 1, 4) == late
    assert await store.spans.late_between(trace.id, 3, 4) == 0


async def test_restamping_puts_links_into_clocks(trace: Trace) -> None:
    bill = publish(BILLING_OUT, "audit", "billed")
    await trace.tell(ORDER, deliver(BILLING, ORDER), bill)
    await trace.store.spans.add(SPANS)
    await trace.resolve()

    async def is_known() -> bool:
        first, last = [await trace.store.events.get(event_id) for event_id in (1, 3)]
        return first.stamp.leq(last.stamp)

    assert not await is_known()
    work = Replay(
        trace.store.restamps,
        trace.id,
        ParticipantSettings(Policy.channel, ()),
        lambda said: None,
        PipelineSettings(),
    )
    await work.catch_up()
    await work.finish()
    assert await is_known()


@pytest.mark.parametrize("coarse", [Policy.user, Policy.channel])
async def test_a_link_found_while_a_restamp_is_under_way_is_in_the_clocks_or_said(
    store: Store, trace_id: int, coarse: Policy
) -> None:
    """The old clocks may have it, and the new ones not."""
    trace = Trace(store, trace_id, coarse)
    elsewhere = msgspec.structs.replace(BILLING, connection="10.0.0.4:1 -> 10.0.0.9:5672")
    await trace.tell(ORDER, deliver(BILLING, ORDER), publish(elsewhere, "audit", "billed"))
    work = Replay(
        store.restamps,
        trace_id,
        ParticipantSettings(Policy.host, ()),
        lambda said: None,
        PipelineSettings(),
    )
    await work.catch_up()
    await store.spans.add(SPANS)
    await trace.resolve()
    assert await trace.late() == (coarse is not Policy.user)
    await work.finish()
    await work.tidy()
    assert len(await trace.edges()) == 1
    assert await store.spans.late_between(trace_id, 1, 3) == 1
    again = Replay(
        store.restamps,
        trace_id,
        ParticipantSettings(Policy.host, ()),
        lambda said: None,
        PipelineSettings(),
    )
    await again.catch_up()
    await again.finish()
    assert await store.spans.late_between(trace_id, 1, 3) == 0
    assert len(await trace.edges()) == 1


async def test_the_newest_delivery_to_the_publisher_is_meant(trace: Trace) -> None:
    order = publish(SHOP, "billing audit", "sent")
    await trace.tell(
        order,
        deliver(AUDIT, order, "audit"),
        deliver(BILLING, order, "billing"),
        deliver(BILLING, order, "billing", again=True),
        deliver(AUDIT, order, "audit", again=True),
        BILL,
        deliver(BILLING, order, "billing", again=True),
    )
    await trace.store.spans.add(SPANS)
    await trace.resolve()
    assert await trace.edges() == {(4, 6)}


async def test_else_a_delivery_to_its_place_or_else_the_publish(trace: Trace) -> None:
    elsewhere = publish(AUDIT, "x", "told")
    await trace.tell(
        ORDER, deliver(BILLING, ORDER), publish(BILLING_OUT, "audit", "billed"), elsewhere
    )
    await trace.store.spans.add(
        [*SPANS, span("told", "asked"), span("asked", "handling", SpanKind.server, remote=True)]
    )
    await trace.resolve()
    assert await trace.edges() == {(2, 3), (1, 4)}


async def test_a_batch_leads_to_all_that_it_links_to(trace: Trace) -> None:
    other = publish(SHOP, "billing", "other")
    await trace.tell(ORDER, other, deliver(BILLING, ORDER), deliver(BILLING, other), BILL)
    await trace.store.spans.add(
        [consumer("handling", None, ["sent", "other", "lost"]), span("billed", "handling")]
    )
    await trace.resolve()
    assert await trace.edges() == {(3, 5), (4, 5)}


async def test_two_messages_of_one_span_are_told_apart_only_by_who_got_them(trace: Trace) -> None:
    """A library without producers' spans sends several messages with the consumer's context."""
    first, second = publish(SHOP, "billing", "sent", "1"), publish(SHOP, "audit", "sent", "2")
    await trace.tell(first, second, deliver(BILLING, first), deliver(AUDIT, second), BILL)
    await trace.store.spans.add([consumer("handling", "sent"), span("billed", "handling")])
    await trace.resolve()
    assert await trace.edges() == {(3, 5)}


async def test_where_several_messages_may_be_meant_there_is_no_link(trace: Trace) -> None:
    first, second = publish(SHOP, "billing", "sent", "1"), publish(SHOP, "billing", "sent", "2")
    await trace.tell(first, second, deliver(BILLING, first), deliver(BILLING, second), BILL)
    await trace.store.spans.add([consumer("handling", "sent"), span("billed", "handling")])
    await trace.resolve()
    assert (await trace.edges(), await trace.waiting()) == (set(), {1, 2})  # for their own


@pytest.mark.parametrize("who", [BILLING, AUDIT])
async def test_a_traceparent_that_was_passed_on_names_nothing(trace: Trace, who: Channel) -> None:
    """An error queue's copy has the header of the message, whose cause is not the copy's."""
    copy = msgspec.structs.replace(BILL, channel=who, routed_queues=("errors",))
    await trace.tell(ORDER, deliver(BILLING, ORDER), BILL, deliver(who, BILL), copy)
    await trace.store.spans.add(SPANS)
    await trace.resolve()
    assert (await trace.edges(), await trace.waiting()) == ({(2, 3)}, set())


async def test_what_comes_later_is_no_cause(trace: Trace) -> None:
    await trace.tell(BILL, ORDER, deliver(BILLING, ORDER))
    await trace.store.spans.add(SPANS)
    await trace.resolve()
    assert (await trace.edges(), await trace.waiting()) == (set(), set())


async def test_spans_that_name_each_other_in_a_circle_make_no_link(trace: Trace) -> None:
    await trace.tell(*STORY)
    circle = [
        consumer("sent", "billed"),
        consumer("billed", "sent"),
        consumer("handling", "handling"),
    ]
    await trace.store.spans.add(circle)
    await trace.resolve()
    # The bill's consumer says that it handled the order, and the order's that it handled the bill.
    assert await trace.edges() == {(2, 3)}


async def test_a_message_that_is_not_stored_is_unseen(trace: Trace) -> None:
    await trace.tell(BILL)
    await trace.store.spans.add(SPANS)
    await trace.resolve()
    assert (await trace.edges(), await trace.waiting()) == (set(), set())


async def test_a_delivery_stands_for_a_publish_before_the_trace(trace: Trace) -> None:
    await trace.tell(deliver(BILLING, ORDER), BILL)
    await trace.store.spans.add(SPANS)
    await trace.resolve()
    assert await trace.edges() == {(1, 2)}


async def test_links_stay_in_their_virtual_host(trace: Trace) -> None:
    other = Trace(trace.store, (await trace.store.traces.create("other", "channel")).id)
    await other.tell(ORDER, deliver(BILLING, ORDER))
    await trace.tell(BILL)
    await trace.store.spans.add(SPANS)
    await trace.resolve()
    assert (await trace.edges(), await trace.waiting()) == (set(), set())


async def test_a_copy_of_what_was_handled_in_another_virtual_host_is_no_cause(trace: Trace) -> None:
    """A shovel keeps the headers of what it moves."""
    other = Trace(trace.store, (await trace.store.traces.create("other", "channel")).id)
    await other.tell(ORDER, deliver(AUDIT, ORDER), deliver(BILLING, ORDER))
    copy = msgspec.structs.replace(ORDER, channel=AUDIT)
    await trace.tell(copy, BILL)
    await trace.store.spans.add(SPANS)
    await trace.resolve()
    assert (await trace.edges(), await trace.waiting()) == (set(), set())
    # What the publisher was handed here, it has handled here.
    later = publish(BILLING, "audit", "later")
    await trace.tell(deliver(BILLING, copy), later)
    await trace.store.spans.add([span("later", "handling")])
    await trace.resolve()
    assert len(await trace.edges()) == 1


async def test_a_span_that_comes_again_changes_nothing(trace: Trace) -> None:
    await trace.tell(*STORY)
    assert await trace.store.spans.add([*SPANS, *SPANS]) == 3
    assert await trace.store.spans.add(SPANS) == 0
    forged = consumer("handling", None, ["billed"])
    assert await trace.store.spans.add([forged]) == 0
    await trace.resolve()
    assert await trace.edges() == {(2, 3)}


async def test_many_that_wait_for_one_span_are_resolved_in_rounds(
    trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imported, "ROUND", 3)
    bills = [publish(BILLING, "", "billed", str(number)) for number in range(10)]
    await trace.tell(ORDER, deliver(BILLING, ORDER), *bills)
    await trace.resolve()
    for each in SPANS:
        await trace.store.spans.add([each])
        await trace.resolve()
    assert await trace.edges() == {(2, effect) for effect in range(3, 13)}


async def test_a_span_that_comes_while_others_are_looked_at_is_not_missed(
    trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    await trace.tell(*STORY)
    await trace.store.spans.add([SPANS[2]])
    find = imported.find
    missing = [SPANS[1]]

    async def slow(connection, rows):  # type: ignore[no-untyped-def]
        found = await find(connection, rows)
        while missing:
            late = missing.pop()
            await trace.store.spans.add([late])
            # As another service would that took it up at once.
            await trace.store.spans._note_seen([late.context])
        return found

    monkeypatch.setattr(imported, "find", slow)
    await trace.resolve()
    assert await trace.edges() == {(2, 3)}


async def test_the_time_inside_the_consumer_is_known(trace: Trace) -> None:
    await trace.tell(*STORY)
    await trace.store.spans.add([span("sent"), consumer("handling", "sent", at=START + 7)])
    handled = [HandlingTime(START + 7, START + 5_007, "svc")]
    # Of the message, and of the only delivery that there was; nothing is told of the other.
    assert [await _handled(trace, event) for event in (1, 2, 3, 4)] == [
        handled,
        handled,
        [],
        [],
    ]


async def test_of_several_deliveries_only_what_a_link_tells_is_said(trace: Trace) -> None:
    order = publish(SHOP, "billing audit", "sent")
    await trace.tell(
        order, deliver(BILLING, order, "billing"), deliver(AUDIT, order, "audit"), BILL
    )
    other = consumer("auditing", "sent", at=START + 9)
    await trace.store.spans.add([*SPANS, other])
    assert await _told(trace) == {2: None, 3: None}
    assert await _handled(trace, 2) == []
    await trace.resolve()
    assert await _handled(trace, 2) == [HandlingTime(START, START + 5_000, "svc")]
    assert await _handled(trace, 3) == []
    assert await _told(trace) == {2: 5_000, 3: None}
    assert len(await _handled(trace, 1)) == 2


async def _handled(trace: Trace, event_id: int) -> list[HandlingTime]:
    return await trace.store.spans.handling_times(await trace.store.events.get(event_id))


async def _told(trace: Trace) -> dict[int, int | None]:
    """How long the deliveries of the first message were handled, as its conversation says (µs)."""
    found = await trace.store.conversations.of_event(1, Via.links)
    return {
        each.record.id: each.handled if each.handled_until == "span" else None
        for copy in found.conversation.messages[0].copies
        for each in copy.deliveries
    }


async def test_what_retention_removes_is_no_cause(trace: Trace) -> None:
    await trace.tell(*STORY)
    await trace.resolve()
    plan = await trace.store.retention.plan(trace.id, keep_events=2)
    assert plan is not None
    trace.tracker.forget_before(plan.before_id)
    await trace.store.retention.prune(plan, trace.tracker.checkpoint())
    await trace.store.spans.add(SPANS)
    await trace.resolve()
    assert (await trace.edges(), await trace.waiting()) == (set(), set())


async def test_links_and_contexts_go_with_their_events(trace: Trace) -> None:
    bill = publish(BILLING_OUT, "audit", "billed")
    await trace.tell(ORDER, deliver(BILLING, ORDER), bill, deliver(AUDIT, bill))
    await trace.store.spans.add(SPANS)
    await trace.resolve()
    plan = await trace.store.retention.plan(trace.id, keep_events=1)
    assert plan is not None
    trace.tracker.forget_before(plan.before_id)
    await trace.store.retention.prune(plan, trace.tracker.checkpoint())

    async def left(connection):  # type: ignore[no-untyped-def]
        found = []
        for table in (tables.edges, tables.late_edges, tables.traceparents):
            found += (await connection.execute(select(table))).all()
        return found

    assert await trace.store._database.read(left) == []


async def test_the_newest_spans_stay(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imported, "PRUNED", 2)
    many = [span(f"s{n}", links=["x"], at=START + n * 10_000) for n in range(10)]
    await trace.store.spans.add(many)
    assert await trace.store.spans.prune(None, keep=10) == 0
    assert await trace.store.spans.prune(START + 15_000, keep=10) == 1
    assert await trace.store.spans.prune(None, keep=4) == 5
    assert await trace.store.spans.add(many) == 6


async def test_the_oldest_event_is_known(trace: Trace) -> None:
    assert await trace.store.spans.oldest_event() is None
    await trace.tell(*STORY)
    assert await trace.store.spans.oldest_event() == START + 1_000


async def test_without_the_setting_no_traceparent_is_kept(
    database_url: str, store: Store, trace_id: int
) -> None:
    plain = await Store.open(database_url)
    try:
        trace = Trace(plain, trace_id)
        await trace.tell(*STORY)
        await plain.spans.add(SPANS)
        await trace.resolve()
        assert (await trace.edges(), await trace.waiting()) == (set(), set())
    finally:
        await plain.close()
