"""The laws of Interval Tree Clocks, on drawn trees and on runs whose true histories are known."""

import pytest

from itc import Stamp, TreeError, seed


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
