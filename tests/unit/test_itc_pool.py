"""The pool: disjoint intervals, near the root, with the heights they were left at."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from itc import IdPool, MalformedError, PoolError, Stamp, TreeError
from itc.pool import depth_for


def test_depth_grows_with_the_logarithm_of_the_number_alive():
    pool = IdPool()
    depths = [len(pool.take()[0]) for _ in range(1_200)]
    assert depths == [depth_for(number) for number in range(1, 1_201)]
    assert [depth_for(n) for n in (1, 8, 9, 72, 73, 1_096, 1_097, 10**5)] == [
        4,
        4,
        8,
        8,
        13,
        13,
        21,
        21,
    ]


def test_a_reused_interval_starts_at_the_height_where_it_was_left():
    pool = IdPool()
    first, second = pool.take()[0], pool.take()[0]
    pool.give_back(first, 41)
    assert pool.take() == (first, 41)
    pool.give_back(first, 43)
    pool.give_back(second, 42)
    assert pool.take() == (first, 43)


def test_an_interval_cannot_be_given_back_twice():
    pool = IdPool()
    path, _ = pool.take()
    other, _ = pool.take()
    pool.give_back(path, 1)
    for free in (path, path + "0", "1"):
        with pytest.raises(PoolError):
            pool.give_back(free, 1)
    pool.give_back(other, 1)
    with pytest.raises(PoolError):
        pool.give_back(other, 1)


def test_what_no_pool_deals_cannot_be_given_back():
    pool = IdPool()
    path, _ = pool.take()
    with pytest.raises(PoolError):
        pool.give_back(path + "0" * 5_000, 0)


@pytest.mark.parametrize(("path", "height"), [("x", 0), (None, 0), ("0000", -1), ("0000", None)])
def test_an_invalid_interval_cannot_be_given_back(path, height):
    pool = IdPool()
    pool.take()
    with pytest.raises(TreeError):
        pool.give_back(path, height)


@pytest.mark.parametrize(
    "data",
    [
        "",
        "00ff",
        "000000",
        "00010200",  # a path longer than its depth
        "01000000" + "010000",  # the whole, and a part of it
        "01020100" + "020100",  # the same twice
        "01020000" + "020100",  # siblings that would have been merged
        "01020100" + "010100",  # out of order
        "00ffffffff0f0000",  # deeper than any pool deals
    ],
)
def test_what_no_pool_dumps_is_refused(data):
    with pytest.raises(MalformedError):
        IdPool.load(bytes.fromhex(data))


def test_intervals_that_overlap_were_never_dealt_together() -> None:
    with pytest.raises(PoolError, match="overlap"):
        IdPool.from_dealt(["01", "010"], 0)


STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 1000), st.integers(0, 9)), max_size=60)


def overlap(a, b):
    return a.startswith(b) or b.startswith(a)


class Checked:
    """A pool beside plain lists of what was dealt and what was given back."""

    def __init__(self):
        self.pool = IdPool()
        self.dealt = []
        self.left = []
        self.peak = 0

    def take(self):
        path, base = self.pool.take()
        assert not any(overlap(path, other) for other, _ in self.dealt)
        assert base >= max([h for other, h in self.left if overlap(path, other)], default=0)
        self.dealt.append((path, base))
        self.peak = max(self.peak, len(self.dealt))
        assert len(path) <= depth_for(self.peak)
        return path, base

    def give_back(self, index, rise):
        path, base = self.dealt.pop(index % len(self.dealt))
        self.left.append((path, base + rise))
        self.pool.give_back(path, base + rise)

    def play(self, steps):
        for take, index, rise in steps:
            if take or not self.dealt:
                self.take()
            else:
                self.give_back(index, rise)
            assert self.pool.alive == len(self.dealt)
        return self


@given(STEPS)
def test_intervals_are_disjoint_shallow_and_never_start_too_low(steps):
    Checked().play(steps)


@given(STEPS)
def test_nothing_leaks(steps):
    checked = Checked().play(steps)
    while checked.dealt:
        checked.give_back(0, 0)
    highest = max([height for _, height in checked.left], default=0)
    assert checked.pool.dump() == bytes([0, 0, 0, highest])  # nobody is alive; everything is free


@given(STEPS)
def test_the_ground_is_where_owners_left_what_is_free_and_nothing_of_what_is_dealt(steps):
    checked = Checked().play(steps)
    ground = checked.pool.ground()
    assert ground.is_anonymous
    for path, _ in checked.dealt:
        assert ground.join(Stamp.of_interval(path, 1)).height_at(path) == 1
    for path, height in checked.left:
        if not any(overlap(path, dealt) for dealt, _ in checked.dealt):
            assert ground.height_at(path) >= height
    path, base = checked.take()
    assert base == ground.height_at(path), "who starts there has done nothing that others know"


@given(STEPS, STEPS)
def test_a_pool_continues_from_its_dump_as_if_nothing_had_happened(steps, more):
    checked = Checked().play(steps)
    loaded = IdPool.load(checked.pool.dump())
    assert loaded.dump() == checked.pool.dump()
    assert loaded.alive == checked.pool.alive
    dealt = list(checked.dealt)
    checked.play(more)
    for take, index, rise in more:
        if take or not dealt:
            dealt.append(loaded.take())
        else:
            path, base = dealt.pop(index % len(dealt))
            loaded.give_back(path, base + rise)
    assert dealt == checked.dealt
    assert loaded.dump() == checked.pool.dump()


def test_depth_follows_the_number_alive_however_many_come_and_go():
    pool = IdPool()
    alive = [pool.take() for _ in range(40)]
    for number in range(2_000):
        pool.give_back(*alive.pop(number * 7 % 40))
        alive.append(pool.take())
        assert len(alive[-1][0]) <= 8
    assert len(pool.dump()) < 100


@given(st.integers(0, 40), st.data())
def test_a_pool_around_dealt_intervals_deals_none_of_them_again(
    count: int, data: st.DataObject
) -> None:
    before = IdPool()
    dealt = [before.take()[0] for _ in range(count)]
    gone = data.draw(st.sets(st.sampled_from(dealt))) if dealt else set()
    left = [path for path in dealt if path not in gone]
    pool = IdPool.from_dealt(left, 7)
    assert pool.alive == len(left)
    assert IdPool.load(pool.dump()).dump() == pool.dump()
    for _ in range(20):
        path, height = pool.take()
        assert height == 7
        assert not any(path.startswith(one) or one.startswith(path) for one in left)
        left.append(path)
