"""The judge of `drills.dispositions`, on logs made by hand."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from drills.dispositions import judge, outcomes
from drills.settlements import MARKS, UNKNOWN_TAG, WORK, Life, Step
from model.words import Disposition, EventType

CONSUMED: Step = ("consumer", WORK, False)
GET: Step = ("get", WORK, False)
ANSWERED: Step = ("answered", "Basic.GetEmpty")


def handed(*tags: int) -> list[Step]:
    return [("handed", tag) for tag in tags]


def settled(tag: int, outcome: str = "acknowledged", *, multiple: bool = False) -> Step:
    return ("settled", outcome, tag, multiple)


def life(*steps: Step) -> Life:
    handed = {step[1]: b"%d" % step[1] for step in steps if step[0] in ("handed", "got")}
    return Life("c", 1, handed=handed, log=[*enumerate(steps, 1)])


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([*handed(1, 2, 3), settled(2, multiple=True), ANSWERED], ["a", "a", "c"]),
        ([*handed(1, 2), settled(1), settled(2, "rejected")], ["ac", "cr"]),  # not answered
        ([*handed(1), settled(0, multiple=True), *handed(2), ANSWERED], ["a", "ac"]),  # on its way
        ([*handed(1), settled(0, multiple=True), ANSWERED, *handed(2)], ["a", "c"]),
        ([*handed(1), ("recovered",), ANSWERED, *handed(2), settled(2), ANSWERED], ["b", "a"]),
        ([("selected",), *handed(1), settled(1), ("committed",), ANSWERED], ["a"]),
        ([("selected",), *handed(1), settled(1), ("rolled_back",), ANSWERED], ["c"]),
        ([("selected",), *handed(1), settled(1), ANSWERED], ["c"]),
        ([*handed(1), settled(UNKNOWN_TAG), ("answered", "Channel.Close")], ["c"]),
        ([*handed(1), settled(1), ("answered", "Channel.Close")], ["ac"]),  # over what is not known
        ([("consumer", WORK, True), *handed(1), GET, ("got", 2)], ["u", "c"]),
        ([("consumer", WORK, True), GET, *handed(1), ANSWERED], ["u"]),  # it was on its way
        ([("selected",), settled(0, multiple=True), *handed(1), ANSWERED], ["ac"]),
    ],
)
def test_what_may_have_become_of_deliveries(steps: list[Step], expected: list[str]) -> None:
    first = {
        "acknowledged": "a",
        "rejected": "r",
        "returned": "b",
        "channel_closed": "c",
        "auto": "u",
    }
    found = outcomes(life(CONSUMED, *steps), len(expected))
    assert ["".join(sorted(first[each] for each in found[tag].of)) for tag in found] == expected


def test_what_is_not_committed_may_be_unknown_where_something_is_settled_that_may_not_be_held() -> (
    None
):
    taken = [("selected",), *handed(1), settled(0, multiple=True), *handed(2), ANSWERED]
    found = outcomes(life(CONSUMED, *taken, settled(2), ("committed",)), 2)
    assert [found[tag].is_odd for tag in found] == [True, True]
    found = outcomes(life(CONSUMED, *taken, ("committed",), ANSWERED, *handed(3), settled(2)), 3)
    assert [found[tag].is_odd for tag in found] == [False, True, True]


@pytest.mark.parametrize(
    ("said", "gap", "is_fault"),
    [
        ("acknowledged", False, False),
        ("rejected", False, True),
        ("in_hand", False, True),
        (None, False, True),
        (None, True, False),
        ("rejected", True, True),  # nor may it be wrong in a gap
    ],
)
async def test_what_is_wrong_or_unknown_is_a_fault(
    tmp_path: Path, said: str | None, gap: bool, is_fault: bool
) -> None:
    its = life(CONSUMED, *handed(1, 2, 3), settled(3, multiple=True), ANSWERED)
    events = [(1, EventType.published, None, f'["{MARKS}"]', b"%d" % id(its), None)]
    for tag in (1, 2, 3):
        how = said if tag == 3 else "acknowledged"
        number = None if how is None else int(Disposition[how])
        events.append((tag + 1, EventType.received, WORK, "[]", b"%d" % tag, number))
    with closing(sqlite3.connect(tmp_path / "itc.db")) as store, store:
        store.execute(
            "CREATE TABLE events (id, type, queue, routing_keys, payload, settlement, settled_at"
            " DEFAULT 9, recorded_at DEFAULT 1, channel DEFAULT 1, trace_id DEFAULT 1)"
        )
        store.execute("CREATE TABLE channels (trace_id, number, connection, channel)")
        store.execute(
            "CREATE TABLE gaps (since, until, after_event_id, before_event_id, reason, suspected)"
        )
        store.execute("INSERT INTO channels VALUES (1, 1, 'c', 1)")
        store.executemany(
            "INSERT INTO events (id, type, queue, routing_keys, payload, settlement)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            events,
        )
        store.executemany("INSERT INTO gaps VALUES (1, 2, 0, 3, 'it was off', 0)", [()] * gap)
    report = await judge(f"sqlite+aiosqlite:///{tmp_path}/itc.db", [its])
    assert bool(report.faults) == is_fault
    assert report.right.total() == (2 if said != "acknowledged" else 3)
