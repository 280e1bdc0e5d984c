"""Periods of time on both databases: their events counted, and their gaps."""

from __future__ import annotations

from collections import Counter

import pytest
from sqlalchemy import insert

from app.store import Store
from app.store.database.tables import blocks
from app.store.reading import over_time
from app.stored.reading import NO_EVENTS, EventFilter, Histogram
from model.blocks import BLOCK
from model.event import NOTHING_LARGE, Event
from model.words import EventType, Match
from tests.contract.history import History

EVERYTHING = EventFilter()


@pytest.fixture
async def events(store: Store) -> list[Event]:
    """A few hundred events of two virtual hosts, their batches interleaved."""
    histories = {vhost: History(seed=5 + n) for n, vhost in enumerate(("/", "other"))}
    traces = {vhost: await store.traces.create(vhost, "channel") for vhost in histories}
    for vhost in ["/", "other", "/", "/", "other"]:
        await store.batches.append(traces[vhost].id, histories[vhost].batch(60))
    return (await store.events.find(EVERYTHING, after=0, limit=1_000, large=NOTHING_LARGE)).items


async def counted(store: Store, asked: EventFilter, buckets: int = 7) -> Histogram:
    return await store.events.over_time(asked, buckets)


def expected(found: Histogram, events: list[Event]) -> list[tuple[int, int, int]]:
    """Published, received and unmatched of each bucket, counted here."""
    sums: Counter[tuple[int, str]] = Counter()
    for event in events:
        place = (event.recorded_at - found.buckets[0].at) // found.width
        place = max(0, min(len(found.buckets) - 1, place))
        sums[place, event.type.name] += 1
        sums[place, "unmatched"] += event.match is Match.unmatched
    words = ("published", "received", "unmatched")
    return [tuple(sums[n, word] for word in words) for n in range(len(found.buckets))]  # type: ignore[misc]


def shown(found: Histogram) -> list[tuple[int | None, int | None, int | None]]:
    return [(each.published, each.received, each.unmatched) for each in found.buckets]


async def test_every_event_is_counted_where_it_belongs(store: Store, events: list[Event]) -> None:
    middle = sorted(event.recorded_at for event in events)[len(events) // 2]
    asked = {
        EVERYTHING: events,
        EventFilter(vhost="other"): [e for e in events if e.vhost == "other"],
        EventFilter(vhosts=frozenset({"/"})): [e for e in events if e.vhost == "/"],
        EventFilter(type=EventType.received): [e for e in events if e.type is EventType.received],
        EventFilter(since=middle): [e for e in events if e.recorded_at >= middle],
        EventFilter(until=middle): [e for e in events if e.recorded_at < middle],
        EventFilter(since=middle, until=middle + 1): [e for e in events if e.recorded_at == middle],
    }
    for filter, those in asked.items():
        found = await counted(store, filter)
        assert len(found.buckets) <= 7
        assert found.counted_since is None
        assert shown(found) == expected(found, those), filter
        assert sum(each.events or 0 for each in found.buckets) == len(those)


async def test_without_events_there_is_nothing_to_draw(store: Store) -> None:
    assert await store.events.over_time(EVERYTHING, 60) == NO_EVENTS
    await store.traces.create("/", "channel")
    assert await store.events.over_time(EVERYTHING, 60) == NO_EVENTS


async def test_a_value_of_the_index_is_counted_over_any_time(
    store: Store, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(over_time, "MOST_COUNTED", -BLOCK)
    found = await store.events.over_time(EventFilter(conversation="never"), 7)
    assert found.counted_since is None


async def moved(store: Store, by: int) -> None:
    """As if so many ids had been given to events before: move all, by whole blocks."""
    async with store._database._writer.begin() as connection:
        for table, column in (("events", "id"), ("traces", "last_event_id"), ("blocks", "number")):
            step = by // BLOCK if table == "blocks" else by
            await connection.exec_driver_sql(f"UPDATE {table} SET {column} = {column} + {step}")


async def test_of_very_many_the_older_are_estimated_where_all_are_asked_for(
    store: Store, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = events[0]
    await moved(store, 3 * BLOCK)
    hour = 3_600_000_000
    async with store._database._writer.begin() as connection:
        rows = [
            {"number": n, "earliest": first.recorded_at - (3 - n) * hour,
             "latest": first.recorded_at - (2 - n) * hour}
            for n in range(3)
        ]  # fmt: skip
        await connection.execute(insert(blocks), rows)
        # The oldest event is the first of them all.
        await connection.exec_driver_sql(
            f"UPDATE events SET id = 1, recorded_at = {first.recorded_at - 3 * hour}"
            f" WHERE id = {first.id + 3 * BLOCK}"
        )
    monkeypatch.setattr(over_time, "MOST_COUNTED", 1)
    found = await counted(store, EVERYTHING, 4)
    assert found.counted_since is not None
    assert [each.published is None for each in found.buckets[:3]] == [True] * 3
    assert sum(each.events or 0 for each in found.buckets) == pytest.approx(
        3 * BLOCK + len(events), rel=0.001
    )
    assert found.buckets[0].events == pytest.approx(BLOCK * found.width / hour, rel=0.01)
    of_some = await counted(store, EventFilter(type=EventType.published), 4)
    assert of_some.buckets[0].events is None
    assert of_some.counted_since == found.counted_since
    of_one = await counted(store, EventFilter(vhost="other"), 4)
    assert sum(each.events or 0 for each in of_one.buckets) <= len(events)


async def test_a_periods_gaps_are_those_of_its_time_or_between_its_events(
    store: Store, events: list[Event]
) -> None:
    trace = await store.traces.find("/")
    assert trace is not None
    mine = [event for event in events if event.vhost == "/"]
    before, after = mine[20], mine[21]
    begin, end = before.recorded_at, after.recorded_at
    gap = await store.gaps.open(trace.id, after_event_id=before.id, since=begin, reason="away")
    whole = await store.periods.of(trace.id, None, None)
    assert (whole.first, whole.last) == (mine[0].id, mine[-1].id)
    assert whole.oldest_at == mine[0].recorded_at
    assert [each.id for each in whole.gaps] == [gap]
    await store.gaps.close(gap, before_event_id=after.id, until=end)

    async def found(since: int | None, until: int | None) -> list[int]:
        return [each.id for each in (await store.periods.of(trace.id, since, until)).gaps]

    assert await found(begin - 5, begin) == []
    assert await found(None, begin + 1) == [gap]
    assert await found(end, None) == []
    assert await found(end + 10**12, end + 2 * 10**12) == []
    early = await store.gaps.open(
        trace.id, after_event_id=mine[2].id, since=end + 10**12, reason="by another clock"
    )
    await store.gaps.close(early, before_event_id=mine[3].id, until=end + 10**12 + 1)
    assert await found(mine[0].recorded_at, mine[10].recorded_at) == [early]


async def test_a_period_without_events_has_no_ends(store: Store, events: list[Event]) -> None:
    trace = await store.traces.find("/")
    assert trace is not None
    period = await store.periods.of(trace.id, 1, 2)
    assert (period.first, period.last, period.gap_count) == (None, None, 0)
