from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import ConflictError, NotFoundError
from app.store import Store
from app.store.capture.retention import Retention
from app.store.database import sqlite
from app.stored.capture import Batch, PrunePlan
from app.stored.reading import EventFilter
from app.traces import retention
from app.traces.retention import RetentionLimits, retain
from app.tracker import Policy
from app.tracker.records import Unreadable
from app.tracker.tracker import Bounds, Tracker
from tests.contract.history import BEGINNING, History, omission

EVERYTHING = EventFilter()


async def _stored(store: Store, trace_id: int, seed: int, records: int = 200) -> History:
    history = History(seed=seed)
    for _ in range(records // 20):
        await store.batches.append(trace_id, history.batch(20))
    return history


async def _prune(store: Store, history: History, plan: PrunePlan) -> None:
    gone = history.tracker.forget_before(plan.before_id)
    assert gone == sorted(participant.number for participant in plan.participants)
    await store.retention.prune(plan, history.tracker.checkpoint())


async def _ids(store: Store, vhost: str = "/") -> list[int]:
    return [
        row.id
        for row in (await store.events.find(EventFilter(vhost=vhost), after=0, limit=9999)).items
    ]


@pytest.mark.parametrize("at_most", [None, pytest.param(1, marks=pytest.mark.long(3)), 30, 1000])
async def test_the_newest_events_stay_and_everything_before_goes(
    store: Store, trace_id: int, at_most: int | None
) -> None:
    history = await _stored(store, trace_id, seed=1)
    assert not (await store.traces.list())[0].pruned
    rounds = []
    while plan := await store.retention.plan(trace_id, keep_events=150, limit=at_most):
        rounds.append(plan.events)
        await _prune(store, history, plan)
    assert await _ids(store) == list(range(51, 201))
    assert sum(rounds) == 50
    assert all(0 < events <= (at_most or 50) for events in rounds)
    trace = await store.traces.find("/")
    assert trace is not None
    assert (trace.events, trace.last_event_id, trace.pruned) == (150, 200, True)
    assert await store.events.count(EVERYTHING) == 150


async def test_what_is_too_old_goes_up_to_the_first_that_is_not(
    store: Store, trace_id: int
) -> None:
    history = await _stored(store, trace_id, seed=2)
    time = BEGINNING + 200_000_000
    stays = next(e.reference.id for e in history.events if e.recorded_at >= time)
    assert stays is not None
    plan = await store.retention.plan(trace_id, older_than=time)
    assert plan is not None
    assert (plan.before_id, plan.events) == (stays, stays - 1)
    await _prune(store, history, plan)
    assert await _ids(store) == list(range(stays, 201))
    assert await store.retention.plan(trace_id, older_than=time) is None


@pytest.mark.parametrize("at_most", [None, 5])
async def test_what_is_from_the_future_is_as_old_as_what_came_after_it(
    store: Store, trace_id: int, at_most: int | None
) -> None:
    """The clock was ahead by years, and went back: nobody's days are held up till then."""
    history = await _stored(store, trace_id, seed=2)
    set_ahead = text(
        "UPDATE events SET recorded_at = recorded_at + :years WHERE id BETWEEN 1 AND 20"
    )

    async def set_by(connection: AsyncConnection) -> None:
        await connection.execute(set_ahead, {"years": 10**16})

    await store.events.database.write(set_by)
    first = next(e.recorded_at for e in history.events if e.reference.id == 21)
    assert await store.retention.plan(trace_id, older_than=first, limit=at_most) is None
    time = BEGINNING + 200_000_000
    stays = next(e.reference.id for e in history.events if e.recorded_at >= time)
    while plan := await store.retention.plan(trace_id, older_than=time, limit=at_most):
        await _prune(store, history, plan)
    assert await _ids(store) == list(range(stays or 0, 201))


@pytest.mark.parametrize(
    ("keep", "first"),
    [
        ({}, 61),
        ({"keep_events": 150}, 51),
        ({"keep_events": 20}, 61),
        ({"older_than": BEGINNING + 10**12}, 61),
        ({"older_than": BEGINNING - 10**9}, 1),
    ],
)
@pytest.mark.parametrize("at_most", [None, 25])
async def test_nothing_goes_beyond_an_id_that_is_named(
    store: Store, trace_id: int, keep: dict[str, int], first: int, at_most: int | None
) -> None:
    history = await _stored(store, trace_id, seed=6)
    while plan := await store.retention.plan(trace_id, last_id=60, limit=at_most, **keep):
        await _prune(store, history, plan)
    assert await _ids(store) == list(range(first, 201))


async def test_a_plan_alone_changes_nothing(store: Store, trace_id: int) -> None:
    await _stored(store, trace_id, seed=3)
    plan = await store.retention.plan(trace_id, keep_events=10)
    assert plan is not None
    assert plan.events == 190
    assert await store.retention.plan(trace_id, keep_events=10) == plan
    assert len(await _ids(store)) == 200


@pytest.mark.parametrize(
    "keep", [{"keep_events": 200}, {"keep_events": 10**6}, {"older_than": BEGINNING - 10**9}, {}]
)
async def test_where_nothing_has_to_go_there_is_no_plan(
    store: Store, trace_id: int, keep: dict[str, int]
) -> None:
    assert await store.retention.plan(trace_id, **keep) is None
    await _stored(store, trace_id, seed=4)
    assert await store.retention.plan(trace_id, **keep) is None


@pytest.mark.parametrize("keep_events", [0, 3, 60])
async def test_a_tracker_restored_afterwards_goes_on_as_the_pruned_one(
    store: Store, trace_id: int, keep_events: int
) -> None:
    history = await _stored(store, trace_id, seed=5)
    plan = await store.retention.plan(trace_id, keep_events=keep_events)
    assert plan is not None
    await _prune(store, history, plan)
    restored = await store.checkpoints.restore(trace_id, Bounds().handovers)
    second = Tracker(Policy.channel, Bounds(), restored)
    assert len(second.participants) == len(history.tracker.participants)
    assert second.totals().pending_copies == history.tracker.totals().pending_copies
    for _ in range(150):
        record = history.record()
        history.now += 1
        [expected] = history.tracker.apply(record, history.now)
        [event] = second.apply(record, history.now)
        assert str(event.stamp) == str(expected.stamp)
        assert (event.match, event.participant) == (expected.match, expected.participant)


async def test_participants_without_events_go_and_the_others_know_their_first(
    store: Store, trace_id: int
) -> None:
    history = await _stored(store, trace_id, seed=6)
    plan = await store.retention.plan(trace_id, keep_events=4)
    assert plan is not None
    await _prune(store, history, plan)
    kept = history.events[-4:]
    first = {event.participant: event.reference.id for event in reversed(kept)}
    listed = await store.participants.list(trace_id)
    assert {p.participant: p.first_event_id for p in listed} == first
    assert {p.participant: p.events for p in listed} == {
        number: sum(event.participant == number for event in kept) for number in first
    }
    assert {p.number for p in plan.participants} == (
        {event.participant for event in history.events} - set(first)
    )
    channels = (await store.checkpoints.restore(trace_id, 0)).channels
    assert {channel.participant for channel in channels} == set(first)


@pytest.mark.parametrize("policy", [Policy.user, Policy.connection])
async def test_channels_without_events_go_also_where_their_participant_stays(
    store: Store, policy: Policy
) -> None:
    trace_id = (await store.traces.create("/", policy)).id
    history = History(seed=14, channels=60, policy=policy)
    for _ in range(3):
        for _ in range(5):
            await store.batches.append(trace_id, history.batch(20))
        plan = await store.retention.plan(trace_id, keep_events=30)
        assert plan is not None
        await _prune(store, history, plan)
        last = {event.channel_key: event.reference.id for event in history.events[-30:]}
        restored = await store.checkpoints.restore(trace_id, Bounds().handovers)
        assert {each.key: each.last_event_id for each in restored.channels} == last
        assert len(history.tracker.participants._by_channel) == len(last)
        # Whoever continues from here knows which are the next to go.
        history.tracker = Tracker(policy, Bounds(), restored)
        assert len(history.tracker.participants._by_channel) == len(last)
    # Of the first events' channels only those that acted again are left.
    assert {event.channel_key for event in history.events[:30]} - set(last)
    rows = (await store.events.find(EventFilter(vhost="/"), after=0, limit=9999)).items
    expected = [event.record.channel for event in history.events[-30:]]
    assert [(row.connection, row.channel) for row in rows] == [
        (channel.connection, channel.number) for channel in expected
    ]


async def test_causality_among_what_stays_is_what_it_was(store: Store, trace_id: int) -> None:
    history = await _stored(store, trace_id, seed=7)
    event_id = 190
    before = [row.id for row in (await store.causality.walk(event_id, -1, limit=1000)).items]
    effects = await store.causality.walk(120, 1, limit=1000)
    plan = await store.retention.plan(trace_id, keep_events=100)
    assert plan is not None
    await _prune(store, history, plan)
    causes = await store.causality.walk(event_id, -1, limit=1000)
    assert [row.id for row in causes.items] == [each for each in before if each > 100]
    assert not causes.truncated
    assert await store.causality.walk(120, 1, limit=1000) == effects
    with pytest.raises(NotFoundError):
        await store.events.get(100)


async def test_other_traces_keep_everything(store: Store, trace_id: int) -> None:
    other = await store.traces.create("other", "channel")
    await store.batches.append(other.id, History(seed=8).batch(10))
    history = await _stored(store, trace_id, seed=9, records=40)
    await store.batches.append(other.id, History(seed=10, channels=1).batch(0))
    plan = await store.retention.plan(trace_id, keep_events=0)
    assert plan is not None
    await _prune(store, history, plan)
    assert await _ids(store, "other") == list(range(1, 11))
    assert await _ids(store) == []
    found = (await store.events.find(EventFilter(since=BEGINNING), after=0)).items
    assert [row.id for row in found] == list(range(1, 11))


async def test_gaps_and_unreadable_messages_before_go_along(store: Store, trace_id: int) -> None:
    history = History(seed=11)
    for number in range(4):
        batch = history.batch(10)
        at = batch.events[0].recorded_at
        batch.checkpoint.omissions.append(omission(Unreadable(str(number), "", "", b"", 0, at)))
        await store.batches.append(trace_id, batch)
    closed = [(0, 3), (10, 20), (10, 25)]
    gaps = [
        await store.gaps.open(trace_id, after_event_id=after, since=1, reason="lost")
        for after, _ in closed
    ]
    for gap, (_, before) in zip(gaps, closed, strict=True):
        await store.gaps.close(gap, before_event_id=before, until=2)
    gaps.append(await store.gaps.open(trace_id, after_event_id=1, since=1, reason="open"))
    plan = await store.retention.plan(trace_id, keep_events=20)
    assert plan is not None
    await _prune(store, history, plan)
    assert {gap.id for gap in await store.gaps.newest(trace_id)} == {gaps[2], gaps[3]}
    kept = [int(message.reason) for message in await store.quarantine.newest()]
    times = [history.events[number * 10].recorded_at for number in range(4)]
    assert kept == [number for number in (3, 2, 1, 0) if times[number] > plan.until]


async def test_a_plan_that_was_overtaken_is_refused_and_nothing_goes(
    store: Store, trace_id: int
) -> None:
    history = await _stored(store, trace_id, seed=12, records=100)
    plan = await store.retention.plan(trace_id, keep_events=0)
    assert plan is not None
    await store.batches.append(trace_id, history.batch(30))  # its participants have acted again
    with pytest.raises(ConflictError, match="has gone on"):
        await store.retention.prune(plan, history.tracker.checkpoint())
    assert len(await _ids(store)) == 130
    history.step()
    with pytest.raises(ConflictError, match="between batches"):
        await store.retention.prune(plan, history.tracker.checkpoint())


async def test_retention_of_an_unknown_trace_is_an_error(store: Store) -> None:
    with pytest.raises(NotFoundError):
        await store.retention.plan(99, keep_events=1)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_the_sqlite_file_gives_space_back(
    database_url: str, store: Store, trace_id: int
) -> None:
    history = History(seed=13)
    sizes = []
    for _ in range(3):
        for _ in range(10):
            await store.batches.append(trace_id, _heavy(history))
        sizes.append(_file_bytes(database_url))
        plan = await store.retention.plan(trace_id, keep_events=100)
        assert plan is not None
        await _prune(store, history, plan)
        await store.retention.reclaim()
        sizes.append(_file_bytes(database_url))
    full, pruned = sizes[::2], sizes[1::2]
    assert all(after < before * 0.8 for before, after in zip(full, pruned, strict=True))
    assert full[2] <= full[0] * 1.1


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_pages_that_become_free_are_not_written(
    database_url: str, store: Store, trace_id: int
) -> None:
    history = History(seed=13)
    for _ in range(5):
        await store.batches.append(trace_id, _heavy(history))
    full = _file_bytes(database_url)
    plan = await store.retention.plan(trace_id, keep_events=100)
    assert plan is not None
    await _prune(store, history, plan)
    assert 0 < _log_bytes(database_url) < full / 4


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(("at_most", "parts"), [(8_000, 1), (500, 4), (475, 4)])
async def test_it_gives_back_little_at_a_time_and_in_the_end_all(
    database_url: str,
    store: Store,
    trace_id: int,
    monkeypatch: pytest.MonkeyPatch,
    at_most: int,
    parts: int,
) -> None:
    monkeypatch.setattr(sqlite, "MOST_PAGES", 50)
    monkeypatch.setattr(retention, "AT_MOST", at_most)
    history = History(seed=13)
    for _ in range(10):
        await store.batches.append(trace_id, _heavy(history))
    full, looks, prune = _file_bytes(database_url), list[list[bool]](), Retention.prune
    look = sqlite.Sqlite.reclaim

    async def pruned(*args: Any) -> None:
        await prune(*args)
        looks.append([])

    async def noted(*args: Any) -> bool:
        looks[-1].append(await look(*args))
        return looks[-1][-1]

    monkeypatch.setattr(Retention, "prune", pruned)
    monkeypatch.setattr(sqlite.Sqlite, "reclaim", noted)
    await retain(store.retention, trace_id, history.tracker, RetentionLimits(keep_events=100))
    assert _file_bytes(database_url) < full * 0.8
    assert [len(of_part) for of_part in looks[:-1]] == [1] * (parts - 1)
    assert len(looks[-1]) > 2
    # After the last part it never looks again once there is no more.
    assert looks[-1].index(False) == len(looks[-1]) - 1


async def test_what_is_left_free_is_given_back_where_nothing_has_to_go(
    store: Store, trace_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = await _stored(store, trace_id, seed=15, records=20)
    answers = [True, False]

    async def reclaim(_: Retention) -> bool:
        return answers.pop(0)

    monkeypatch.setattr(Retention, "reclaim", reclaim)
    await retain(store.retention, trace_id, history.tracker, RetentionLimits(keep_events=100))
    assert answers == []


def _heavy(history: History) -> Batch:
    batch = history.batch(200)
    for event in batch.events:
        event.record.properties["padding"] = "x" * 8000
    return batch


def _log_bytes(database_url: str) -> int:
    return Path(f"{database_url.removeprefix('sqlite:///')}-wal").stat().st_size


def _file_bytes(database_url: str) -> int:
    """The file's size once everything in its log has been written to it."""
    path = database_url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return Path(path).stat().st_size
