"""The compiled core agrees with the Python that it replaces, to the object and to the byte."""

import gc
import os
import shutil
import tracemalloc
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from itc import Stamp, events, messages, packed, receive
from itc.core import core
from tests.properties.clock_strategies import EVENT_TREES, PATHS, RUNS

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


def owner(tree, path):
    return Stamp(path, events_of(tree))


def events_of(tree):
    return Stamp.from_trees(0, tree)._event


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


@given(EVENT_TREES, EVENT_TREES, PATHS)
def test_what_is_too_high_for_it_is_done_in_python(a, b, path):
    one, other = Stamp.of_interval(path).join(Stamp.from_trees(0, a)), Stamp.from_trees(0, b)
    joined = one.join(other)
    assert joined._event == events._join(one._event, other._event)
    assert joined.event()._event == events._raise_interval(joined._event, path)
    assert packed.pack(joined) == packed._packed(joined._event)


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


@given(EVENT_TREES, EVENT_TREES, PATHS)
def test_what_is_too_high_to_receive_is_done_in_python(a, b, path):
    stamp, other = owner(a, path), Stamp.from_trees(0, b)
    assert receive(stamp, other) == messages._receive(stamp, other)
