"""The queue by key and by age, compiled and in Python, side by side."""

import gc
import resource
import sys
import tracemalloc
import weakref

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from app.tracker import _memories as memories
from tests.leaks import growth
from tests.oracles.fifo import KeyedFifo

MARKS = [bytes([n]) * 16 for n in range(3)]
KEYS = [*MARKS, *((queue, mark) for queue in ("q", "b\u00fcro", "\U0001f600") for mark in MARKS)]


def equal_key(key):
    """An equal key of other objects."""
    if isinstance(key, bytes):
        return bytes(bytearray(key))
    return "".join(list(key[0])), equal_key(key[1])


class Value:
    pass


class SideBySide(RuleBasedStateMachine):
    """Does the same to both, and compares every answer."""

    def __init__(self):
        super().__init__()
        self.reference, self.compiled = KeyedFifo(), memories.KeyedFifo()
        self.number = 0

    def same(self, name, *arguments):
        expected = getattr(self.reference, name)(*arguments)
        found = getattr(self.compiled, name)(*arguments)
        assert type(found) is type(expected)
        assert found == expected  # values are equal to themselves alone
        return found

    @rule(
        key=st.sampled_from(KEYS),
        steps=st.lists(st.sampled_from([1, 2, 7, 65_536, 2**33]), min_size=1, max_size=40),
    )
    def add(self, key, steps):
        for step in steps:
            self.number += step
            self.same("add", self.number, equal_key(key), Value())

    @rule(keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=5, unique=True))
    def add_under_several(self, keys):
        self.number += 1
        self.same("add_under", self.number, tuple(map(equal_key, keys)), Value())

    @rule(steps=st.integers(1, 300))
    def add_many(self, steps):
        for _ in range(steps):
            self.number += 1
            self.same("add", self.number, self.number.to_bytes(16, "big"), Value())

    @rule(key=st.sampled_from(KEYS))
    def take(self, key):
        self.same("take", key)

    @rule(count=st.integers(1, 60))
    def take_oldest(self, count):
        for _ in range(count):
            assert self.same("oldest") is self.same("take_oldest")

    @rule(left=st.integers(0, 8))
    def leave_few(self, left):
        while len(self.reference) > left:
            self.same("take_oldest")

    @rule(key=st.sampled_from(KEYS), most=st.integers(-1, 70))
    def ask_of_a_key(self, key, most):
        for name in ("first", "count", "__contains__"):
            self.same(name, equal_key(key))
        self.same("newest", key, most)

    @rule(back=st.integers(-1, 70))
    def ask_of_a_number(self, back):
        self.same("get", self.number - back)
        self.same("since", self.number - back)

    @invariant()
    def all_is_the_same(self):
        for name in ("__len__", "keys", "values", "oldest"):
            self.same(name)


class TestSideBySide(SideBySide.TestCase):
    settings = settings(stateful_step_count=40, deadline=None)


@pytest.fixture(params=["compiled", "Python"])
def queue(request):
    return memories.KeyedFifo() if request.param == "compiled" else KeyedFifo()


def test_values_are_taken_by_key_and_by_age(queue):
    assert (queue.add(1, b"a", "1"), queue.add(2, b"b", "2"), queue.add(3, b"a", "3")) == (1, 1, 2)
    assert (queue.first(b"a"), queue.count(b"a"), queue.newest(b"a", 5)) == ("1", 2, ["3", "1"])
    assert (queue.take_oldest(), queue.take(b"a"), queue.take(b"a")) == ("1", "3", None)
    assert (len(queue), queue.keys(), queue.values(), queue.get(2)) == (1, [b"b"], ["2"], "2")


def test_the_oldest_makes_room_as_quickly_however_many_there_were(queue):
    for number in range(60_000):  # with a walk over all that were deleted: minutes
        queue.add(number, number.to_bytes(16, "big"), number)
        if number >= 20_000:
            assert queue.oldest() == queue.take_oldest() == number - 20_000
    assert len(queue) == 20_000


def test_no_growing_queue_copies_its_memory():
    def faults():
        return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt

    def most_faults():
        queue, most = memories.KeyedFifo(), 0
        for number in range(300_000):
            key, before = number.to_bytes(16, "big"), faults()
            queue.add(number, key, None)
            most = max(most, faults() - before)
        return most

    # A copy of the greatest block takes 3,500 new pages. The first queue's end frees large blocks,
    # after which the C library would copy them.
    assert max(most_faults() for _ in range(2)) < 1_000


def test_what_is_left_of_many_stays_as_it_was(queue):
    for number in range(20_000):
        queue.add_under(
            number, (b"all", number.to_bytes(16, "big"), ("odd", bytes([number & 1]))), number
        )
    while len(queue) > 100:
        queue.take_oldest()
    assert queue.values() == queue.since(0) == [*range(19_900, 20_000)]
    assert queue.keys() == [b"all"] * 100
    assert (queue.count(("odd", b"\x01")), queue.newest(b"all", 2)) == (50, [19_999, 19_998])
    assert [queue.take(number.to_bytes(16, "big")) for number in queue.values()] == [
        *range(19_900, 20_000)
    ]
    assert not any(key in queue for key in (b"all", ("odd", b"\x00"), ("odd", b"\x01")))


