"""Which of the long tests run: all, none of the others, or a sample that a seed decides.

A test marked ``long(seconds)`` is one of a kind that shorter ones stand for in every run: a fault
among faults, a size among sizes. A sample takes as many as fit into a bound, in an order that the
seed alone decides, so the same seed gives the same tests, on whichever process, and over many
seeds each is run.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

# For a sample, by two processes together: about a minute by the clock.
SAMPLE_SECONDS = 120.0
NO_COMMIT = "0"  # the seed where nothing says which commit this is
CHOICES = ("all", "sample", "only")


def seed_of(checkout: Path) -> str:
    """The commit that is checked out, or a fixed word where git cannot say."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=checkout, capture_output=True, text=True, check=False
        )
    except OSError:
        return NO_COMMIT
    return done.stdout.strip()[:12] if done.returncode == 0 else NO_COMMIT


def chosen(seconds: Mapping[str, float], seed: str, bound: float = SAMPLE_SECONDS) -> set[str]:
    """Some of the tests in ``seconds``, which says how long each takes, within ``bound`` seconds.

    The first in the seed's order is always one of them, however long it takes.
    """

    def place(name: str) -> bytes:
        return hashlib.sha256(f"{seed} {name}".encode()).digest()

    found: set[str] = set()
    left = bound
    for name in sorted(seconds, key=place):
        if not found or seconds[name] <= left:
            found.add(name)
            left -= seconds[name]
    return found


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("long tests")
    group.addoption(
        "--long",
        choices=CHOICES,
        default="all",
        help="of the tests marked long: all (the default), a sample, or only these and no others",
    )
    group.addoption("--sample-seed", metavar="WORD", help="decides the sample, else the commit")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("long") == "sample" and not config.getoption("sample_seed"):
        config.option.sample_seed = seed_of(config.rootpath)  # the processes of xdist are told it


def pytest_report_header(config: pytest.Config) -> str | None:
    if config.getoption("long") != "sample":
        return None
    return f"long tests: a sample, again by --sample-seed={config.getoption('sample_seed')}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    choice = config.getoption("long")
    if choice == "all":
        return
    long = {item.nodeid: _seconds(mark) for item in items if (mark := _mark(item))}
    kept = (
        set(long)
        if choice == "only"
        else {item.nodeid for item in items} - set(long)
        | chosen(long, config.getoption("sample_seed"))
    )
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
    items[:] = [item for item in items if item.nodeid in kept]


def _mark(item: pytest.Item) -> pytest.Mark | None:
    return item.get_closest_marker("long")


def _seconds(mark: pytest.Mark) -> float:
    (seconds,) = mark.args
    return float(seconds)
