"""Marks that do not come bound a loss between two known events."""

from __future__ import annotations

import pytest

from app.errors import OutageError
from app.traces.losses.marks import Mark, Marks, Point


class Publisher:
    """A broker that takes marks, unless ``blocked``."""

    def __init__(self) -> None:
        self.taken: list[Mark] = []
        self.blocked = False
        self.closed = False

    async def publish(self, series: str, number: int) -> None:
        self.taken.append((series, number))
        if self.blocked:
            raise OutageError("blocked")

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
def publisher() -> Publisher:
    return Publisher()


async def published(marks: Marks, publisher: Publisher, count: int) -> list[Mark]:
    for number in range(count):
        await marks.publish([publisher], Point(0, number))
    return publisher.taken[-count:]


async def test_marks_that_all_come_prove_nothing_missing(publisher: Publisher) -> None:
    marks = Marks()
    one, two, three = await published(marks, publisher, 3)
    assert marks.loss([one]) is None
    marks.note_stored([one], Point(10, 1))
    assert marks.loss([two, three]) is None
    marks.note_stored([two, three], Point(20, 2))
    assert marks.overdue(limit=1_000) is None


async def test_a_missing_mark_bounds_the_loss_by_the_last_one_stored(publisher: Publisher) -> None:
    marks = Marks()
    one, two, _, four = await published(marks, publisher, 4)
    marks.note_stored([one], Point(10, 1))
    marks.note_stored([two], Point(20, 2))
    assert marks.loss([four]) == Point(20, 2)
    assert marks.loss([four]) == Point(20, 2), "it is told until that is stored"
    marks.note_stored([four], Point(30, 3))
    assert marks.loss([]) is None


async def test_a_mark_that_waited_in_the_queue_bounds_a_loss_by_when_it_was_published(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([100, 200, 300])
    monkeypatch.setattr("app.traces.losses.marks.now", lambda: next(times))
    marks = Marks()
    one, _, three = await published(marks, publisher, 3)
    marks.note_stored([one], Point(10, 900))
    assert marks.loss([three]) == Point(10, 100)


async def test_the_first_mark_is_missed_too(publisher: Publisher) -> None:
    marks = Marks()
    _, two = await published(marks, publisher, 2)
    assert marks.loss([two]) == Point(0, 0)


async def test_a_mark_that_comes_again_changes_nothing(publisher: Publisher) -> None:
    marks = Marks()
    one, two, three = await published(marks, publisher, 3)
    marks.note_stored([one, two], Point(10, 1))
    assert marks.loss([one, two, three]) is None


async def test_a_mark_in_doubt_is_never_missed(publisher: Publisher) -> None:
    now = [0.0]
    marks = Marks(lambda: now[0])
    (one,) = await published(marks, publisher, 1)
    marks.note_stored([one], Point(10, 1))
    publisher.blocked = True
    (doubtful,) = await published(marks, publisher, 1)
    assert marks.trouble == "blocked"
    publisher.blocked = False
    assert await published(marks, publisher, 1) == [doubtful], "not again at once"
    now[0] += 1.5
    (new,) = await published(marks, publisher, 1)
    assert new[0] != doubtful[0]
    assert new[1] == 1
    assert marks.loss([new]) is None
    assert marks.loss([doubtful, new]) is None
    assert marks.trouble is None


async def test_a_mark_that_the_broker_took_and_that_does_not_come_is_overdue(
    publisher: Publisher,
) -> None:
    marks = Marks()
    await marks.publish([publisher], Point(0, 5))
    marks.note_stored(publisher.taken[-1:], Point(10, 6))
    await marks.publish([publisher], Point(10, 100))
    assert marks.overdue(limit=100) is None
    assert marks.overdue(limit=101) == Point(10, 6)
    marks.note_stored(publisher.taken[-1:], Point(20, 200))
    assert marks.overdue(limit=1_000) is None


async def test_overdue_ones_have_come_once_the_last_of_them_has(publisher: Publisher) -> None:
    marks = Marks()
    one, two, three = await published(marks, publisher, 3)
    assert marks.have_come() is None, "none was overdue"
    assert marks.overdue(limit=10**18) == Point(0, 0)
    marks.note_stored([one, two], Point(10, 1))
    assert marks.have_come() is False
    marks.note_stored([three], Point(10, 1))
    assert marks.have_come() is True
    assert marks.have_come() is None


async def test_of_overdue_ones_of_a_series_in_doubt_nobody_knows(publisher: Publisher) -> None:
    marks = Marks()
    await published(marks, publisher, 1)
    assert marks.overdue(limit=10**18) is not None
    publisher.blocked = True
    await published(marks, publisher, 1)  # which ends the series
    assert marks.have_come() is None


async def test_one_that_comes_before_the_broker_confirms_it_is_not_overdue(
    publisher: Publisher,
) -> None:
    marks = Marks()
    (one,) = await published(marks, publisher, 1)
    marks.note_stored([one, (one[0], 2)], Point(10, 1))
    await marks.publish([publisher], Point(10, 2))
    assert marks.overdue(limit=1_000) is None


async def test_each_node_has_its_own_series() -> None:
    marks, here, there = Marks(), Publisher(), Publisher()
    await marks.publish([here, there], Point(0, 0))
    await marks.publish([here, there], Point(0, 1))
    marks.note_stored([*here.taken, there.taken[0]], Point(10, 2))
    await marks.publish([here, there], Point(10, 3))
    assert marks.loss(here.taken[-1:]) is None
    assert marks.loss(there.taken[-1:]) == Point(10, 2)
    await marks.close()
    assert here.closed
    assert there.closed


async def test_marks_of_an_earlier_process_are_not_judged(publisher: Publisher) -> None:
    marks = Marks()
    await published(marks, publisher, 1)
    assert marks.loss([("another", 7)]) is None


async def test_a_mark_that_came_says_until_when_all_is_stored(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([1_000, 2_000, 3_000, 4_000])
    monkeypatch.setattr("app.traces.losses.marks.now", lambda: next(times))
    marks = Marks()
    one, two, _ = await published(marks, publisher, 3)
    assert marks.settled is None
    marks.note_stored([one, two], Point(10, 1))
    assert marks.settled == 2_000
    other = Publisher()
    await marks.publish([publisher, other], Point(10, 1))
    assert marks.settled is None, "nothing has come from the other node yet"


async def test_marks_of_which_nobody_knows_whether_they_were_taken_settle_nothing(
    publisher: Publisher,
) -> None:
    marks = Marks()
    (one,) = await published(marks, publisher, 1)
    publisher.blocked = True
    await published(marks, publisher, 1)
    marks.note_stored([one], Point(10, 1))
    assert marks.settled is None


async def test_a_mark_is_asked_for_until_the_next_one(publisher: Publisher) -> None:
    marks = Marks()
    marks.ask()
    assert marks.is_asked
    await published(marks, publisher, 1)
    assert not marks.is_asked