def test_what_is_under_several_keys_is_taken_by_any_of_them(queue):
    assert queue.add_under(1, (b"a", b"b"), "1") == 1
    assert queue.add_under(2, (b"b", b"c"), "2") == 2
    assert queue.add_under(3, (b"c", b"b", b"a"), "3") == 3
    assert (queue.take(b"c"), queue.newest(b"b", 9), queue.count(b"c")) == ("2", ["3", "1"], 1)
    assert (queue.take(b"a"), queue.take(b"a"), queue.take(b"b"), len(queue)) == ("1", "3", None, 0)
    with pytest.raises(ValueError, match="key"):
        queue.add_under(4, (), "4")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda queue: memories.KeyedFifo(1),
        lambda queue: queue.add(1, b"a"),
        lambda queue: queue.add("1", b"a", 1),
        lambda queue: queue.add(1.5, b"a", 1),
        lambda queue: queue.add(0, b"b", 1),  # numbers grow
        lambda queue: queue.add(2**63, b"a", 1),
        lambda queue: queue.add(1, "a", 1),
        lambda queue: queue.add(1, ("a",), 1),
        lambda queue: queue.add(1, (b"a", b"a"), 1),
        lambda queue: queue.add(1, ("a", "a"), 1),
        lambda queue: queue.add_under(1, [b"a"], 1),
        lambda queue: queue.add_under(1, (b"a", 1), 1),
        lambda queue: queue.add_under(1, (b"a",)),
        lambda queue: queue.take(None),
        lambda queue: queue.first(1),
        lambda queue: queue.count(1),
        lambda queue: 1 in queue,
        lambda queue: queue.get("1"),
        lambda queue: queue.since("1"),
        lambda queue: queue.newest(b"a", "1"),
        lambda queue: queue.newest(b"a"),
        lambda queue: queue.newest(1, 1),
    ],
)
def test_invalid_arguments_are_refused_and_change_nothing(wrong):
    queue = memories.KeyedFifo()
    queue.add(0, b"a", 0)
    with pytest.raises((TypeError, OverflowError, ValueError)):
        wrong(queue)
    assert (queue.keys(), queue.values()) == ([b"a"], [0])


def test_references_are_given_up_with_the_value(queue):
    key, value = ("q", bytes(16)), Value()
    before = sys.getrefcount(key), sys.getrefcount(value)
    for number in range(20):
        queue.add(number, key, value)
    assert sys.getrefcount(value) == before[1] + 20
    for _ in range(10):
        assert queue.take(key) is queue.take_oldest() is value
    queue.add_under(20, (key, b"a"), value)
    queue.take(b"a")
    for ask in (queue.take, queue.first, queue.count):
        ask(key)
    assert (queue.oldest(), queue.get(1), queue.newest(key, 2), queue.values()) == (
        None,
        None,
        [],
        [],
    )
    assert (sys.getrefcount(key), sys.getrefcount(value)) == before


def test_a_queue_in_a_circle_is_collected():
    queue, value = memories.KeyedFifo(), Value()
    value.queue = queue
    gone = weakref.ref(value)
    for number in range(100):
        queue.add(number, b"a" if number % 2 else number.to_bytes(16, "big"), value)
    del queue, value
    gc.collect()
    assert gone() is None


def test_a_value_that_uses_the_queue_as_it_goes_does_no_harm():
    queue, said = memories.KeyedFifo(), []

    class Last:
        def __del__(self):
            said.append(len(queue))
            queue.add(1_000 + len(said), b"again", 0)

    for number in range(50):
        queue.add(number, b"a", Last())
    while queue.count(b"a"):
        queue.take(b"a")
        queue.take_oldest()
    assert said
    assert len(queue) == queue.count(b"again") == len(queue.values())


def test_nothing_is_leaked():
    def work():
        queue = memories.KeyedFifo()
        for number in range(100):
            queue.add(number, ("q", bytes([number % 30]) * 16), Value())
        while len(queue) > 50:
            queue.take(("q", bytes([len(queue) % 30]) * 16))
            queue.take_oldest()
        queue.keys(), queue.values(), queue.since(90), queue.newest(("q", bytes(16)), 5)

    assert growth(work, 250) < 2_500


def test_it_gives_memory_back():
    queue = memories.KeyedFifo()
    tracemalloc.start()
    try:
        for number in range(50_000):
            queue.add(number, b"a", None)
        full = tracemalloc.get_traced_memory()[0]
        while len(queue):
            queue.take_oldest()
        assert tracemalloc.get_traced_memory()[0] < full / 100
    finally:
        tracemalloc.stop()
