"""The compiled core agrees with the Python that it replaces, to the object and to the byte."""

import os
import shutil
import subprocess
import sys

import pytest

from itc import AnonymousError, Stamp, events, messages, packed, receive, seed
from itc.core import core
from itc.nodes import ZERO

has_compiler = bool(shutil.which("gcc") or shutil.which("cc"))
pytestmark = pytest.mark.skipif(
    core is None and (bool(os.environ.get("PURE_PYTHON")) or not has_compiler),
    reason="left out, or no compiler to build it with",
)


def test_it_was_built():
    assert core is not None, "there is a compiler: pip install --editable . builds it"


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


def owner(tree, path):
    return Stamp(path, Stamp.from_trees(0, tree)._event)


def test_what_the_others_had_is_shared():
    stamp, other = owner((0, 5, (1, 0, 2)), "0"), owner((0, 3, (4, 1, 2)), "111")
    assert receive(stamp, other)[0]._event[3] is other._event[3]


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
