"""The compiled core agrees with the Python that it replaces, to the byte."""

import os
import shutil
import subprocess
import sys
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from itc import (
    AnonymousError,
    MalformedError,
    Stamp,
    bitcode,
    events,
    pack,
    packed,
    receive,
    seed,
    unpack,
)
from itc.core import core
from itc.nodes import ZERO
from itc.packed import pack_tree, unpack_tree
from itc.stamp import _receive
from tests.leaks import growth
from tests.unit.clock_strategies import EVENT_TREES, PATHS, RUNS

has_compiler = bool(shutil.which("gcc") or shutil.which("cc"))
pytestmark = pytest.mark.skipif(
    core is None and (bool(os.environ.get("PURE_PYTHON")) or not has_compiler),
    reason="left out, or no compiler to build it with",
)


def test_it_was_built():
    assert core is not None, "there is a compiler: pip install --editable . builds it"


def test_the_highest_height_that_fits_is_not_raised_beyond():
    highest = Stamp("", events.leaf(2**63 - 1))
    with pytest.raises(OverflowError):
        core.receive(highest)
    assert receive(highest)[1] == highest.event().height_at("") == 2**63


@pytest.mark.parametrize("odd", [None, 5, "", (0, 0, None, None)])
def test_what_is_no_packed_tree_is_refused(odd):
    tree = pack(Stamp.from_trees(0, (0, 1, (0, 2, 0))))
    for call in (
        lambda: core.join(odd, tree),
        lambda: core.join(tree, odd),
        lambda: core.join(tree),
        lambda: core.leq(odd, tree),
        lambda: core.leq(tree, odd),
        lambda: core.leq(odd, odd),
        lambda: core.height_at(odd, ""),
        lambda: core.height_at(tree, None),
        lambda: core.is_packed(odd),
        lambda: core.text(odd),
        lambda: core.code("", odd),
        lambda: core.code(None, tree),
        lambda: core.code(tree),
        lambda: core.receive(),
        lambda: core.receive(Stamp(None, tree)),
    ):
        with pytest.raises(TypeError):
            call()


SOUND = pack(Stamp.from_trees(0, (3, 1, (0, (300, 2, 0), 70_000))))


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"\x00",
        SOUND[:-1],
        SOUND + b"\0",
        b"\x09" + SOUND[1:],
        b"\x00" + SOUND[1:],
        SOUND[:2] + b"\x02" + SOUND[3:],
        SOUND[:2] + b"\xff\xff\xff\xff\x0f" + SOUND[3:],
        SOUND[:3] + b"\xff" + SOUND[4:],
        SOUND[:3] + b"\x00" + SOUND[4:],
    ],
)
def test_broken_bytes_are_left_to_python(broken):
    owner, sound = Stamp("01", broken), Stamp("10", SOUND)
    for call in (
        lambda: core.join(broken, SOUND),
        lambda: core.join(SOUND, broken),
        lambda: core.leq(broken, SOUND),
        lambda: core.leq(SOUND, broken),
        lambda: core.receive(owner),
        lambda: core.receive(sound, owner),
        lambda: core.receive(sound, owner, sound),
        lambda: core.receive(owner, sound),
        lambda: core.receive(sound, broken),
        lambda: core.receive(sound, broken, sound),
    ):
        with pytest.raises(OverflowError):
            call()
    for call in (
        lambda: unpack(broken),
        lambda: receive(owner),
        lambda: receive(sound, owner, sound),
        lambda: receive(sound, SOUND, broken),
        lambda: sound.join(owner),
        lambda: sound.leq(owner),
    ):
        with pytest.raises(MalformedError):
            call()
    assert core.text(broken) is None
    assert core.code("", broken) is None
    assert not core.is_packed(broken)


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
    assert done.stdout.strip() == pack(left.event().join(right.event())).hex()


def test_what_is_deep_is_the_same():
    path, other = "01" * 1_000, "10" * 1_000
    deep, deeper = Stamp.of_interval(path, 3), Stamp.of_interval(path + other, 2)
    for stamp, others in ((deep, ()), (deep, (deeper,)), (deeper, (deep, deep))):
        assert core.receive(stamp, *others) == _receive(stamp, *others)
        packed = [pack(each) for each in others]
        assert core.receive(stamp, *packed) == _receive(stamp, *packed) == receive(stamp, *others)
    assert core.height_at(pack(deep), path + other) == 3


