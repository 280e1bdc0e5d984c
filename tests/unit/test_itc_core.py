"""The compiled core agrees with the Python that it replaces, to the object and to the byte."""

import os
import shutil
import subprocess
import sys

import pytest

from itc import Stamp, events, packed, seed
from itc.core import core

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
