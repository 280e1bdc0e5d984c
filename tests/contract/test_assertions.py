"""Assertions of a trace, what came of them, and what the webhook is told, on every store."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from msgspec import structs

from app.errors import BadRequestError, NotFoundError
from app.store import Store
from app.store.watch import assertions
from app.stored.assertions import (
    MOST_A_MINUTE,
    JudgingStep,
    NewViolation,
    ViolationFilter,
    ViolationKind,
    WebhookState,
)
from model.times import MINUTE
from tests.contract.asserting import hold
from tests.contract.naming import NamingHistory

EVERY = ViolationFilter()


async def names(store: Store) -> list[tuple[str, str]]:
    return [(each.name, each.text) for each in await store.assertions.list()]


def found(*events: int) -> tuple[NewViolation, ...]:
    return tuple(
        NewViolation(
            event=event,
            last_id=event + 5,
            root=None,
            kind=ViolationKind.overdue,
            type="order",
            recorded_at=event * 1_000,
            sentence=f"event {event} led to nothing",
        )
        for event in events
    )


def judged(before: int, until: int, *events: int, held: int = 0) -> JudgingStep:
    return JudgingStep(
        name="a", text="1", before=before, judged_id=until, held=held, violations=found(*events)
    )


async def violated(store: Store, asked: ViolationFilter = EVERY, **page: int) -> list[int]:
    return [each.event for each in await store.violations.list(asked, **page)]


async def test_assertions_stand_in_the_order_in_which_they_were_set(
    store: Store, trace_id: int
) -> None:
    await store.assertions.set(trace_id, dict.fromkeys("cab", "1"), "ann")
    await hold(store, trace_id, "a", "2", "bob")
    assert await names(store) == [("c", "1"), ("a", "2"), ("b", "1")]
    await store.assertions.set(trace_id, {"b": "1", "z": "1"}, "bob")
    assert await names(store) == [("b", "1"), ("z", "1")]
    assert [each.set_by for each in await store.assertions.list()] == ["ann", "bob"]
    await store.assertions.remove(trace_id, "b")
    with pytest.raises(NotFoundError):
        await store.assertions.remove(trace_id, "b")
    with pytest.raises(NotFoundError):
        await store.assertions.set(99, {"a": "1"}, "ann")


async def test_only_those_of_visible_virtual_hosts_are_listed(store: Store, trace_id: int) -> None:
    other = (await store.traces.create("other", "channel")).id
    await hold(store, trace_id, "a", "1", "ann")
    await hold(store, other, "a", "1", "ann")
    seen = await store.assertions.list({"other"})
    assert [each.vhost for each in seen] == ["other"]
    assert [each.trace_id for each in await store.assertions.of_traces([trace_id])] == [trace_id]
    assert await store.assertions.of_traces([]) == await store.assertions.list(set()) == []


async def test_one_is_judged_from_the_next_event_on_and_goes_on_when_it_is_set_again(
    store: Store, trace_id: int
) -> None:
    ids = await store.batches.append(trace_id, NamingHistory(seed=1).batch(10))
    await hold(store, trace_id, "a", "1", "ann")
    (first,) = await store.assertions.list()
    assert (first.from_event_id, first.judged_id) == (ids[-1] + 1, ids[-1])
    assert await store.assertions.note_judgement(trace_id, judged(ids[-1], 50, held=3))
    await hold(store, trace_id, "a", "1", "bob")
    await store.assertions.set(trace_id, {"b": "1", "a": "1"}, "bob")
    (again,) = [each for each in await store.assertions.list() if each.name == "a"]
    assert (again.judged_id, again.held, again.set_by) == (50, 3, "ann")
    await hold(store, trace_id, "a", "2", "bob")
    (anew,) = [each for each in await store.assertions.list() if each.name == "a"]
    assert (anew.judged_id, anew.held) == (ids[-1], 0)


async def test_there_is_a_bound(
    store: Store, trace_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assertions, "MOST_ASSERTIONS", 3)
    with pytest.raises(BadRequestError, match="at most 3"):
        await store.assertions.set(trace_id, dict.fromkeys("abcd", "1"), "ann")
    assert await names(store) == []
    await store.assertions.set(trace_id, dict.fromkeys("abc", "1"), "ann")


async def test_what_is_judged_twice_from_one_place_is_stored_once(
    store: Store, trace_id: int
) -> None:
    await hold(store, trace_id, "a", "1", "ann")
    looks = [
        store.assertions.note_judgement(trace_id, judged(0, 20, 7, 9, held=5)) for _ in range(3)
    ]
    assert sorted(await asyncio.gather(*looks)) == [False, False, True]
    (one,) = await store.assertions.list()
    assert (one.judged_id, one.held, one.violated) == (20, 5, 2)
    assert await violated(store) == [9, 7]
    other = JudgingStep(name="a", text="2", before=20, judged_id=30, violations=found(21))
    assert not await store.assertions.note_judgement(trace_id, other)
    assert await violated(store) == [9, 7]


async def test_an_event_violates_an_assertion_of_a_name_once(store: Store, trace_id: int) -> None:
    await hold(store, trace_id, "a", "1", "ann")
    await store.assertions.note_judgement(trace_id, judged(0, 20, 7))
    await store.assertions.remove(trace_id, "a")
    await hold(store, trace_id, "a", "1", "ann")
    await store.assertions.note_judgement(trace_id, judged(0, 20, 7, 8))
    assert await violated(store) == [8, 7]


async def test_an_event_that_several_show_to_violate_is_stored_once(
    store: Store, trace_id: int
) -> None:
    await hold(store, trace_id, "a", "1", "ann")
    assert await store.assertions.note_judgement(trace_id, judged(0, 20, 7, 8, 7))
    assert await violated(store) == [8, 7]
    (one,) = await store.assertions.list()
    assert one.violated == 2


async def test_violations_are_listed_newest_first_a_page_at_a_time(
    store: Store, trace_id: int
) -> None:
    other = (await store.traces.create("other", "channel")).id
    for each in (trace_id, other):
        await hold(store, each, "a", "1", "ann")
    await store.assertions.note_judgement(trace_id, judged(0, 20, 7, 9))
    await store.assertions.note_judgement(other, judged(0, 20, 8))
    page = await store.violations.list(EVERY, limit=2)
    assert [(each.vhost, each.event) for each in page] == [("other", 8), ("/", 9)]
    assert await violated(store, before_id=page[-1].id) == [7]
    assert await violated(store, ViolationFilter(vhosts=frozenset({"/"}))) == [9, 7]
    assert await violated(store, ViolationFilter(vhosts=frozenset({"/"}), vhost="other")) == []
    assert await violated(store, ViolationFilter(assertion="b")) == []
    assert await violated(store, ViolationFilter(kind=ViolationKind.storm)) == []
    at = page[0].found_at
    assert await violated(store, ViolationFilter(since=at)) == [8]
    assert await violated(store, ViolationFilter(until=at)) == [9, 7]


async def test_those_of_some_events_are_of_any_assertion_and_of_their_trace_alone(
    store: Store, trace_id: int
) -> None:
    other = (await store.traces.create("other", "channel")).id
    for each in (trace_id, other):
        for name in "ba":
            await hold(store, each, name, "1", "ann")
            step = structs.replace(judged(0, 2000, *range(1, 1500)), name=name)
            await store.assertions.note_judgement(each, step)
    found = await store.violations.of_events(trace_id, [1200, 3, 5000])
    assert [(each.vhost, each.event, each.assertion) for each in found] == [
        ("/", event, name) for event in (3, 1200) for name in "ab"
    ]
    assert await store.violations.of_events(trace_id, []) == []


async def test_one_is_not_complete_if_a_gap_turned_up_where_it_was_looked_for(
    store: Store, trace_id: int
) -> None:
    await hold(store, trace_id, "a", "1", "ann")
    await store.assertions.note_judgement(trace_id, judged(0, 40, 10, 20, 30))

    async def complete() -> list[bool]:
        return [each.complete for each in await store.violations.list(EVERY)][::-1]

    assert await complete() == [True, True, True]
    gap = await store.gaps.open(trace_id, after_event_id=15, since=1, reason="lost")
    assert await complete() == [True, False, False]
    await store.gaps.close(gap, before_event_id=25, until=2)
    assert await complete() == [True, False, True]


async def test_the_newest_violations_are_kept(
    store: Store, trace_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assertions, "MOST_VIOLATIONS", 3)
    await hold(store, trace_id, "a", "1", "ann")
    await store.assertions.note_judgement(trace_id, judged(0, 20, 7, 9))
    await store.assertions.note_judgement(trace_id, judged(20, 30, 21, 22))
    assert await violated(store) == [22, 21, 9]
    assert (await store.assertions.list())[0].violated == 4


async def test_one_that_is_violated_often_removes_none_of_others(
    store: Store, trace_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assertions, "MOST_VIOLATIONS", 6)
    for name in "abc":
        await hold(store, trace_id, name, "1", "ann")
    await store.assertions.note_judgement(trace_id, of("a", 0, 1), WebhookState.due)
    await store.assertions.note_judgement(trace_id, of("b", 0, 1, 2, 3), WebhookState.due)
    await store.assertions.note_judgement(trace_id, of("c", 0, *range(1, 10)), WebhookState.due)
    kept = [(each.assertion, each.event) for each in await store.violations.list(EVERY)]
    assert sorted(kept) == [("a", 1), ("b", 2), ("b", 3), ("c", 8), ("c", 9)]
    await store.assertions.note_judgement(trace_id, of("c", 9, *range(10, 20)), WebhookState.due)
    assert len([each for each in await store.violations.list(EVERY) if each.assertion != "c"]) == 3


async def test_a_due_violation_is_claimed_by_one_and_again_when_that_one_is_late(
    store: Store, trace_id: int
) -> None:
    await hold(store, trace_id, "a", "1", "ann")
    await store.assertions.note_judgement(trace_id, judged(0, 20, 7, 9), WebhookState.due)
    now = (await store.violations.list(EVERY))[0].found_at
    both = await asyncio.gather(*(store.violations.claim(now, now + 10, limit=5) for _ in range(2)))
    assert [each.first.event for claimed in both for each in claimed] == [7, 9]
    assert await store.violations.claim(now + 9, now + 20, limit=5) == []
    again = await store.violations.claim(now + 10, now + 20, limit=1)
    assert [each.first.event for each in again] == [7]
    # The clock was ahead by a year when it was to be told again, and is not any more.
    [late] = await store.violations.claim(now - 10**13, now, limit=1)
    assert late.first.event == 9


async def test_what_came_of_telling_the_webhook_stays_known(store: Store, trace_id: int) -> None:
    await hold(store, trace_id, "a", "1", "ann")
    await store.assertions.note_judgement(trace_id, judged(0, 9, 7))
    await store.assertions.note_judgement(trace_id, judged(9, 20, 10, 11, 12), WebhookState.due)
    at = (await store.violations.list(EVERY))[0].found_at
    ten, eleven, twelve = await store.violations.claim(at, at, limit=9)
    await store.violations.note_notification(ten, moment=at)
    await store.violations.note_notification(eleven, moment=at, error="503", next_at=at + 5)
    await store.violations.note_notification(twelve, moment=at, error="timed out")
    await store.violations.note_notification(
        ten, moment=at, error="late"
    )  # of one that is delivered: nothing
    states = {
        each.id: (each.delivery, each.attempts, each.error, each.delivered_at)
        for each in await store.violations.list(EVERY)
    }
    assert states[ten.first.id] == (WebhookState.delivered, 1, None, at)
    assert states[eleven.first.id] == (WebhookState.due, 1, "503", None)
    assert states[twelve.first.id] == (WebhookState.given_up, 1, "timed out", None)
    assert await store.violations.deliveries() == dict.fromkeys(WebhookState, 1)
    [again] = await store.violations.claim(at + 5, at + 6, limit=9)
    assert again.first.id == eleven.first.id


def of(name: str, before: int, *events: int) -> JudgingStep:
    return msgspec.structs.replace(judged(before, max(events), *events), name=name)


async def test_of_many_violations_of_a_minute_a_summary_tells(store: Store, trace_id: int) -> None:
    for name in "ab":
        await hold(store, trace_id, name, "1", "ann")
    for before in range(0, 5_000, 500):
        more = of("a", before, *range(before + 1, before + 501))
        assert await store.assertions.note_judgement(trace_id, more, WebhookState.due)
    await store.assertions.note_judgement(trace_id, of("b", 0, 7), WebhookState.due)
    stored = await store.violations.list(EVERY, limit=10_000)
    assert len(stored) == 5_001
    minutes = {each.found_at // MINUTE for each in stored}

    now = max(each.found_at for each in stored)
    first = await store.violations.claim(now, now + 1, limit=2)
    assert [each.first.assertion for each in first] == ["a", "b"], "each in its turn"
    at = now + 2 * MINUTE
    requests, told = 0, 0
    while claimed := await store.violations.claim(at, at + MINUTE, limit=4):
        for each in claimed:
            await store.violations.note_notification(each, moment=at)
        requests += len(claimed)
        told += sum(each.count for each in claimed)
    assert told == 5_001
    assert requests <= 1 + len(minutes) * (MOST_A_MINUTE + 1)
    assert await store.violations.deliveries() == {WebhookState.delivered: 5_001}


async def test_a_summary_that_is_not_taken_stays_the_same(store: Store, trace_id: int) -> None:
    await hold(store, trace_id, "a", "1", "ann")
    await store.assertions.note_judgement(trace_id, of("a", 0, *range(1, 101)), WebhookState.due)
    found = await store.violations.list(EVERY)
    minute = found[0].found_at // MINUTE
    over = (minute + 1) * MINUTE
    before = await store.violations.claim(over - 1, over + MINUTE, limit=99)
    assert [each.count for each in before] == [1] * MOST_A_MINUTE, "the minute is not over"
    [summary] = await store.violations.claim(over, over, limit=99)
    assert (summary.count, summary.last) == (90, found[0].id)
    await store.violations.note_notification(summary, moment=over, error="503", next_at=over + 5)
    assert await store.violations.claim(over + 4, over + 9, limit=99) == []
    [again] = await store.violations.claim(over + 5, over + 9, limit=99)
    assert (again.first.id, again.count, again.last) == (summary.first.id, 90, summary.last)
    await store.violations.note_notification(again, moment=over, error="503")
    counted = {WebhookState.due: MOST_A_MINUTE, WebhookState.given_up: 90}
    assert await store.violations.deliveries() == counted


async def test_assertions_take_turns(store: Store, trace_id: int) -> None:
    for number, name in enumerate("abc"):
        await hold(store, trace_id, name, "1", "ann")
        its = of(name, 0, *range(1 + 10 * number, 9 + 10 * number))
        await store.assertions.note_judgement(trace_id, its, WebhookState.due)
    now = (await store.violations.list(EVERY))[0].found_at
    claimed = await store.violations.claim(now, now + 1, limit=6)
    assert [each.first.assertion for each in claimed] == [*"abcabc"]


async def test_what_another_text_of_the_name_found_hides_nothing(
    store: Store, trace_id: int
) -> None:
    await hold(store, trace_id, "a", "1", "ann")
    [set_first] = await store.assertions.list()
    assert await store.assertions.note_judgement(trace_id, judged(set_first.judged_id, 50, 3, 4))
    await hold(store, trace_id, "a", "2", "ann")
    [held] = await store.assertions.list()
    again = msgspec.structs.replace(judged(held.judged_id, held.judged_id + 1, 4, 5), text="2")
    late = msgspec.structs.replace(judged(0, 60, 3), text="3")
    assert not await store.assertions.note_judgement(trace_id, late)  # of an assertion that is gone
    assert await store.assertions.note_judgement(trace_id, again)
    found = await store.violations.list(EVERY)
    assert {(each.event, each.text) for each in found} == {(3, "1"), (4, "2"), (5, "2")}
    [held] = await store.assertions.list()
    assert held.violated == 2


async def test_a_gap_that_is_found_later_makes_what_rests_on_it_incomplete(
    store: Store, trace_id: int
) -> None:
    await hold(store, trace_id, "a", "1", "ann")
    kinds = (ViolationKind.unpreceded, ViolationKind.concurrent, ViolationKind.overdue)
    new = [
        msgspec.structs.replace(one, kind=kind, root=30)
        for one, kind in zip(found(50, 51, 52), kinds, strict=True)
    ]
    new[2] = msgspec.structs.replace(new[2], root=None)
    [held] = await store.assertions.list()
    what = msgspec.structs.replace(judged(held.judged_id, 60), violations=tuple(new))
    assert await store.assertions.note_judgement(trace_id, what)

    async def complete() -> list[bool]:
        return [each.complete for each in await store.violations.list(EVERY)][::-1]

    assert await complete() == [True, True, True]
    gap = await store.gaps.open(trace_id, after_event_id=10, since=1, reason="lost")
    await store.gaps.close(gap, before_event_id=20, until=2)
    assert await complete() == [False, True, True]  # what led to it may be lost
    gap = await store.gaps.open(trace_id, after_event_id=35, since=3, reason="lost")
    await store.gaps.close(gap, before_event_id=36, until=4)
    assert await complete() == [False, False, True]
    await store.gaps.open(trace_id, after_event_id=53, since=5, reason="lost")
    assert await complete() == [False, False, False]
