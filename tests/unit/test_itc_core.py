"""The compiled core agrees with the Python that it replaces, to the object and to the byte."""

import gc
import os
import shutil
import subprocess
import sys
import tracemalloc
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from itc import AnonymousError, Stamp, events, messages, packed, receive, seed
from itc.core import core
from itc.nodes import ZERO
from tests.unit.clock_strategies import EVENT_TREES, PATHS, RUNS

has_compiler = bool(shutil.which("gcc") or shutil.which("cc"))
pytestmark = pytest.mark.skipif(
    core is None and (bool(os.environ.get("PURE_PYTHON")) or not has_compiler),
    reason="left out, or no compiler to build it with",
)
SMALL_TREES = st.recursive(
    st.integers(0, 3) | st.sampled_from([255, 256, 70_000, 2**40, 2**62]),
    lambda part: st.tuples(st.integers(0, 2), part, part),
    max_leaves=12,
)


def events_of(tree):
    return Stamp.from_trees(0, tree)._event


def test_it_was_built():
    assert core is not None, "there is a compiler: pip install --editable . builds it"


@given(SMALL_TREES, SMALL_TREES)
def test_joins_are_the_same_objects_where_nothing_changes(one_tree, other_tree):
    a, b = events_of(one_tree), events_of(other_tree)
    for one, other in ((a, b), (b, a), (a, events.join(a, b))):
        expected, joined = events._join(one, other), core.join(one, other)
        assert joined == expected
        assert (joined is one, joined is other) == (expected is one, expected is other)


@given(SMALL_TREES, PATHS)
def test_an_intervals_event_is_the_same(tree, path):
    tree = events_of(tree)
    assert core.raise_interval(tree, path) == events._raise_interval(tree, path)


@given(SMALL_TREES)
def test_the_packed_bytes_are_the_same(tree):
    tree = events_of(tree)
    assert core.pack(tree) == packed._packed(tree)


@given(RUNS)
def test_all_three_agree_on_real_runs(run):
    ever, _ = run
    stamps = [known.stamp for known in ever]
    for a, b in pairwise(stamps):
        joined = core.join(a._event, b._event)
        assert joined == events._join(a._event, b._event)
        assert core.pack(joined) == packed._packed(joined)
        if a.interval is not None:
            path = a.interval
            assert core.raise_interval(joined, path) == events._raise_interval(joined, path)


def owner(tree, path):
    return Stamp(path, events_of(tree))


@given(SMALL_TREES, PATHS, st.lists(SMALL_TREES, max_size=10))
def test_what_is_received_is_the_same(tree, path, others):
    stamp, others = owner(tree, path), [Stamp.from_trees(0, other) for other in others]
    assert core.receive(stamp, *others) == messages._receive(stamp, *others)


@given(RUNS)
def test_it_is_the_same_on_real_runs_whoever_owns_what(run):
    ever, _ = run
    stamps = [known.stamp for known in ever]
    for stamp, *others in zip(stamps, stamps[1:], stamps[2:], strict=False):
        if stamp.interval is not None:
            got, expected = core.receive(stamp, *others), messages._receive(stamp, *others)
            assert got == expected
            assert got[0].interval == stamp.interval


def test_what_the_others_had_is_shared():
    stamp, other = owner((0, 5, (1, 0, 2)), "0"), owner((0, 3, (4, 1, 2)), "111")
    assert receive(stamp, other)[0]._event[3] is other._event[3]


@given(EVENT_TREES, EVENT_TREES, PATHS)
def test_what_is_too_high_to_receive_is_done_in_python(a, b, path):
    stamp, other = owner(a, path), Stamp.from_trees(0, b)
    assert receive(stamp, other) == messages._receive(stamp, other)


def test_what_is_too_deep_is_done_in_python():
    path, other = "01" * 1_000, "10" * 1_000
    deep, deeper = Stamp.of_interval(path, 3), Stamp.of_interval(path + other, 2)
    for call in (
        lambda: core.join(deep._event, Stamp.of_interval(path[:-1] + "0", 4)._event),
        lambda: core.raise_interval(deep._event, other),
        lambda: core.receive(deep, deeper),
    ):
        with pytest.raises(RecursionError):
            call()
    for stamp, others in ((deep, ()), (deep, (deeper,)), (deeper, (deep, deep))):
        assert receive(stamp, *others) == messages._receive(stamp, *others)


