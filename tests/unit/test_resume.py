"""Stored messages that come again are recognised, however many of them come."""

from __future__ import annotations

import time
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from app.traces.runs.resume import MOST_ACKNOWLEDGED, Resume, Window
from app.tracker import Unreadable
from app.tracker.digest import digest
from tests.unit.queue_model import TraceQueue


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
    assert len(filled.dump()) < 8 * (MOST_ACKNOWLEDGED + 10) + 100


def test_a_window_that_an_earlier_version_stored_is_read() -> None:
    assert Window(10, b"\x92\xc4\x08aaaaaaaa\xc4\x10bbbbbbbbcccccccc").suffixes() == {0, 2, 3}


def test_a_quorum_queues_delivery_count_does_not_change_the_digest_of_garbage() -> None:
    first = Unreadable("r", "k", "{}", b"b", 1, recorded_at=1)
    again = Unreadable("r", "k", "{}", b"b", 1, recorded_at=2)
    assert digest(first) == digest(again)


PREFETCH = 12


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
    resume: Resume[int] = Resume(window(batches))
    assert new_among(resume, run) == delivered + fresh
    assert resume.doubt is None


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.data())
def test_a_run_whose_head_the_queue_dropped_is_recognised(
    sizes: list[int], data: st.DataObject
) -> None:
    numbers = iter(range(1_000))
    batches = [[next(numbers) for _ in range(size)] for size in sizes]
    stored = [message for batch in batches for message in batch]
    kept = stored[data.draw(st.integers(0, len(stored))) :]
    delivered = [next(numbers) for _ in range(data.draw(st.integers(0, 5)))]
    assert new_among(Resume(window(batches)), again(*kept, *delivered)) == delivered


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.integers(1, 5))
def test_a_run_with_holes_is_recognised(kept: list[bool], size: int) -> None:
    stored = list(range(len(kept)))
    batches = [stored[at : at + size] for at in range(0, len(stored), size)]
    run = [message for message in stored if kept[message]]
    assert new_among(Resume(window(batches)), again(*run, 100, 101)) == [100, 101]


def seconds(do: Callable[[], object]) -> float:
    began = time.process_time()
    do()
    return time.process_time() - began


def test_it_takes_linear_time_whatever_the_traffic() -> None:
    """Quadratic, either of these would take minutes."""
    size = 20_000
    for message in (lambda _: 7, lambda n: n % 2, lambda n: n, lambda n: n == size - 2):
        numbers = [int(message(n)) for n in range(size)]
        batches = [numbers[at : at + 10] for at in range(0, size, 10)]
        kept = window(batches, size)
        assert seconds(lambda kept=kept, run=numbers[1:]: new_among(Resume(kept), again(*run))) < 10  # type: ignore[misc]


class Consumer:
    """What a run does with what arrives: batches, transactions, then acknowledgements.

    ``checkpoint`` and ``stored`` outlive it.
    """

    def __init__(self, queue: TraceQueue, content: Callable[[int], bytes] = mark) -> None:
        self.queue = queue
        self.content = content
        self.stored: list[int] = []
        self.checkpoint = b""
        self.doubts: list[str] = []
        self.connect()

    def connect(self) -> None:
        self.window = Window(PREFETCH, self.checkpoint)
        self.resume: Resume[tuple[int, int, bytes]] = Resume(self.window)
        self.queue.prefetch = self.window.span
        self.prepared: list[tuple[list[int], bytes, int]] = []
        self.has_doubt = False

    def take(self, most: int) -> None:
        messages = self.queue.deliver(most)
        decided: list[tuple[tuple[int, int, bytes], bool]] = []
        for tag, message, redelivered in messages:
            content = self.content(message)
            decided += self.resume.push((tag, message, content), content, redelivered)
        if not messages and not self.queue.ready:
            decided += self.resume.settle()
        if self.resume.doubt and not self.has_doubt:
            self.has_doubt = True
            self.doubts.append(self.resume.doubt)
        if decided:
            tag = decided[-1][0][0]
            new = [(message, content) for (_, message, content), is_new in decided if is_new]
            self.window.confirm(self.queue.taken)
            self.window.add([content for _, content in new], tag)
            self.prepared.append(([message for message, _ in new], self.window.dump(), tag))
        if len(self.prepared) > 1:
            self.commit()

    def commit(self, *, acknowledge: bool = True) -> None:
        if self.prepared:
            new, checkpoint, tag = self.prepared.pop(0)
            if new:
                self.stored += new
                self.checkpoint = checkpoint
            if acknowledge:
                self.queue.acks.append(tag)

    def cut(self, *, in_transaction: bool) -> None:
        if in_transaction:  # committed, and never acknowledged
            self.commit(acknowledge=False)
        self.queue.cut()
        self.connect()

    def drain(self) -> None:
        for _ in range(1_000):
            self.take(5)
            self.commit()
            self.commit()
            self.queue.arrive(10)
            if not (self.queue.ready or self.queue.unacknowledged):
                return
        raise AssertionError("the queue does not empty")


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 12)),
        st.tuples(st.just("take"), st.integers(1, 6)),
        st.tuples(st.just("commit"), st.just(0)),
        st.tuples(st.just("arrive"), st.integers(1, 3)),
        st.tuples(st.just("cut"), st.integers(0, 1)),
    ),
    max_size=80,
)


def play(consumer: Consumer, steps: list[tuple[str, int]]) -> None:
    for what, count in steps:
        match what:
            case "publish":
                consumer.queue.publish(count)
            case "take":
                consumer.take(count)
            case "commit":
                consumer.commit()
            case "arrive":
                consumer.queue.arrive(count)
            case "cut":
                consumer.cut(in_transaction=bool(count))
    consumer.drain()


@given(STEPS, st.integers(1, 30))
def test_whatever_breaks_nothing_that_the_queue_kept_is_lost_or_doubled(
    steps: list[tuple[str, int]], most: int
) -> None:
    """Late acknowledgements, a queue at its limit, and cuts, also while it hands over again."""
    queue = TraceQueue(PREFETCH, most)
    consumer = Consumer(queue)
    play(consumer, steps)
    assert consumer.stored == sorted(set(consumer.stored))
    assert set(range(queue.published)) - set(consumer.stored) <= set(queue.dropped)


@given(STEPS, st.integers(1, 3))
def test_traffic_that_repeats_itself_is_right_or_in_doubt(
    steps: list[tuple[str, int]], period: int
) -> None:
    queue = TraceQueue(PREFETCH, 10_000)
    consumer = Consumer(queue, lambda message: mark(message % period))
    queue.publish(40)
    consumer.drain()
    play(consumer, steps)
    is_right = consumer.stored == list(range(queue.published))
    assert is_right or consumer.doubts
