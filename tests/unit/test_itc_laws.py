"""The laws of Interval Tree Clocks, on drawn trees and on runs whose true histories are known."""

from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import peers
from itc import AnonymousError, OverlapError, Relation, Stamp, TreeError, compare, events, ids, seed
from tests.unit.clock_strategies import (
    EVENT_TREES,
    ID_TREES,
    PATHS,
    RUNS,
    STAMPS,
    TRACKED_RUNS,
)


def test_height_at_is_that_of_the_leftmost_point():
    stamp = Stamp.from_trees(0, (1, (0, 2, 0), (3, 0, (1, 0, 4))))
    heights = {"": 3, "0": 3, "00": 3, "01": 1, "1": 4, "11": 5, "110": 5, "111": 9, "1111": 9}
    assert {path: stamp.height_at(path) for path in heights} == heights


def test_the_interval_of_a_fragmented_id_is_none():
    a, rest = seed().fork()
    _, b = rest.fork()
    assert a.join(b).interval is None
    assert seed().peek().interval is None
    assert not a.join(b).is_anonymous


@pytest.mark.parametrize("owned", [2, -1, True, None, "1", (1,), (1, 0, 1), (0, 2), 1.0, {}])
def test_an_invalid_id_is_refused(owned):
    with pytest.raises(TreeError):
        Stamp.from_trees(owned, 0)


@pytest.mark.parametrize(
    "event", [-1, True, None, "1", (1,), (1, 0), (0, 0, -1), (-1, 2, 3), (0, 1, 2, 3), 1.0, {}]
)
def test_an_invalid_event_tree_is_refused(event):
    with pytest.raises(TreeError):
        Stamp.from_trees(0, event)


@pytest.mark.parametrize(
    ("path", "height"), [("2", 0), ("0 ", 0), (None, 0), (b"0", 0), ("0", -1), ("0", True)]
)
def test_an_invalid_interval_is_refused(path, height):
    with pytest.raises(TreeError):
        Stamp.of_interval(path, height)


@given(RUNS)
def test_order_is_that_of_the_true_histories(played):
    ever, _ = played
    for a, b in product(ever, ever):
        assert a.stamp.leq(b.stamp) == (a.history <= b.history)


@given(RUNS)
def test_those_alive_own_disjoint_parts_that_make_up_the_whole(played):
    _, alive = played
    for a, b in combinations(alive, 2):
        a.stamp.join(b.stamp)
        with pytest.raises(OverlapError):
            a.stamp.join(a.stamp)
    whole = alive[0].stamp
    for known in alive[1:]:
        whole = known.stamp.join(whole)
    assert whole.interval == ""


@given(TRACKED_RUNS)
def test_a_dot_says_what_the_whole_stamp_says_also_when_intervals_are_dealt_again(stored):
    for a, b in product(stored.values(), stored.values()):
        before = a.history <= b.history
        assert a.stamp.leq(b.stamp) == (b.stamp.height_at(a.interval) >= a.height) == before


@given(STAMPS)
def test_an_event_strictly_grows_and_keeps_the_id(stamp):
    if stamp.is_anonymous:
        with pytest.raises(AnonymousError):
            stamp.event()
    else:
        after = stamp.event()
        assert compare(stamp, after) is Relation.before
        assert after.trees()[0] == stamp.trees()[0]


@given(STAMPS)
def test_fork_shares_the_id_and_joining_gives_it_back(stamp):
    left, right = stamp.fork()
    assert left.join(right) == right.join(left) == stamp
    assert left.peek() == right.peek() == stamp.peek()
    if not stamp.is_anonymous:
        assert not left.is_anonymous
        assert not right.is_anonymous
        with pytest.raises(OverlapError):
            left.join(stamp)


@given(EVENT_TREES, EVENT_TREES, EVENT_TREES)
def test_join_is_the_least_upper_bound(x, y, z):
    a, b, c = (Stamp.from_trees(0, tree) for tree in (x, y, z))
    joined = a.join(b)
    assert a.leq(joined)
    assert b.leq(joined)
    assert joined == b.join(a)
    assert joined.join(c) == a.join(b.join(c))
    assert joined.join(a) == joined
    assert (a.leq(c) and b.leq(c)) == joined.leq(c)


@given(EVENT_TREES, EVENT_TREES, EVENT_TREES)
def test_leq_is_a_partial_order(x, y, z):
    a, b, c = (Stamp.from_trees(0, tree) for tree in (x, y, z))
    assert a.leq(a)
    assert (a.leq(b) and b.leq(a)) == (a == b)
    assert a.leq(b) == (a.join(b) == b)
    assert not (a.leq(b) and b.leq(c)) or a.leq(c)
    assert (
        compare(a, b)
        is {
            (True, True): Relation.equal,
            (True, False): Relation.before,
            (False, True): Relation.after,
            (False, False): Relation.concurrent,
        }[a.leq(b), b.leq(a)]
    )


@given(EVENT_TREES, PATHS)
def test_an_event_on_an_interval_is_the_general_fill_and_grow(tree, path):
    event = Stamp.from_trees(0, tree)._event
    by_path = events.raise_interval(event, path)
    assert by_path == events.advance(event, ids.nest(path, 1))
    assert (
        peers.PlainStamp(ids.nest(path, 1), Stamp(None, event).trees()[1]).event()._event
        == (Stamp(None, by_path).trees()[1])
    )


@given(STAMPS, STAMPS)
def test_operations_are_those_of_the_paper_written_down(a, b):
    owned, event = a.trees()
    assert a.peek().join(b.peek()).trees()[1] == peers.join(event, b.trees()[1])
    if not a.is_anonymous:
        assert a.event().trees() == (owned, peers.PlainStamp(owned, event).event()._event)


@given(EVENT_TREES, EVENT_TREES)
def test_nothing_new_means_the_very_same_tree(x, y):
    a, b = (Stamp.from_trees(0, each)._event for each in (x, y))
    joined = events.join(a, b)
    assert events.join(joined, a) is joined
    assert events.join(joined, b) is joined
    assert events.finish(events._join_deep(a, b)) == joined


@given(ID_TREES, EVENT_TREES)
def test_stamps_are_values(owned, event):
    one, other = Stamp.from_trees(owned, event), Stamp.from_trees(owned, event)
    assert one == other
    assert hash(one) == hash(other)
    assert Stamp.from_trees(*one.trees()) == one
    assert eval(str(one)) == one.trees()
    assert repr(one) == f"Stamp{one}"
    assert one != str(one)


@given(EVENT_TREES, st.text("01", max_size=3), st.text("01", max_size=3))
def test_an_owned_interval_is_named_by_its_path(event, path, deeper):
    stamp = Stamp.of_interval(path, 7)
    assert stamp.interval == path
    assert stamp.height_at(path + deeper) == 7
    assert stamp.trees()[0] == ids.nest(path, 1)
    assert stamp.join(Stamp.from_trees(0, event)).event().interval == path
    assert Stamp.of_interval(path).peek() == seed().peek()