def test_who_owns_nothing_or_much_receives_nothing():
    left, right = seed().fork()
    two = left.fork()[0].join(right.fork()[0])
    for odd in (seed().peek(), two):
        with pytest.raises(AnonymousError):
            receive(odd, seed())


@given(EVENT_TREES, EVENT_TREES, PATHS)
def test_what_is_too_high_for_it_is_done_in_python(a, b, path):
    one, other = Stamp.of_interval(path).join(Stamp.from_trees(0, a)), Stamp.from_trees(0, b)
    joined = one.join(other)
    assert joined._event == events._join(one._event, other._event)
    assert joined.event()._event == events._raise_interval(joined._event, path)
    assert packed.pack(joined) == packed._packed(joined._event)


def test_the_highest_height_that_fits_is_not_raised_beyond():
    tree = events.leaf(2**63 - 1)
    with pytest.raises(OverflowError):
        core.raise_interval(tree, "")
    assert events.raise_interval(tree, "") == events.leaf(2**63)


@pytest.mark.parametrize("odd", [None, 5, (), (1, 1), (1, 2, None, None), ("a", "b", None, None)])
def test_an_invalid_tree_is_refused(odd):
    tree = Stamp.from_trees(0, (0, 1, (0, 2, 0)))._event
    for call in (
        lambda: core.join(odd, tree),
        lambda: core.join(tree, odd),
        lambda: core.raise_interval(odd, "01"),
        lambda: core.raise_interval(tree, odd),
        lambda: core.pack(odd),
        lambda: core.join(tree),
        lambda: core.raise_interval(tree),
        lambda: core.receive(),
        lambda: core.receive(Stamp(None, tree)),
        lambda: core.receive(Stamp("0", odd)),
        lambda: core.receive(Stamp("0", odd), Stamp(None, tree)),
        lambda: core.receive(Stamp("0", tree), Stamp(None, odd)),
        lambda: core.receive(Stamp("0", tree), *[Stamp(None, tree)] * 9, Stamp(None, odd)),
    ):
        with pytest.raises(TypeError):
            call()


def test_what_is_no_stamp_is_refused():
    for stamps in ((5,), (seed(), "0"), (Stamp.of_interval("0"), *[seed()] * 20, None)):
        with pytest.raises(AttributeError):
            core.receive(*stamps)


def test_large_trees_are_packed_the_same():
    """More nodes than there is room for on the stack, and more bytes."""
    tree = ZERO
    for number in range(700):
        tree = events._raise_interval(tree, f"{number * 911 % 1024:010b}")
        for _ in range(number % 3):
            tree = events._raise_interval(tree, f"{number * 911 % 1024:010b}")
    for high in (0, 1_000, 2**40):
        joined = events._join(tree, events.raised(ZERO, high, "1010101010"))
        assert core.pack(joined) == packed._packed(joined)


def test_nothing_is_leaked():
    one, other = (owner((n, (0, 1, (2, 0, n)), (0, n, 4)), "0110") for n in (3, 5))
    broken = Stamp(None, (0, 99, other._event, None))
    a, b = (Stamp.from_trees(0, (n, (0, 1, (2, 0, n)), (0, n, 4)))._event for n in (3, 5))

    def bytes_held_after(rounds):
        for _ in range(rounds):
            core.pack(core.raise_interval(core.join(a, b), "0110"))
            core.receive(one)
            core.receive(one, other)
            core.receive(one, *[other, one] * 5)
            for stamps in ((one, broken), (one, other, broken), (one, broken, other)):
                with suppress(TypeError):
                    core.receive(*stamps)
            with suppress(TypeError):
                core.join((0, 99, a, None), b)  # fails with one half done
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = bytes_held_after(100)
        assert bytes_held_after(1_000) - before < 1_000
    finally:
        tracemalloc.stop()


def test_it_can_be_left_out():
    program = (
        "import itc.core; assert itc.core.core is None;"
        "from itc import *; a, b = seed().fork(); print(pack(a.event().join(b.event())).hex())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PURE_PYTHON": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    left, right = seed().fork()
    assert done.stdout.strip() == packed.pack(left.event().join(right.event())).hex()
