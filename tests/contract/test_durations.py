"""Durations are counted once, whoever is killed between reading and storing, as events say them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest
from sqlalchemy import func, select

from app.store import Store
from app.store.database import tables
from app.store.watch import durations as counting
from app.stored.reading import EventFilter
from app.tracker import Deliver, Policy, Publish
from app.tracker.records import Channel
from model.durations import (
    BY_HOUR,
    BY_MINUTE,
    ENDS,
    EVER,
    HANDED_OVER,
    SUMS,
    CopyEnd,
    Measured,
    OwnerKind,
    Resolution,
    counts_of,
    step_of,
)
from model.event import Event
from model.times import DAY, HOUR, MINUTE
from model.words import Disposition, EventType, Match
from tests.contract.broker import BEGINNING, Broker
from tests.contract.failing import ADMIN, BILLING, OTHER, death, handed, letter, message
from tests.contract.outbox import START, side_by_side, tell, tracker_by
from tests.contract.test_settlements import Trace, say
from tests.contract.test_watching import whole

ALWAYS = 1 << 62
Counts = Counter[tuple[OwnerKind, str, Measured, int, int]]


def set_clock(store: Store, at: int) -> None:
    store._database.clock = lambda: at


async def count(store: Store, chance: random.Random, most: int = 10**6) -> None:
    """Count on, in portions of any size; some are lost, some are stored twice."""
    while places := await store.durations.behind([]):
        portions = [await store.durations.next(each, chance.randrange(1, 30)) for each in places]
        if chance.random() < 0.3:
            continue  # killed
        again = chance.random() < 0.3  # by another service, too
        for each in portions * (1 + again):
            await store.durations.count(each)
        most -= 1
        if not most:
            return


async def stored(store: Store, resolution: Resolution = BY_MINUTE) -> Counts:
    """All that is counted, by owner, what is measured, its part of time, and step."""
    its = tables.durations.c
    query = select(its.at, its.kind, its.name, its.cells).where(its.part == resolution.part)
    rows = await store._database.read(lambda connection: connection.execute(query))
    counts: Counts = Counter()
    for at, kind, name, cells in rows:
        for cell, times in counting._decode(cells).items():
            part = at + (cell >> 8 & 63) * resolution.part
            if cell >> 14 < ENDS:
                counts[OwnerKind(kind), name, Measured(cell >> 14), part, cell & 255] += times
    return counts


async def ends(store: Store, trace_id: int) -> dict[str, dict[str, int]]:
    """How often copies of each queue ended so, as far as any did."""
    rows = await store.durations.ever([trace_id])
    found = {row.name: counts_of(row.cells, ENDS) for row in rows}
    return {
        name: {CopyEnd(end).name: times for end, times in counts.items()}
        for name, counts in found.items()
        if counts
    }


def handed_over(events: dict[int, Event]) -> Iterator[tuple[Event, Measured, int, int]]:
    """What each delivery adds, but for how long it was handled where nothing was settled."""
    for one in events.values():
        if one.type is EventType.received:
            yield one, Measured.waiting, one.recorded_at, HANDED_OVER
            if one.match is Match.routed and one.cause in events:
                waited = one.recorded_at - events[one.cause].recorded_at
                yield one, Measured.waiting, one.recorded_at, step_of(waited)
            if one.settlement in (Disposition.acknowledged, Disposition.rejected):
                assert one.settled_at is not None
                took = one.settled_at - one.recorded_at
                yield one, Measured.handling, one.settled_at, step_of(took)


def settled(events: dict[int, Event]) -> Iterator[Event]:
    for one in events.values():
        if one.settlement in (Disposition.acknowledged, Disposition.rejected):
            yield one


def by_owner(found: Iterator[tuple[Event, Measured, int, int]], part: int = MINUTE) -> Counts:
    counts: Counts = Counter()
    for one, measured, at, step in found:
        assert one.queue is not None
        counts[OwnerKind.queue, one.queue, measured, at - at % part, step] += 1
        counts[OwnerKind.service, one.user, measured, at - at % part, step] += 1
    return counts


async def all_events(store: Store) -> dict[int, Event]:
    found = await store.events.find(EventFilter(), after=0, limit=10_000)
    return {each.id: each for each in found.items}


@pytest.mark.parametrize("seed", range(6))
async def test_what_is_settled_later_is_counted_once_however_often_somebody_is_killed(
    store: Store, trace_id: int, seed: int
) -> None:
    set_clock(store, BEGINNING + DAY)
    broker, trace, chance = Broker(seed), Trace(store, trace_id), random.Random(seed)
    for _ in range(25):
        await trace.take(broker.records(chance.randrange(40)))
        if chance.random() < 0.3:
            await trace.killed()
        if chance.random() < 0.5:
            await count(store, chance, 2)
    await trace.take(broker.late)
    place = Channel("rabbit@one", "x:1 -> b", 1, "shop")
    await trace.take([Publish(place, "", ("on",), (), {}, b"")])  # behind the last settlement
    await count(store, chance)
    events = await all_events(store)
    assert await stored(store) == by_owner(handed_over(events))
    assert await stored(store, BY_HOUR) == by_owner(handed_over(events), HOUR)
    assert await stored(store, EVER) == by_owner(handed_over(events), ALWAYS)
    took = sum(e.settled_at - e.recorded_at for e in settled(events))
    [service] = [e for e in await store.durations.ever([trace_id]) if e.kind == OwnerKind.service]
    assert service.cells[SUMS + Measured.handling << 14] == took
    assert sum(each.settled_at is not None for each in events.values()) > 50


@pytest.mark.parametrize("seed", range(4))
async def test_without_settlements_handling_lasts_as_conversations_say(
    store: Store, seed: int
) -> None:
    trace_id = (await store.traces.create("/", Policy.channel)).id
    set_clock(store, START + HOUR)
    chance, tracker = random.Random(seed), tracker_by(Policy.channel)
    for record in side_by_side(chance):
        await tell(store, trace_id, tracker, [record])
        if chance.random() < 0.3:
            await count(store, chance, 1)
    await count(store, chance)
    expected = by_owner(handed_over(await all_events(store)))
    handled = 0
    for stored_message in (await whole(store)).messages:
        for copy in stored_message.copies:
            for one in copy.deliveries:
                if one.handled is not None:
                    handled += 1
                    until = one.at + one.handled
                    for kind, name in ((OwnerKind.queue, copy.queue), (OwnerKind.service, "shop")):
                        its = kind, name, Measured.handling, until - until % MINUTE
                        expected[*its, step_of(one.handled)] += 1
    assert handled == 20
    assert await stored(store) == expected


async def test_a_return_is_counted_by_what_the_broker_plugin_tells_of_it(
    store: Store, trace_id: int
) -> None:
    set_clock(store, BEGINNING + HOUR)
    given_back, crashed, untold = map(message, range(3))
    records = [
        say("channel", channel=BILLING, pid="<1>", next_tag=1),
        *(given_back, handed(BILLING, given_back)),
        say("settled", channel=BILLING, delivery_tag=1, outcome="returned"),
        *(handed(OTHER, given_back, again=True), crashed, handed(BILLING, crashed)),
        say("closed", channel=BILLING, pid="<1>"),
        *(handed(OTHER, crashed, again=True), untold, handed(BILLING, untold)),
        handed(OTHER, untold, again=True),
    ]
    await Trace(store, trace_id).take(records)
    await count(store, random.Random(1))
    expected = {"given_back": 1, "channel_closed": 1, "returned": 1}
    assert await ends(store, trace_id) == {"orders": expected}


async def test_each_death_and_return_is_counted_once_however_often_it_is_told(
    store: Store, trace_id: int
) -> None:
    set_clock(store, START + HOUR)
    chance, tracker = random.Random(1), tracker_by(Policy.connection)
    for number in range(12):
        order, late = message(number), message(100 + number, "late")
        rejected = death("orders", ("rejected", "delivery_limit", "strange")[number % 3])
        records = [
            *(order, handed(BILLING, order), handed(OTHER, order, again=True)),
            *(letter(ADMIN, order, rejected), letter(OTHER, order, rejected, again=True)),
            *(late, letter(ADMIN, late, death("late", "expired"))),  # handed to nobody: put off
        ]
        for record in records:
            await tell(store, trace_id, tracker, [record])
            if chance.random() < 0.5:
                await count(store, chance, 1)
    await count(store, chance)
    assert await ends(store, trace_id) == {
        "orders": {"returned": 12, "rejected": 4, "delivery_limit": 4, "other": 4},
        "orders.dead": {"returned": 12},
    }
    set_clock(store, START + BY_HOUR.retention + DAY)
    await store.durations.forget()
    assert await store.durations.ever([trace_id]) == []


async def test_rows_are_bounded_and_go_when_they_are_old(
    store: Store, trace_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "MOST_OWNERS", 2)
    set_clock(store, BEGINNING)
    trace = Trace(store, trace_id)
    place = Channel("rabbit@one", "c:1 -> b", 1, "shop")

    async def rows(resolution: Resolution) -> int:
        its = tables.durations.c.part == resolution.part
        query = select(func.count()).select_from(tables.durations).where(its)
        found = await store._database.read(lambda connection: connection.execute(query))
        return int(found.scalar_one())

    async def handed(*queues: str) -> None:
        await trace.take([Deliver(place, "", (each,), each, False, {}, b"") for each in queues])
        await count(store, random.Random(0))
        await store.durations.forget()

    await handed("a")
    await handed(*"abcdef")
    assert await rows(BY_MINUTE) == await rows(BY_HOUR) == 4  # with those counted together
    assert await store.durations.names(trace_id, BEGINNING, BEGINNING + 1) == {
        OwnerKind.queue: (["a", "b"], 4),
        OwnerKind.service: (["shop"], 0),
    }
    found = await stored(store)
    minute = BEGINNING - BEGINNING % MINUTE
    assert found[OwnerKind.queue, "a", Measured.waiting, minute, HANDED_OVER] == 2
    set_clock(store, BEGINNING + BY_MINUTE.retention + DAY)
    await handed("a")
    assert (await rows(BY_MINUTE), await rows(BY_HOUR)) == (0, 4)
    set_clock(store, BEGINNING + BY_HOUR.retention + DAY)
    await handed("a")
    assert await rows(BY_HOUR) == 0


async def test_places_are_shared_among_users_and_go_to_the_busiest(
    store: Store, trace_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever comes late has the places of one who has more, and nothing goes uncounted."""
    monkeypatch.setattr(counting, "MOST_OWNERS", 6)
    monkeypatch.setattr(counting, "MOST_ROWS", 6)
    set_clock(store, BEGINNING)
    trace = Trace(store, trace_id)

    async def handed(user: str, *queues: str) -> None:
        place = Channel("rabbit@one", f"{user}:1 -> b", 1, user)
        await trace.take([Deliver(place, "", (each,), each, False, {}, b"") for each in queues])
        await count(store, random.Random(0))

    await handed("flood", *(f"own.{number}" for number in range(20)))
    await handed("flood", *["own.busy"] * 3)
    await handed("shop", "orders", "invoices")
    await handed("stock", "stock")
    names = await store.durations.names(trace_id, BEGINNING, BEGINNING + 1)
    queues, others = names[OwnerKind.queue]
    assert {"own.busy", "orders", "invoices", "stock"} < {*queues}
    assert len(queues) == 6
    counts = Counter[bool]()
    for (kind, name, *_, step), times in (await stored(store)).items():
        if (kind, step) == (OwnerKind.queue, HANDED_OVER):
            counts[bool(name)] += times
    assert (counts.total(), counts[False]) == (20 + 3 + 2 + 1, others)
    assert (await stored(store)).total() == (await stored(store, BY_HOUR)).total()
    rows, is_whole = await store.durations.recent([trace_id], BEGINNING)
    assert (len(rows), is_whole) == (6, False)
    assert {"stock", "own.busy"} < {row.name for row in rows}