def test_who_owns_nothing_or_much_receives_nothing():
    left, right = seed().fork()
    two = left.fork()[0].join(right.fork()[0])
    for odd in (seed().peek(), two):
        with pytest.raises(AnonymousError):
            receive(odd, seed())


def test_what_is_no_stamp_is_refused():
    for stamps in ((5,), (seed(), "0"), (Stamp.of_interval("0"), *[seed()] * 20, None)):
        with pytest.raises(AttributeError):
            core.receive(*stamps)


def test_large_trees_are_the_same():
    """More nodes than most have, and heights of several bytes."""
    tree = ZERO
    for number in range(700):
        for _ in range(1 + number % 3):
            tree = events.raise_interval(tree, f"{number * 911 % 1024:010b}")
    for high in (0, 1_000, 2**40):
        other = events.raise_ground(ZERO, high, "1010101010")
        joined = pack_tree(events.join(tree, other))
        assert core.join(pack_tree(tree), pack_tree(other)) == joined
        assert core.text(joined) == packed._event_text(joined)
        assert core.code("001", joined) == bitcode._code("001", unpack(joined)._event)
        for path in ("", "1010101010", "101010101", "0", "0000000001000"):
            assert core.height_at(joined, path) == packed._height_at(joined, path)


SMALL_TREES = st.recursive(
    st.integers(0, 3) | st.sampled_from([255, 256, 70_000, 2**40, 2**62]),
    lambda part: st.tuples(st.integers(0, 2), part, part),
    max_leaves=12,
)


@st.composite
def large_trees(draw):
    """Two event trees, of more nodes than a word has bits, mostly with nearly the same shape."""
    chance = draw(st.randoms(use_true_random=False))
    heights = draw(
        st.sampled_from([(0, 1), (0, 0, 0, 1, 2), range(300), (5,), (0, 255, 256, 70_000, 2**40)])
    )

    def grown(leaves):
        if leaves == 1:
            return events.leaf(chance.choice(heights))
        left = chance.randint(1, leaves - 1) if chance.random() < 0.2 else leaves // 2
        return events.node(grown(left), grown(leaves - left))

    def changed(tree, often):
        low, _, left, right = tree
        if chance.random() < often:
            return grown(chance.randint(1, 4))
        if left is None:
            return events.leaf(low + chance.randint(0, 1))
        return events.node(changed(left, often), changed(right, often))

    sizes = st.sampled_from([31, 32, 33, 63, 64, 65, 100, 200])
    one = grown(draw(sizes))
    if draw(st.booleans()):
        return one, changed(one, draw(st.sampled_from([0, 0.01, 0.1])))
    return one, grown(draw(sizes))


def owner(tree, path):
    return Stamp(path, events_of(tree))


def events_of(tree):
    return Stamp.from_trees(0, tree)._event


@given(SMALL_TREES, SMALL_TREES)
def test_joins_are_the_same_and_the_same_object_where_nothing_changes(one_tree, other_tree):
    a, b = events_of(one_tree), events_of(other_tree)
    one, other = pack_tree(a), pack_tree(b)
    joined = core.join(one, other)
    assert joined == core.join(other, one) == pack_tree(events.join(a, b))
    assert core.join(joined, one) is joined
    assert one == joined or core.join(one, joined) is joined


@given(SMALL_TREES, SMALL_TREES)
def test_comparisons_are_the_same(one_tree, other_tree):
    a, b = events_of(one_tree), events_of(other_tree)
    for x, y in ((a, b), (b, a), (a, a), (a, events.join(a, b)), (events.join(a, b), b)):
        assert core.leq(pack_tree(x), pack_tree(y)) == events.leq(x, y)


@given(SMALL_TREES, st.text("01", max_size=10))
def test_heights_texts_and_codes_are_the_same(tree, path):
    data = pack_tree(events_of(tree))
    height = events.height_at(events_of(tree), path)
    assert core.height_at(data, path) == packed._height_at(data, path) == height
    assert core.text(memoryview(data)) == packed._event_text(data)
    assert core.code(path, memoryview(data)) == bitcode._code(path, events_of(tree))
    assert core.is_packed(data)


