"""A queue's page and its usual times, as its events and copies say them, on both databases."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import pytest
from sqlalchemy import select

from app.store import Store
from app.store.database import tables
from app.stored.causality import QueueFlow
from app.stored.durations import usual_owners
from app.tracker import Policy
from model.durations import OwnerKind, counted_period, step_of
from model.times import HOUR
from model.words import EventType, Match
from tests.contract.broker import BEGINNING, QUEUES, Broker
from tests.contract.failing import BILLING, handed, message
from tests.contract.outbox import START, side_by_side, tell, tracker_by
from tests.contract.test_durations import all_events, count, set_clock
from tests.contract.test_settlements import Trace

Flows = Counter[tuple[int | None, str]]


@pytest.fixture
async def trace(store: Store, trace_id: int, request: pytest.FixtureRequest) -> Trace:
    set_clock(store, BEGINNING + HOUR)
    broker, trace = Broker(request.param), Trace(store, trace_id)
    for _ in range(10):
        await trace.take(broker.records(40))
    return trace


def flows(listed: list[QueueFlow]) -> Flows:
    found: Flows = Counter()
    for flow in listed:
        found[flow.participant and flow.participant.number, flow.exchange] += flow.count
    return found


@pytest.mark.parametrize("trace", range(3), indirect=True)
@pytest.mark.parametrize("queue", QUEUES)
async def test_a_queues_traffic_is_what_its_events_and_waiting_copies_say(
    store: Store, trace_id: int, trace: Trace, queue: str
) -> None:
    events = await all_events(store)
    copies = tables.copies.c
    mine = select(copies.event_id, copies.number).where(copies.queue == queue)
    waiting = sorted(
        await store._database.read(lambda connection: connection.execute(mine)),
        key=lambda copy: copy.number,
    )
    publishers: Flows = Counter()
    receivers: Flows = Counter()
    for one in events.values():
        if one.type is EventType.received and one.queue == queue:
            receivers[one.participant, one.exchange] += 1
            if one.match is not Match.redelivered:
                cause = events.get(one.cause or 0)
                publishers[cause and cause.participant, one.exchange] += 1
    for copy in waiting:
        publish = events[copy.event_id]
        publishers[publish.participant, publish.exchange] += 1

    traffic = await store.copies.of_queue(trace_id, "/", queue)
    assert flows(traffic.receivers) == receivers
    assert flows(traffic.publishers) == publishers
    assert receivers.total() > 5
    assert traffic.looked_at == len(events)
    assert traffic.since == min(one.recorded_at for one in events.values())
    assert traffic.waiting == len(waiting)
    oldest = waiting[0] if waiting else None
    assert traffic.oldest == (oldest and oldest.event_id)
    assert traffic.oldest_at == (oldest and events[oldest.event_id].recorded_at)
    by_queue = await store.copies.by_queue(trace_id, in_hand=False)
    numbers = [copies[1:] for copies in by_queue if copies.queue == queue]
    assert numbers == ([(traffic.waiting, traffic.oldest_at, traffic.oldest)] if waiting else [])


async def test_the_oldest_waits_since_it_was_published_however_long_nobody_was_there(
    store: Store, trace_id: int
) -> None:
    tracker, order, late = tracker_by(Policy.channel), message(1), message(2)
    ids = await tell(store, trace_id, tracker, [order, handed(BILLING, order)])
    ids += await tell(store, trace_id, tracker, [late, message(3), message(4, "amq.gen-1")])
    since = (await all_events(store))[ids[2]].recorded_at
    assert since == START + 2_000_000
    assert await store.copies.by_queue(trace_id, in_hand=False) == [("orders", 2, since, ids[2])]
    traffic = await store.copies.of_queue(trace_id, "/", "orders")
    assert (traffic.oldest, traffic.oldest_at) == (ids[2], since)


@pytest.mark.parametrize("seed", range(3))
async def test_usual_times_are_those_of_the_events(store: Store, trace_id: int, seed: int) -> None:
    set_clock(store, START + HOUR)
    chance, tracker = random.Random(seed), tracker_by(Policy.channel)
    for record in side_by_side(chance):
        await tell(store, trace_id, tracker, [record])
    await count(store, chance)
    events = await all_events(store)
    waits = defaultdict(list)
    for one in events.values():
        if one.match is Match.routed and one.cause in events:
            waited = one.recorded_at - events[one.cause].recorded_at
            waits[OwnerKind.queue, str(one.queue)].append(waited)
            waits[OwnerKind.service, one.user].append(waited)
    assert len(waits) > 1

    period = counted_period(START - HOUR, START + HOUR, START + HOUR)
    rows = {owner: await store.durations.of(trace_id, owner, period) for owner in waits}
    answers = usual_owners(period, rows)
    assert [answer.queue or answer.service for answer in answers] == [name for _, name in waits]
    for answer, durations in zip(answers, waits.values(), strict=True):
        times = sorted(durations)
        usual = answer.waiting.usual
        assert answer.waiting.slower is None
        assert usual.count == len(times)
        assert usual.median is not None
        middle = {step_of(times[at]) for at in ((len(times) - 1) // 2, len(times) // 2)}
        assert min(middle) <= step_of(usual.median) <= max(middle)
