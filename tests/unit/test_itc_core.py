"""The compiled core agrees with the Python that it replaces, to the byte."""

import os
import shutil
import subprocess
import sys

import pytest

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
from itc.packed import pack_tree
from itc.stamp import _receive

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
        other = events.raised(ZERO, high, "1010101010")
        joined = pack_tree(events.join(tree, other))
        assert core.join(pack_tree(tree), pack_tree(other)) == joined
        assert core.text(joined) == packed._event_text(joined)
        assert core.code("001", joined) == bitcode._code("001", unpack(joined)._event)
        for path in ("", "1010101010", "101010101", "0", "0000000001000"):
            assert core.height_at(joined, path) == packed._height_at(joined, path)
