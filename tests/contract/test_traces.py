from __future__ import annotations

import pytest

from app.errors import ConflictError, LeaseLostError, NotFoundError
from app.store import Store
from app.tracker.taken import ALL, make_selection
from model.gaps import Gap
from tests.contract.history import History


async def test_a_trace_is_made_once(store: Store) -> None:
    made = await store.traces.create("/", "connection")
    assert (made.vhost, made.policy, made.wanted, made.events) == ("/", "connection", True, 0)
    assert (made.last_event_id, made.checkpoint) == (0, None)
    assert await store.traces.create("/", "connection") == made
    assert await store.traces.find("/") == made
    assert await store.traces.find("other") is None


async def test_the_policy_is_fixed_once_there_are_events(store: Store) -> None:
    made = await store.traces.create("/", "channel")
    changed = await store.traces.create("/", "user")
    assert (changed.id, changed.policy) == (made.id, "user")
    await store.batches.append(made.id, History(seed=1).batch(1))
    with pytest.raises(ConflictError, match="one participant for each user"):
        await store.traces.create("/", "channel")
    assert (await store.traces.create("/", "user")).events == 1


async def test_traces_are_listed_by_name_with_their_numbers(store: Store) -> None:
    for vhost in ("b", "/", "ä"):
        await store.traces.create(vhost, "channel")
    history = History(seed=2)
    b = await store.traces.find("b")
    assert b is not None
    await store.batches.append(b.id, history.batch(50))
    assert sorted(trace.vhost for trace in await store.traces.list()) == ["/", "b", "ä"]
    assert [trace.vhost for trace in await store.traces.list({"b", "/", "none"})] == ["/", "b"]
    [listed] = await store.traces.list({"b"})
    assert (listed.events, listed.last_event_id) == (50, 50)
    assert listed.checkpoint == history.tracker.checkpoint().state
    assert listed.participants == len(history.tracker.participants)
    assert listed.pending_copies == history.tracker.totals().pending_copies


async def test_what_is_wanted_is_kept(store: Store, trace_id: int) -> None:
    await store.traces.set_wanted(trace_id, False)
    assert [trace.wanted for trace in await store.traces.list()] == [False]
    with pytest.raises(NotFoundError):
        await store.traces.set_wanted(99, True)


async def test_the_newest_event_is_that_of_all_traces(store: Store) -> None:
    assert await store.events.last_id() == 0
    for number, vhost in enumerate(("a", "b")):
        trace = await store.traces.create(vhost, "channel")
        await store.batches.append(trace.id, History(seed=number).batch(4))
    assert await store.events.last_id() == 8


async def test_gaps_are_kept_and_closed(store: Store, trace_id: int) -> None:
    first = await store.gaps.open(trace_id, after_event_id=0, since=5, reason="before")
    second = await store.gaps.open(trace_id, after_event_id=7, since=9, reason="after 7")
    await store.gaps.close(first, before_event_id=3, until=6)
    await store.gaps.close(first, before_event_id=30, until=60)  # it ended the first time
    assert await store.gaps.newest(trace_id) == [
        Gap(first, 0, 3, 5, 6, "before"),
        Gap(second, 7, None, 9, None, "after 7"),
    ]
    assert [gap.id for gap in await store.gaps.newest(trace_id, limit=1)] == [second]
    with pytest.raises(NotFoundError, match="no gap has the number 99"):
        await store.gaps.close(99, before_event_id=1, until=1)


