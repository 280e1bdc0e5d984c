"""`rabbitmq-itc verify`: what is true passes, and whatever is changed is found."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.cli.verifying import VERDICTS, faults, sentence_of
from tests.spark.histories import doubtful_history
from tests.verdicts import touched

Json = dict[str, Any]


@given(st.integers(0, 2**32), st.integers(0, 2**32), st.booleans())
def test_nothing_is_wrong_with_what_is_true(seed: int, which: int, sure: bool) -> None:
    history = doubtful_history(random.Random(seed), 60, present=4)
    manifest, rows = touched(history, 1 + which % 50, sure=sure)
    assert [*faults(manifest, rows)] == []


HISTORY = doubtful_history(random.Random(1), 160, present=5)
START = 35


@given(st.integers(0, 2**32), st.sampled_from(["caused", "may_have", "cannot_have", "unknown"]))
def test_another_verdict_is_found(seed: int, verdict: str) -> None:
    dice = random.Random(seed)
    manifest, rows = touched(HISTORY, START)
    row = dice.choice([each for each in rows if each["verdict"] != verdict])
    manifest[row["verdict"]] -= 1
    manifest[verdict] += 1
    row["verdict"] = verdict
    found = [*faults(manifest, rows)]
    assert any(f"event {row['id']} " in each and each.startswith("line ") for each in found)


def _clock_of_another(row: Json, rows: list[Json], dice: random.Random) -> None:
    row["clock"] = dice.choice([each["clock"] for each in rows if each["clock"] != row["clock"]])


def _set(**fields: object) -> Callable[[Json, list[Json], random.Random], None]:
    return lambda row, rows, dice: row.update(fields)


def _other_doubt(row: Json, rows: list[Json], dice: random.Random) -> None:
    """A doubtful delivery said to be none, which makes what lies behind it impossible."""
    newest = max(each["id"] for each in rows if each["doubtful"])
    for each in rows:
        each["doubtful"] = each["id"] == newest


CHANGES: dict[str, Callable[[Json, list[Json], random.Random], None]] = {
    "another clock": _clock_of_another,
    "other doubts": _other_doubt,
    "neither doubtful nor not": _set(doubtful=None),
    "no clock": _set(clock=""),
    "rubbish for a clock": _set(clock="////"),
    "no base64": _set(clock="é"),
    "another height": lambda row, rows, dice: row.update(height=row["height"] + 1),
    "another number": lambda row, rows, dice: row.update(seq=row["seq"] + 1),
    "another participant": lambda row, rows, dice: row.update(participant=row["participant"] + 99),
    "an id of before": _set(id=START - 1),
    "an id from the future": _set(id=10**9),
    "no verdict": _set(verdict=None),
    "no id": lambda row, rows, dice: row.pop("id") and None,
    "text for a number": _set(id="7"),
    "missing": lambda row, rows, dice: rows.remove(row),
    "twice": lambda row, rows, dice: rows.insert(rows.index(row), copy.deepcopy(row)),
    "a cause that is none": lambda row, rows, dice: row.update(
        by={"cause": 10**9, "how": "link", "rule": "r", "kind": "parent", "late": False}
    ),
    "rubbish for a cause": _set(by=[1]),
    "one of one": _set(candidates=1),
    "any of several publishes": _set(candidates=2, type="published"),
    "a message for certain, and of several": _set(
        candidates=2,
        by={"cause": START, "how": "message", "rule": None, "kind": None, "late": False},
    ),
}


@pytest.mark.parametrize("change", CHANGES)
@given(st.integers(0, 2**32))
def test_a_changed_row_is_found(change: str, seed: int) -> None:
    dice = random.Random(seed)
    manifest, rows = touched(HISTORY, START)
    CHANGES[change](dice.choice(rows), rows, dice)
    assert [*faults(manifest, rows)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("caused", 0),
        ("may_have", 10**6),
        ("events", 1),
        ("events", None),
        ("complete", False),
        ("sound", False),
        ("gaps", [{"id": 1}]),
        ("doubts", ["perhaps"]),
        ("as_of", 8),
        ("as_of", "8"),
        ("starts", []),
        ("starts", None),
        ("starts", [{"id": 1}]),
    ],
)
def test_a_changed_manifest_is_found(name: str, value: object) -> None:
    manifest, rows = touched(HISTORY, START)
    assert [*faults({**manifest, name: value}, rows)]


def test_a_manifest_without_something_is_found() -> None:
    manifest, rows = touched(HISTORY, START)
    for name in manifest:
        assert [*faults({key: each for key, each in manifest.items() if key != name}, rows)], name


def test_a_late_link_is_believed_only_where_the_manifest_tells_of_it() -> None:
    manifest, rows = touched(HISTORY, START)
    row = next(each for each in rows if each["verdict"] == "cannot_have")
    by = {"cause": START, "how": "link", "rule": "late", "kind": "parent", "late": True}
    row.update(verdict="caused", by=by)
    manifest["caused"] += 1
    manifest["cannot_have"] -= 1
    assert any("late link" in each for each in faults(manifest, rows))
    unsure, its = touched(HISTORY, START, sure=False)
    row = next(each for each in its if each["verdict"] == "unknown")
    row.update(verdict="caused", by=by)
    unsure["caused"] += 1
    unsure["unknown"] -= 1
    counts = {name: unsure[name] for name in VERDICTS}
    unsure["sentence"] = sentence_of(counts, complete=True, sound=False)
    assert [*faults(unsure, its)] == []
