"""Ids forked in a line are as deep as there are participants; nothing may recurse along them."""

import pytest

from itc import (
    OverlapError,
    Stamp,
    compare,
    decode,
    encode,
    pack,
    packed_height_at,
    seed,
    unpack,
)
from itc.stamp import Relation

DEPTH = 5_000


@pytest.fixture(scope="module")
def line():
    """The two deepest of 5,000 participants, forked one from another in a line."""
    stamp = seed()
    for _ in range(DEPTH):
        _, stamp = stamp.fork()
    return stamp.fork()


@pytest.fixture(scope="module")
def comb(line):
    """Two stamps that differ all the way down: each has events of its own at every 20th level."""
    left, right = line
    odd = even = 0
    for depth in reversed(range(DEPTH)):
        own = depth % 20 == 0
        odd = (0, (0, 2, 0) if own else 0, odd)
        even = (0, (0, 0, 2) if own else 0, even)
    return left.join(Stamp.from_trees(0, odd)), right.join(Stamp.from_trees(0, even))


def test_events_and_order(line):
    left, right = line
    assert len(left.interval) == DEPTH + 1
    assert compare(left.event(), right.event()) is Relation.concurrent
    assert left.event().event().height_at(left.interval) == 2
    assert compare(left, right.join(left.event().peek())) is Relation.before


def test_join(comb):
    left, right = comb
    joined = left.peek().join(right.peek())
    assert left.leq(joined)
    assert right.leq(joined)
    assert not left.leq(right)
    assert joined == right.peek().join(left.peek())
    assert joined.height_at("1" * 20 + "00") == joined.height_at("1" * 20 + "01") == 2
    assert joined.join(left).event().peek() != joined
    assert hash(joined) == hash(right.peek().join(left.peek()))


def test_codes(comb):
    for stamp in comb:
        assert decode(encode(stamp)) == stamp
        assert unpack(pack(stamp), stamp.interval) == stamp
        assert packed_height_at(pack(stamp), "1" * 4_980 + "00") == stamp.height_at(
            "1" * 4_980 + "00"
        )


def test_trees_and_text(comb):
    stamp = comb[0]
    assert Stamp.from_trees(*stamp.trees()) == stamp
    assert str(stamp).count("(") == str(stamp).count(")") > DEPTH


def test_fragmented_ids(line):
    left, right = line
    other = Stamp.of_interval("10")
    owner = left.join(other)
    assert owner.interval is None
    assert owner == other.join(left)
    assert decode(encode(owner.event())) == owner.event()
    assert owner.event().event().height_at("10") == 2
    assert owner.join(right).fork()[0].join(owner.join(right).fork()[1]) == owner.join(right)
    with pytest.raises(OverlapError):
        owner.join(left)
    assert pack(owner.event()) != pack(owner)
