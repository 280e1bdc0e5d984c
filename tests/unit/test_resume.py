"""Stored messages that come again are recognised, however many of them come."""

from __future__ import annotations

from app.traces.runs.resume import REMEMBERED, Resume, Window
from app.tracker import Unreadable
from app.tracker.digest import digest


def mark(message: int) -> bytes:
    return message.to_bytes(8, "big")


def window(batches: list[list[int]], span: int = 1_000) -> Window:
    filled = Window(span)
    for batch in batches:
        filled.add([mark(message) for message in batch])
    return Window(span, filled.dump())


def new_among(resume: Resume[int], run: list[tuple[int, bool]]) -> list[int]:
    decided: list[tuple[int, bool]] = []
    for message, redelivered in run:
        decided += resume.push(message, mark(message), redelivered)
    decided += resume.settle()
    assert [message for message, _ in decided] == [message for message, _ in run]
    return [message for message, is_new in decided if is_new]


def again(*messages: int) -> list[tuple[int, bool]]:
    return [(message, True) for message in messages]


def test_a_head_that_was_dropped_is_said() -> None:
    resume: Resume[int] = Resume(window([[1, 2, 3]]))
    assert new_among(resume, again(2, 3, 9)) == [9]
    assert resume.doubt == (
        "2 redelivered trace messages were taken for stored ones, which are not whole batches: "
        "the queue has dropped messages from its head"
    )


def test_without_a_window_everything_is_new_at_once() -> None:
    resume: Resume[int] = Resume(Window(10))
    assert resume.settled
    assert resume.push(1, mark(1), True) == [(1, True)]


def test_messages_are_held_only_while_it_is_undecided() -> None:
    resume: Resume[int] = Resume(window([[1, 2], [3]]))
    assert resume.push(1, mark(1), True) == []
    assert resume.push(2, mark(2), True) == []
    assert resume.push(3, mark(3), True) == [(1, False), (2, False), (3, False)]
    assert resume.settled


def test_a_message_that_is_not_redelivered_is_new() -> None:
    assert new_among(Resume(window([[1, 2]])), [(1, False), (2, True)]) == [1, 2]


def test_traffic_that_repeats_itself_is_not_taken_for_a_part_of_a_batch() -> None:
    """All was acknowledged, and what comes is new, and equals the last stored message."""
    resume: Resume[int] = Resume(window([[1, 2, 1, 2], [1, 2, 1, 2]]))
    assert new_among(resume, again(1, 2, 9)) == [1, 2, 9]
    assert resume.doubt is not None
    assert "up to 2 more may be stored twice" in resume.doubt


def test_whole_batches_of_traffic_that_repeats_itself_are_in_doubt() -> None:
    resume: Resume[int] = Resume(window([[1, 2], [1, 2], [1, 2]]))
    assert new_among(resume, again(1, 2, 1, 2, 9)) == [9]
    assert resume.doubt is not None
    assert "up to 4 of them may be new and missing" in resume.doubt


def test_acknowledged_messages_tell_that_traffic_repeats_itself() -> None:
    filled = Window(10)
    for tag in (2, 4):
        filled.add([mark(1), mark(2)], tag)
    filled.confirm(2)
    resume: Resume[int] = Resume(Window(10, filled.dump()))
    assert new_among(resume, again(1, 2, 9)) == [9]
    assert resume.doubt is not None
    assert "up to 2 of them may be new and missing" in resume.doubt


def test_a_message_that_comes_often_among_others_leaves_no_doubt() -> None:
    resume: Resume[int] = Resume(window([[0, 1, 0, 2], [0, 3, 0], [4, 0, 0]]))
    assert new_among(resume, again(0, 3, 0, 4, 0, 0, 0, 9)) == [0, 9]
    assert resume.doubt is None


def test_the_window_keeps_whole_batches_that_may_be_unacknowledged() -> None:
    kept = window([[1, 2], [3, 4], [5, 6]], span=5)
    assert kept.digests() == [mark(3), mark(4), mark(5), mark(6)]
    assert kept.suffixes() == {0, 2, 4}
    assert len(kept) == 4


def test_the_window_keeps_the_last_batch_even_if_it_is_larger_than_the_prefetch_is_now() -> None:
    kept = window([[1, 2], [3, 4, 5]], span=1)
    assert len(kept) == 3
    assert kept.span == 3


def test_acknowledgements_that_the_broker_has_taken_make_the_window_small() -> None:
    filled = Window(1_000)
    for tag in (2, 4, 6):
        filled.add([mark(tag - 1), mark(tag)], tag)
    filled.confirm(4)
    kept = Window(1_000, filled.dump())
    assert (kept.digests(), kept.suffixes()) == ([mark(5), mark(6)], {0, 2})
    filled.clear()
    assert len(Window(1_000, filled.dump())) == 0


def test_what_another_connection_left_is_acknowledged_with_the_first_of_this_one() -> None:
    kept = window([[1, 2], [3]])
    kept.confirm(0)
    assert len(kept) == 3
    kept.confirm(1)
    assert len(kept) == 0


def test_a_window_is_bounded() -> None:
    filled = Window(10)
    for first in range(0, 5_000, 5):
        filled.add([mark(first + n) for n in range(5)], first + 5)
    assert len(filled.dump()) < 8 * (REMEMBERED + 10) + 100


def test_a_window_that_an_earlier_version_stored_is_read() -> None:
    assert Window(10, b"\x92\xc4\x08aaaaaaaa\xc4\x10bbbbbbbbcccccccc").suffixes() == {0, 2, 3}


def test_a_quorum_queues_delivery_count_does_not_change_the_digest_of_garbage() -> None:
    first = Unreadable("r", "k", "{}", b"b", 1, recorded_at=1)
    again = Unreadable("r", "k", "{}", b"b", 1, recorded_at=2)
    assert digest(first) == digest(again)