async def test_what_is_suspected_or_open_is_withdrawn_and_nothing_else(
    store: Store, trace_id: int
) -> None:
    sure = await store.gaps.open(trace_id, after_event_id=0, since=5, reason="lost")
    await store.gaps.close(sure, before_event_id=9, until=6)
    overdue = await store.gaps.open(trace_id, after_event_id=0, since=5, reason="late")
    doubt = await store.gaps.open(
        trace_id, after_event_id=0, since=5, reason="short", suspected=True
    )
    epoch = await store.leases.take(trace_id, None)
    with pytest.raises(LeaseLostError):
        await store.gaps.withdraw(doubt, epoch=epoch - 1)
    for gap in (sure, doubt, doubt, overdue, 99):
        await store.gaps.withdraw(gap, epoch=epoch)
    assert [gap.id for gap in await store.gaps.newest(trace_id)] == [sure]
    assert [gap.id for gap in await store.gaps.between(trace_id, 1, 9)] == [sure]


@pytest.mark.parametrize(
    ("after", "before", "spans"),
    [
        # (from, to) of an answer, and whether something between the two may be missing
        (10, 11, {(5, 10): False, (10, 11): True, (5, 20): True, (11, 20): False}),
        (0, 1, {(1, 5): False}),
        (10, 15, {(5, 11): True, (12, 13): True, (14, 20): True, (15, 20): False, (5, 10): False}),
        (10, None, {(5, 10): False, (5, 11): True, (100, 200): True}),
    ],
)
async def test_an_answer_knows_the_gaps_it_spans(
    store: Store, trace_id: int, after: int, before: int | None, spans: dict[tuple[int, int], bool]
) -> None:
    gap = await store.gaps.open(trace_id, after_event_id=after, since=1, reason="lost")
    if before is not None:
        await store.gaps.close(gap, before_event_id=before, until=2)
    other = await store.traces.create("other", "channel")
    for (first, last), missing in spans.items():
        found = [each.id for each in await store.gaps.between(trace_id, first, last)]
        assert found == [gap] * missing, (first, last)
        assert await store.gaps.between(trace_id, last, first) == (
            await store.gaps.between(trace_id, first, last)
        )
        assert await store.gaps.between(other.id, first, last) == []


async def test_the_store_answers(store: Store) -> None:
    await store.ping()


async def test_whether_bodies_are_taken_may_change_at_any_time(store: Store) -> None:
    made = await store.traces.create("/", "channel")
    await store.batches.append(made.id, History(seed=1).batch(1))
    assert (await store.traces.create("/", "channel", bodies=False)).bodies is False
    [listed] = await store.traces.list()
    assert (made.bodies, listed.bodies, listed.events) == (True, False, 1)


async def test_what_is_left_out_is_a_declared_gap_from_the_last_event_on(store: Store) -> None:
    made = await store.traces.create("/", "channel")
    assert made.taken == ALL
    await store.batches.append(made.id, History(seed=3).batch(7))
    some = make_selection(["", "a.#"], None)
    changed = await store.traces.create("/", "channel", selection=some)
    assert changed.taken == some
    found = await store.traces.find("/")
    assert found is not None
    assert found.taken == some
    await store.traces.create("/", "channel", selection=some)  # as it is: nothing new
    [hole] = await store.gaps.open_declared(made.id)
    assert (hole.after_event_id, hole.before_event_id, hole.until) == (7, None, None)
    assert (hole.reason, hole.suspected, hole.declared) == (some.sentence, False, True)
    assert await store.gaps.newest(made.id) == [hole]
    assert await store.gaps.between(made.id, 7, 8) == [hole]
    assert await store.gaps.between(made.id, 1, 7) == []
    period = await store.periods.of(made.id, None, None)
    assert period.gaps == [hole]

    await store.traces.create("/", "channel", selection=make_selection(["b"], ["c"]))
    assert [gap.declared for gap in await store.gaps.open_declared(made.id)] == [True, True]
    await store.gaps.close(hole.id, before_event_id=8, until=9)
    await store.traces.create("/", "channel")
    [last] = await store.gaps.open_declared(made.id)  # until the trace runs so
    await store.gaps.close(last.id, before_event_id=8, until=9)
    assert await store.gaps.open_declared(made.id) == []
    back = await store.traces.find("/")
    assert back is not None
    assert back.taken == ALL