@given(SMALL_TREES, PATHS, st.lists(SMALL_TREES, max_size=10))
def test_what_is_received_is_the_same(tree, path, others):
    stamp, others = owner(tree, path), [Stamp.from_trees(0, other) for other in others]
    assert core.receive(stamp, *others) == _receive(stamp, *others)


@given(large_trees(), st.text("01", max_size=12))
def test_large_trees_are_the_same_wherever_their_shapes_differ(trees, path):
    a, b = trees
    one, other = pack_tree(a), pack_tree(b)
    assert core.join(one, other) == core.join(other, one) == pack_tree(events.join(a, b))
    stamp, known = Stamp(path, a), Stamp(None, b)
    for others in ((), (known,), (known, stamp)):
        assert core.receive(stamp, *others) == _receive(stamp, *others)


@given(RUNS)
def test_it_is_the_same_on_real_runs_whoever_owns_what(run):
    ever, _ = run
    stamps = [known.stamp for known in ever]
    for stamp, *others in zip(stamps, stamps[1:], stamps[2:], strict=False):
        joined = core.join(stamp.packed, others[0].packed)
        assert joined == pack_tree(events.join(stamp._event, others[0]._event))
        if stamp.interval is not None:
            got, expected = core.receive(stamp, *others), _receive(stamp, *others)
            assert got == expected
            assert got[0].interval == stamp.interval
            assert core.receive(stamp) == _receive(stamp)


@given(RUNS, st.integers(1, 600))
def test_events_alone_are_the_same_however_many(run, count):
    _, alive = run
    for stamp in (known.stamp for known in alive if known.stamp.interval is not None):
        for _ in range(count):
            expected = _receive(stamp)
            assert core.receive(stamp) == expected
            stamp = expected[0]


@given(EVENT_TREES, EVENT_TREES, PATHS)
def test_what_is_too_high_for_it_is_done_in_python(a, b, path):
    one, other = Stamp.of_interval(path).join(Stamp.from_trees(0, a)), Stamp.from_trees(0, b)
    assert one.join(other)._event == events.join(one._event, other._event)
    assert one.leq(other) == events.leq(one._event, other._event)
    assert one.height_at(path) == events.height_at(one._event, path)
    assert receive(one, other) == _receive(one, other)


@st.composite
def damaged(draw):
    data = bytearray(pack(Stamp.from_trees(0, draw(SMALL_TREES))))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
    return bytes(data)


@given(damaged(), SMALL_TREES, PATHS)
def test_of_damaged_bytes_it_takes_those_that_python_takes(data, tree, path):
    try:
        height = unpack_tree(data)[1]
    except MalformedError:
        height = None
    assert core.is_packed(data) == (height is not None and height < 2**63)
    for use in (
        lambda: core.join(data, pack_tree(events_of(tree))),
        lambda: core.leq(pack_tree(events_of(tree)), data),
        lambda: core.receive(Stamp(path, data), owner(tree, path)),
        lambda: core.height_at(data, path),
    ):
        with suppress(OverflowError):
            use()


def test_nothing_is_leaked():
    one, other = (owner((n, (0, 1, (2, 0, n)), (0, n, 4)), "0110") for n in (3, 5))
    broken, odd = Stamp(None, other.packed[:-1]), Stamp(None, ())
    a, b = one.packed, other.packed

    def work():
        core.height_at(core.join(a, b), "0110")
        core.leq(a, b)
        core.text(b)
        core.code("01", b)
        core.receive(one)
        core.receive(one, other)
        core.receive(one, *[other, one] * 5)
        for wrong in (broken, odd):
            for stamps in ((one, wrong), (one, other, wrong), (one, wrong, other), (wrong,)):
                with suppress(TypeError, OverflowError, ValueError):
                    core.receive(*stamps)
        for call in (core.join, core.leq):
            for those in ((a, broken.packed), (broken.packed, b)):
                with suppress(OverflowError):
                    call(*those)
        core.is_packed(broken.packed)
        core.text(broken.packed)
        core.code("01", broken.packed)

    assert growth(work, 500) < 1_000
