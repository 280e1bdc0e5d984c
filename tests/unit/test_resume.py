"""Stored messages that come again are recognised, whichever of them were acknowledged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.traces.resume import Resume, Window, digest
from app.tracker import Unreadable


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


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.data())
def test_exactly_what_was_not_stored_is_new(sizes: list[int], data: st.DataObject) -> None:
    numbers = iter(range(1_000))
    batches = [[next(numbers) for _ in range(size)] for size in sizes]
    acknowledged = data.draw(st.integers(0, len(batches)))
    unacknowledged = [message for batch in batches[acknowledged:] for message in batch]
    delivered = [next(numbers) for _ in range(data.draw(st.integers(0, 5)))]
    fresh = [next(numbers) for _ in range(data.draw(st.integers(0, 5)))]
    run = [(message, True) for message in unacknowledged + delivered]
    run += [(message, False) for message in fresh]
    assert new_among(Resume(window(batches)), run) == delivered + fresh


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


def test_a_run_that_resembles_the_window_only_at_first_is_new() -> None:
    assert new_among(Resume(window([[1, 2, 3]])), [(1, True), (2, True), (9, True)]) == [1, 2, 9]


def test_a_run_that_breaks_off_within_a_batch_is_new() -> None:
    """One acknowledgement covers a whole batch, so half of one never comes back."""
    assert new_among(Resume(window([[1, 2, 3]])), [(1, True), (2, True)]) == [1, 2]


def test_the_window_keeps_whole_batches_that_may_be_unacknowledged() -> None:
    kept = window([[1, 2], [3, 4], [5, 6]], span=5)
    assert kept.suffixes() == [mark(3) + mark(4) + mark(5) + mark(6), mark(5) + mark(6)]
    assert len(kept) == 4


def test_the_window_keeps_the_last_batch_even_if_it_is_larger_than_the_prefetch_is_now() -> None:
    assert len(window([[1, 2], [3, 4, 5]], span=1)) == 3


def test_a_quorum_queues_delivery_count_does_not_change_the_digest_of_garbage() -> None:
    first = Unreadable("r", "k", "{}", b"b", 1, recorded_at=1)
    again = Unreadable("r", "k", "{}", b"b", 1, recorded_at=2)
    assert digest(first) == digest(again)
