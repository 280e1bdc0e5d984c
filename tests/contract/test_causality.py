"""Causes, effects, vectors and fates against the stamps themselves."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial

import pytest
from msgspec.structs import replace

from app.errors import BadRequestError, NotFoundError
from app.store import Store
from app.store.causality import walks
from app.stored.reading import EventFilter
from app.tracker.events import StampedEvent
from app.tracker.records import Deliver, Publish
from itc import Relation, compare
from model.event import ALL_LARGE
from model.words import EventType, Match, Via
from tests.contract.history import History, number_from


def _id(event: StampedEvent) -> int:
    assert event.reference.id is not None
    return event.reference.id


def _past(events: list[StampedEvent], event: StampedEvent) -> list[int]:
    return [
        _id(each)
        for each in reversed(events)
        if compare(each.stamp, event.stamp) is Relation.before
    ]


def _future(events: list[StampedEvent], event: StampedEvent) -> list[int]:
    return [_id(each) for each in events if compare(event.stamp, each.stamp) is Relation.before]


async def _stored(store: Store, trace_id: int, history: History, records: int) -> None:
    while len(history.events) < records:
        await store.batches.append(trace_id, history.batch(40))


@pytest.mark.parametrize("channels", [pytest.param(1, marks=pytest.mark.long(4)), 3, 12])
async def test_causes_and_effects_are_what_the_stamps_say_nearest_first(
    store: Store, trace_id: int, channels: int
) -> None:
    history = History(seed=channels, channels=channels)
    noise = History(seed=99)
    other = await store.traces.create("other", "channel")
    for _ in range(6):
        await store.batches.append(trace_id, history.batch(40))
        await store.batches.append(other.id, noise.batch(10))
    for event in random.Random(1).sample(history.events, 25):
        past, future = _past(history.events, event), _future(history.events, event)
        causes = await store.causality.walk(_id(event), -1, limit=1000)
        effects = await store.causality.walk(_id(event), 1, limit=1000)
        assert [row.id for row in causes.items] == past
        assert [row.id for row in effects.items] == future
        assert (causes.truncated, effects.truncated) == (False, False)


async def test_a_walk_stops_at_its_limit_and_says_so(store: Store, trace_id: int) -> None:
    history = History(seed=3, channels=4)
    await _stored(store, trace_id, history, 200)
    event = history.events[100]
    past, future = _past(history.events, event), _future(history.events, event)
    for limit in (0, 1, 2, 7, 30, len(past) - 1, len(past), len(past) + 1):
        causes = await store.causality.walk(_id(event), -1, limit)
        assert ([row.id for row in causes.items], causes.truncated) == (
            past[:limit],
            limit < len(past),
        )
    for limit in (0, 1, 2, 7, 30, len(future) - 1, len(future), len(future) + 1):
        effects = await store.causality.walk(_id(event), 1, limit)
        assert ([row.id for row in effects.items], effects.truncated) == (
            future[:limit],
            limit < len(future),
        )


@pytest.mark.parametrize("via", [*Via])
async def test_a_cursor_leads_through_all_of_a_walk(store: Store, trace_id: int, via: Via) -> None:
    history = History(seed=3, channels=4)
    await _stored(store, trace_id, history, 200)
    walks = store.causality
    event = _id(history.events[100])
    causes, effects = (
        await walks.walk(event, -1, 999, via=via),
        await walks.walk(event, 1, 999, via=via),
    )
    for limit in (1, 7, 999):
        past = future = None
        before: list[int] = []
        while past is None or past.truncated:
            cursor = before[-1] if before else None
            past = await walks.walk(event, -1, limit, via=via, cursor=cursor)
            before += [each.id for each in past.items]
        after: list[int] = []
        while future is None or future.truncated:
            cursor = after[-1] if after else None
            future = await walks.walk(event, 1, limit, via=via, cursor=cursor)
            after += [each.id for each in future.items]
        assert before == [each.id for each in causes.items]
        assert after == [each.id for each in effects.items]


async def test_a_walk_holds_what_is_asked_for(store: Store, trace_id: int) -> None:
    history = History(seed=3, channels=4)
    await _stored(store, trace_id, history, 700)
    event = _id(history.events[5])
    everything = (await store.causality.walk(event, 1, 1000)).items
    number = everything[-1].participant
    for asked, fits in (
        (EventFilter(type=EventType.published), lambda e: e.type is EventType.published),
        (EventFilter(participant=number), lambda e: e.participant == number),
        (EventFilter(vhost="elsewhere"), lambda e: False),
        (EventFilter(queue="no such"), lambda e: False),
    ):
        wanted = [each.id for each in everything if fits(each)]
        for limit in (1, 3, max(1, len(wanted)), 1000):
            found = await store.causality.walk(event, 1, limit, criteria=asked)
            assert [each.id for each in found.items] == wanted[:limit]
            assert found.truncated is (limit < len(wanted))
        if wanted:
            rest = await store.causality.walk(event, 1, 1000, cursor=wanted[0], criteria=asked)
            assert [each.id for each in rest.items] == wanted[1:]


async def test_a_publish_with_very_many_deliveries_does_not_hide_what_is_nearer(
    store: Store, trace_id: int
) -> None:
    history = History(seed=1, channels=2)
    tracker, (publisher, consumer) = history.tracker, history.channels
    publish = Publish(publisher, "e", ("k",), ("q",), {}, b"body")
    events = tracker.apply(publish, 1)
    for number in range(60):
        again = Deliver(consumer, "e", ("k",), "q", number > 0, {}, b"body")
        events += tracker.apply(again, 2 + number)
        events += tracker.apply(Publish(publisher, "e", (), (), {}, b""), 2 + number)
    history.events = events
    await _append(store, trace_id, history)
    for limit in (5, 50, 119, 120):
        effects = await store.causality.walk(1, 1, limit)
        assert [row.id for row in effects.items] == _future(events, events[0])[:limit]
        assert effects.truncated is (limit < 120)


async def _append(store: Store, trace_id: int, history: History) -> None:
    batch = history.batch(0)
    batch.events.extend(history.events)
    await store.batches.append(trace_id, batch)


async def test_a_walk_takes_few_round_trips(
    store: Store, trace_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(seed=4, channels=4)
    await _stored(store, trace_id, history, 400)
    trips: list[int] = []
    runs = walks._runs

    async def counted(connection, ids, forward):  # type: ignore[no-untyped-def]
        trips.append(len(ids))
        return await runs(connection, ids, forward)

    monkeypatch.setattr(walks, "_runs", counted)
    walk = await store.causality.walk(_id(history.events[-1]), -1, limit=300)
    assert len(walk.items) == 300
    assert len(trips) <= 300 / 4  # its four participants are read side by side
    assert max(trips) <= walks.FRONTIER + 1


async def test_the_past_of_an_unknown_event_is_an_error(store: Store, trace_id: int) -> None:
    for event_id in (1, 0, -1, 2**63, 2**80):
        for read in (
            partial(store.causality.walk, direction=-1),
            partial(store.causality.walk, direction=1),
            store.events.get,
            store.copies.fate_of,
        ):
            with pytest.raises(NotFoundError, match=f"no event has the id {event_id}"):
                await read(event_id)


async def test_a_vector_counts_the_events_at_or_before(store: Store, trace_id: int) -> None:
    history = History(seed=7, channels=9)
    await _stored(store, trace_id, history, 200)
    for event in random.Random(2).sample(history.events, 30):
        row = await store.events.get(_id(event))
        assert row.stamp == event.stamp
        counted = Counter(
            each.participant for each in history.events if each.stamp.leq(event.stamp)
        )
        vector = await store.participants.vector(row)
        assert {entry.participant: entry.events for entry in vector} == counted
        names = {p.participant: p.name for p in await store.participants.list(trace_id)}
        assert {entry.participant: entry.name for entry in vector} == {n: names[n] for n in counted}


async def test_participants_are_listed_by_their_newest_event(store: Store, trace_id: int) -> None:
    history = History(seed=8, channels=9)
    await _stored(store, trace_id, history, 200)
    listed = await store.participants.list(trace_id)
    last = {event.participant: event for event in history.events}
    first = {event.participant: event for event in reversed(history.events)}
    assert [each.last_event_id for each in listed] == sorted(
        (_id(event) for event in last.values()), reverse=True
    )
    counted = Counter(event.participant for event in history.events)
    for each in listed:
        event = last[each.participant]
        assert each.events == counted[each.participant]
        assert (each.lamport, each.interval) == (event.lamport, event.stamp.interval)
        assert each.first_event_id == _id(first[each.participant])
        assert each.last_event_at == event.recorded_at
        channel = event.record.channel
        assert [(c.node, c.connection, c.channel, c.user) for c in each.channels] == [
            (channel.node, channel.connection, channel.number, channel.user)
        ]
    page = await store.participants.list(trace_id, before_id=listed[3].last_event_id, limit=2)
    assert page == listed[4:6]


async def test_an_event_without_its_clock_has_no_vector(store: Store, trace_id: int) -> None:
    await _stored(store, trace_id, History(seed=9), 10)
    with pytest.raises(ValueError, match="without its clock"):
        await store.participants.vector(await store.events.get(1, ALL_LARGE - {"clock"}))


class TestDeliveries:
    """A publish routed to three queues: handed over, dead-lettered and waiting."""

    @pytest.fixture
    async def events(self, store: Store, trace_id: int) -> list[StampedEvent]:
        history = History(seed=1, channels=3)
        publisher, consumer, undertaker = history.channels
        headers = {"headers": {"n": 1}}
        death = {"queue": "b", "exchange": "e", "routing-keys": ["k"], "reason": "rejected"}
        dead = {"headers": {"n": 1, "x-death": [{**death, "count": 1}]}}
        records = [
            Publish(publisher, "e", ("k",), ("a", "b", "c"), headers, b"body"),
            Deliver(consumer, "e", ("k",), "b", False, headers, b"body"),
            Deliver(consumer, "e", ("k",), "a", False, headers, b"body"),
            Deliver(consumer, "e", ("k",), "a", True, headers, b"body"),
            Deliver(undertaker, "dlx", ("k",), "dead", False, dead, b"body"),
        ]
        for record in records:
            history.events += history.tracker.apply(record, 1)
        await _append(store, trace_id, history)
        assert [event.match for event in history.events] == [
            Match.none,
            Match.routed,
            Match.routed,
            Match.redelivered,
            Match.dead_lettered,
        ]
        return history.events

    async def test_each_queue_has_its_own(self, store: Store, events: list[StampedEvent]) -> None:
        fate = await store.copies.fate_of(1)
        assert fate.publish.id == 1
        copies = fate.message.copies
        own = [[each.id for each in fate.events_of(copy, dead=False)] for copy in copies]
        dead = [[each.id for each in fate.events_of(copy, dead=True)] for copy in copies]
        assert [(copy.queue, copy.state) for copy in copies] == [
            ("a", "handed_over"),
            ("b", "dead_lettered"),
            ("c", "waiting"),
        ]
        assert [copy.dead_lettered_to for copy in copies] == [(), ("dead",), ()]
        assert (own, dead) == ([[3, 4], [2], []], [[], [5], []])
        assert (fate.routed_queues, fate.handed_over) == (3, 2)

    async def test_no_queue_waits_whose_delivery_comes_behind_a_thousand_others(
        self, store: Store, trace_id: int
    ) -> None:
        history = History(seed=1, channels=2)
        publisher, consumer = history.channels
        queues = tuple(f"q{number}" for number in range(1_300))
        sent = Publish(publisher, "all", ("k",), queues, {"message_id": "news"}, b"news")
        read = Deliver(consumer, "all", ("k",), "q0", False, sent.properties, sent.body)
        again = [replace(read, redelivered=True)] * 200
        rest = [replace(read, queue=queue) for queue in queues[1:]]
        for record in (sent, read, *again, *rest):
            history.events += history.tracker.apply(record, 1)
        await _append(store, trace_id, history)
        fate = await store.copies.fate_of(1)
        assert (fate.handed_over, fate.truncated) == (1_300, False)
        assert {copy.state for copy in fate.message.copies} == {"handed_over"}

    async def test_copies_that_wait_in_a_queue_are_counted(
        self, store: Store, trace_id: int, events: list[StampedEvent]
    ) -> None:
        waiting = await store.copies.count_waiting(trace_id, "c")
        assert (waiting.copies, waiting.older) == (1, 0)
        assert await store.copies.count_waiting(trace_id, "c", waiting.newest) == (
            *(1, 1),
            waiting.newest,
        )
        assert await store.copies.count_waiting(trace_id, "c", waiting.newest - 1) == (
            *(1, 0),
            waiting.newest,
        )
        assert await store.copies.count_waiting(trace_id, "a") == (0, 0, 0)

    async def test_a_received_event_has_none(
        self, store: Store, events: list[StampedEvent]
    ) -> None:
        with pytest.raises(BadRequestError, match="only a publish has deliveries"):
            await store.copies.fate_of(2)


async def test_ids_may_be_larger_than_32_bits(store: Store, trace_id: int) -> None:
    first = 2**40
    await number_from(store, first)
    history = History(seed=10)
    await _stored(store, trace_id, history, 60)
    event = history.events[30]
    causes = await store.causality.walk(_id(event), -1, limit=1000)
    assert [row.id for row in causes.items] == _past(history.events, event)
    effects = await store.causality.walk(_id(event), 1, limit=1000)
    assert [row.id for row in effects.items] == _future(history.events, event)
    rows = (await store.events.find(EventFilter(), before=first + 10, limit=3)).items
    assert [row.id for row in rows] == [first + 9, first + 8, first + 7]
    assert await store.participants.vector(rows[0])
    plan = await store.retention.plan(trace_id, keep_events=10)
    assert plan is not None
    assert plan.before_id == first + len(history.events) - 10
