"""One loss is one gap, whoever writes it down and however often."""

from __future__ import annotations

import asyncio

import pytest

from app.errors import OutageError
from app.traces.gapwatch import GapWatch
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
        epoch: int | None = None,
    ) -> int:
        await asyncio.sleep(0)
        number = len(self.gaps) + 1
        self.gaps[number] = Gap(number, after_event_id, None, since, None, reason)
        if not self.answers:
            raise OutageError("the connection was lost after the commit")
        return number

    async def close(
        self, gap_id: int, *, before_event_id: int, until: int, epoch: int | None = None
    ) -> None:
        await asyncio.sleep(0)
        gap = self.gaps[gap_id]
        self.gaps[gap_id] = Gap(
            gap_id, gap.after_event_id, before_event_id, gap.since, until, gap.reason
        )


def watch(store: GapStore) -> GapWatch:
    return GapWatch(store, 1)  # type: ignore[arg-type]  # it writes gaps, others read them


async def test_a_loss_that_several_write_at_once_is_one_gap() -> None:
    store = GapStore()
    gaps = watch(store)
    gaps.stored(10, 10)
    await asyncio.gather(gaps.losing("full", 5), gaps.losing("full", 6), gaps.write())
    assert [(gap.since, gap.after_event_id) for gap in store.gaps.values()] == [(5, 10)]
    await asyncio.gather(gaps.ended("full", 0), gaps.write(), gaps.write())
    assert [gap.before_event_id for gap in store.gaps.values()] == [11]
    assert not gaps.is_open


async def test_a_gap_whose_commit_was_in_doubt_is_not_opened_again() -> None:
    store = GapStore()
    gaps = watch(store)
    store.answers = False
    with pytest.raises(OutageError):
        await gaps.losing("full", 5)
    store.answers = True
    gaps.resume(0, 0, list(store.gaps.values()), queued=0)
    await gaps.write()
    assert len(store.gaps) == 1
    assert store.gaps[1].until is not None


async def test_a_gap_ends_after_what_was_queued_when_the_loss_was_over() -> None:
    store = GapStore()
    gaps = watch(store)
    await gaps.lost("off", 5, queued=3)
    gaps.stored(2, 20)
    await gaps.write()
    assert store.gaps[1].until is None
    gaps.stored(1, 21)
    await gaps.write()
    assert store.gaps[1].before_event_id == 22
