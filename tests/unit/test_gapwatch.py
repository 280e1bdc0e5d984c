"""One loss is one gap, whoever writes it down and however often."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from app.errors import OutageError
from app.traces.losses import gapwatch
from app.traces.losses.gapwatch import NEAR_EVENTS, GapWatch
from app.traces.losses.marks import Point
from model.gaps import Gap


class GapStore:
    """The gaps of the store; each call takes a turn of the event loop, as a database does."""

    def __init__(self) -> None:
        self.gaps: dict[int, Gap] = {}
        self.answers = True

    async def open(
        self,
        trace_id: int,
        *,
        after_event_id: int,
        since: int,
        reason: str,
        suspected: bool = False,
        epoch: int | None = None,
    ) -> int:
        await asyncio.sleep(0)
        number = max(self.gaps, default=0) + 1
        self.gaps[number] = Gap(number, after_event_id, None, since, None, reason, suspected)
        if not self.answers:
            raise OutageError("the connection was lost after the commit")
        return number

    async def close(
        self,
        gap_id: int,
        *,
        before_event_id: int,
        until: int,
        epoch: int | None = None,
        extend: bool = False,
    ) -> None:
        await asyncio.sleep(0)
        gap = self.gaps[gap_id]
        assert extend == (gap.before_event_id is not None)
        self.gaps[gap_id] = dataclasses.replace(gap, before_event_id=before_event_id, until=until)

    async def withdraw(self, gap_id: int, *, epoch: int | None = None) -> None:
        await asyncio.sleep(0)
        if not self.answers:
            raise OutageError("the connection was lost before the commit")
        gap = self.gaps.pop(gap_id)
        assert gap.suspected or gap.until is None


def watch(store: GapStore) -> GapWatch:
    return GapWatch(store, 1)  # type: ignore[arg-type]  # it writes gaps, others read them


async def test_a_loss_that_several_write_at_once_is_one_gap() -> None:
    store = GapStore()
    gaps = watch(store)
    gaps.note_stored(10, 10)
    gaps.is_well(Point(10, 5))
    await asyncio.gather(gaps.open("full"), gaps.open("full"), gaps.write())
    assert [(gap.since, gap.after_event_id) for gap in store.gaps.values()] == [(5, 10)]
    await asyncio.gather(gaps.close("full", 0), gaps.write(), gaps.write())
    assert [gap.before_event_id for gap in store.gaps.values()] == [11]
    assert not gaps.is_open


async def test_a_gap_whose_commit_was_in_doubt_is_not_opened_again() -> None:
    store = GapStore()
    gaps = watch(store)
    store.answers = False
    with pytest.raises(OutageError):
        await gaps.open("full")
    store.answers = True
    gaps.resume(0, 0, list(store.gaps.values()), queued=0)
    await gaps.write()
    assert len(store.gaps) == 1
    assert store.gaps[1].until is not None


async def test_a_gap_ends_after_what_was_queued_when_the_loss_was_over() -> None:
    store = GapStore()
    gaps = watch(store)
    await gaps.record("off", queued=3)
    gaps.note_stored(2, 20)
    await gaps.write()
    assert store.gaps[1].until is None
    gaps.note_stored(1, 21)
    await gaps.write()
    assert store.gaps[1].before_event_id == 22


async def test_a_gap_begins_where_capture_was_last_seen_to_work() -> None:
    store = GapStore()
    gaps = watch(store)
    gaps.stand(5, 50)
    gaps.note_stored(10, 15)
    gaps.is_well(Point(12, 120))
    gaps.note_stored(10, 25)
    await gaps.record("off", queued=0)
    assert [(gap.after_event_id, gap.since) for gap in store.gaps.values()] == [(12, 120)]


async def test_a_gap_that_is_open_is_no_sign_that_all_is_well() -> None:
    store = GapStore()
    gaps = watch(store)
    gaps.is_well(Point(12, 120))
    await gaps.open("full")
    gaps.note_stored(10, 25)
    gaps.is_well(Point(25, 250))
    await gaps.open("a policy")
    assert {gap.after_event_id for gap in store.gaps.values()} == {12}


async def test_a_gap_ends_after_what_was_held_back_meanwhile() -> None:
    store = GapStore()
    gaps = watch(store)
    gaps.note_stored(1, 19, held_since=1)
    await gaps.record("a node was killed", queued=0)
    until = store.gaps[1].until
    gaps.note_stored(1, 20, held_since=1)
    await gaps.write()
    assert gaps.is_open
    gaps.note_stored(1, 21, held_since=None)
    await gaps.write()
    assert store.gaps[1].before_event_id == 22
    assert until is None


async def test_a_gap_from_a_clock_that_was_ahead_explains_nothing_that_came_after_it() -> None:
    ahead = 10**16
    gaps = GapWatch(GapStore(), 1)
    gaps.resume(9, ahead, [Gap(1, 3, 7, ahead, ahead, "purged", False)], 0)
    assert gaps.has_one_since(Point(2, ahead - 1))
    assert not gaps.has_one_since(Point(8, 5))


async def test_a_suspected_gap_is_no_proof() -> None:
    store = GapStore()
    gaps = watch(store)
    gaps.suspect("unmatched", 1, 3)
    await gaps.write()
    assert not gaps.is_open
    assert not gaps.has_one_since(Point(0, 0))
    gaps.note_stored(1, 9)
    await gaps.write()
    gap = store.gaps[1]
    assert (gap.after_event_id, gap.before_event_id, gap.suspected) == (3, 10, True)


async def test_suspicions_that_follow_each_other_are_one_gap() -> None:
    store = GapStore()
    gaps = watch(store)
    for begins in (3, 12, 200, 2 * NEAR_EVENTS):
        gaps.suspect("unmatched", 1, begins)
        await gaps.write()
        gaps.note_stored(1, begins + 5)
        await gaps.write()
    assert [(gap.after_event_id, gap.before_event_id) for gap in store.gaps.values()] == [
        (3, 206),
        (2 * NEAR_EVENTS, 2 * NEAR_EVENTS + 6),
    ]


async def test_a_suspicion_is_taken_back_whether_or_not_it_is_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = GapStore()
    gaps = watch(store)
    gaps.suspect("unwritten", 5, 3)
    await gaps.withdraw("unwritten")
    assert not gaps.is_pending
    gaps.suspect("written", 5, 3)
    gaps.suspect("another", 5, 3)
    await gaps.write()
    store.answers = False
    with pytest.raises(OutageError):
        await gaps.withdraw("written")
    assert gaps.is_suspected("written")
    store.answers = True
    await gaps.withdraw("written")
    await gaps.withdraw("written")
    gaps.note_stored(5, 8)
    await gaps.write()
    assert [gap.reason for gap in store.gaps.values()] == ["another"]
    assert "no longer suspected: written" in caplog.text


@pytest.mark.parametrize("stored", [0, 5])
async def test_a_suspicion_of_an_earlier_run_is_taken_back(stored: int) -> None:
    store = GapStore()
    before = watch(store)
    before.suspect("short", 5, 3)
    await before.write()
    before.note_stored(stored, 8)
    await before.write()
    [gap] = store.gaps.values()
    assert (gap.until is None) == (stored == 0)
    gaps = watch(store)
    gaps.resume(8, 100, [gap], queued=5)
    assert gaps.is_suspected("short")
    await gaps.withdraw("short")
    gaps.note_stored(5, 20)
    await gaps.write()
    assert not store.gaps


async def test_a_gap_is_logged_once_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    gaps = watch(GapStore())
    await gaps.open("tracing was off")
    await gaps.open("tracing was off")
    await gaps.close("tracing was off", 0)

    (record,) = caplog.records
    assert record.getMessage().endswith("has a gap: tracing was off")


async def test_what_is_left_out_by_choice_is_no_loss_and_hides_none() -> None:
    store = GapStore()
    gaps = watch(store)
    hole = Gap(7, 0, None, 5, None, "left out", declared=True)
    gaps.resume(10, 100, [hole], queued=0)
    assert (gaps.is_open, gaps.is_pending) == (False, False)
    assert not gaps.covers(Point(10, 100), 0)
    assert not gaps.has_one_since(Point(0, 0))
    await gaps.record("lost inside", 0)
    [lost] = store.gaps.values()
    assert (lost.reason, lost.until is None) == ("lost inside", False)


async def test_it_ends_when_it_is_lifted_and_what_was_queued_is_stored() -> None:
    store = GapStore()
    gaps = watch(store)
    store.gaps[7] = hole = Gap(7, 0, None, 5, None, "left out", declared=True)
    gaps.resume(10, 100, [hole], queued=3, lifted=[hole])
    assert (gaps.is_open, gaps.is_losing("left out"), gaps.has_one_since(Point(0, 0))) == (
        False,
        False,
        False,
    )
    gaps.note_stored(2, 12)
    await gaps.write()
    assert store.gaps[7].until is None
    gaps.note_stored(1, 13)
    await gaps.write()
    assert store.gaps[7].before_event_id == 14
    assert not gaps.is_pending


async def test_a_loss_that_goes_on_is_taken_back_where_all_has_come() -> None:
    store = GapStore()
    gaps = watch(store)
    await gaps.open("overdue", tentative=True)
    assert not gaps.has_one_since(Point(9, 9)), "it explains nothing, as it may be taken back"
    assert (gaps.is_open, gaps.take_new()) == (False, None), "nor is anything unknown by it"
    await gaps.record("purged", 0)
    await gaps.take_back("overdue")
    await gaps.take_back("purged")  # which is over
    assert [gap.reason for gap in store.gaps.values()] == ["purged"]
    assert not gaps.is_losing("overdue")


async def test_from_where_a_loss_that_may_be_taken_back_began_is_told_once_it_is_certain() -> None:
    gaps = watch(GapStore())
    gaps.note_stored(10, 10)
    gaps.is_well(Point(10, 5))
    gaps.note_stored(10, 20)
    await gaps.open("overdue", tentative=True)
    await gaps.close("overdue", 0)
    assert gaps.take_new() == 10
    await gaps.open("overdue again", begins=Point(20, 6), tentative=True)
    gaps.resume(30, 7, [], 0)  # the stream broke off meanwhile
    assert gaps.take_new() == 20


def test_a_new_loss_is_told_once_with_the_event_from_which_on_something_may_be_missing() -> None:
    gaps = watch(GapStore())
    gaps.note_stored(10, 10)
    gaps.is_well(Point(10, 5))
    gaps.note_stored(10, 20)
    gaps.note("lost in between", 0)
    assert (gaps.take_new(), gaps.take_new()) == (10, None)
    gaps.resume(30, 6, [], 0)
    gaps.note("the queue was gone", 0)  # before the stream broke off nothing was missing
    assert gaps.take_new() == 30


@pytest.mark.parametrize(("closed", "begins"), [(None, 10), (31, 10), (30, None)])
def test_a_stored_loss_behind_which_nothing_is_stored_is_new(
    closed: int | None, begins: int | None
) -> None:
    gaps = watch(GapStore())
    gaps.resume(30, 6, [Gap(1, 10, closed, 3, closed and 4, "lost in between")], 0)
    assert gaps.take_new() == begins


async def test_a_loss_that_was_not_stored_when_the_stream_broke_off_again_ends_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, times = GapStore(), iter([5, 9])
    monkeypatch.setattr(gapwatch, "now", lambda: next(times))
    gaps = watch(store)
    await gaps.record("the broker was killed", 10)
    gaps.resume(0, 1, [*store.gaps.values()], 10)
    gaps.note_stored(10, 20)
    await gaps.write()
    assert [(gap.until, gap.before_event_id) for gap in store.gaps.values()] == [(9, 21)]
