"""The pool: disjoint intervals, near the root, with the heights they were left at."""

import pytest

from itc import IdPool, MalformedError, PoolError, TreeError
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
        IdPool.around(["01", "010"], 0)
