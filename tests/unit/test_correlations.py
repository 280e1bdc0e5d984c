"""How messages are taken apart, compared and judged, without Spark."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from model.in_hand import AloneInHand
from spark_jobs.reports.key_pairs import PairJudge, PathPair, hand_figures
from spark_jobs.reports.message_fields import (
    DEPTH_LEFT,
    FIELDS_LEFT,
    LONG_LEFT,
    MOST_FIELDS,
    NOT_JSON,
    fields_of,
    is_time,
)
from spark_jobs.reports.survey import KeyPath, KeyRefusal, SurveyEvent, survey_paths
from spark_jobs.reports.value_matches import Rows, ValueMatches, match_values, members_of

NOON = 1_767_268_800_000_000  # 2026-01-01T12:00:00Z


def test_a_message_is_taken_apart_by_place() -> None:
    properties = {
        "message_id": "m-1",
        "timestamp": 5,
        "headers": {"a/b": 7, "x-death": [{"queue": "q"}], "stack": ["x", "y"], "flag": True},
    }
    body = b'{"order": {"id": 17}, "lines": [{"sku": "s"}], "total": 1.5, "nothing": null}'
    left: Counter[str] = Counter()
    assert fields_of(properties, body, left) == [
        ("$message.property#/message_id", "m-1"),
        ("$message.payload#/order/id", "17"),
        ("$message.payload#/lines/0/sku", "s"),
        ("$message.header#/a~1b", "7"),
        ("$message.header#/stack", "x"),
        ("$message.header#/stack", "y"),
        ("$message.header#/stack/-1", "y"),
        ("$message.header#/stack/-2", "x"),
    ]
    assert not left


def test_what_is_beyond_a_bound_is_left_out_and_counted() -> None:
    left: Counter[str] = Counter()
    headers = {f"h{number}": f"value {number}" for number in range(10_000)}
    found = fields_of({"headers": headers}, b'{"id": "k"}', left)
    assert len(found) == MOST_FIELDS
    assert found[0] == ("$message.payload#/id", "k")
    assert left.pop(FIELDS_LEFT) == 1
    assert fields_of({}, b"not JSON", left) == fields_of({}, b"{broken", left) == []
    assert left.pop(NOT_JSON) == 2
    assert fields_of({"headers": {"big": "x" * 1_000_000}}, b"", left) == []
    assert left.pop(LONG_LEFT) == 1
    deep = json.loads('{"a":' * 50 + "1" + "}" * 50)
    assert fields_of({"headers": deep}, b"", left) == []
    assert left.pop(DEPTH_LEFT) == 1
    assert fields_of({}, b"[" * 100_000, left) == []
    assert not left - Counter({NOT_JSON: 1})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-01-01T12:00:00Z", True),
        ("2026-01-01 12:00:00.123+01:00", True),
        ("2019-05-05", True),
        ("1767268801", True),
        ("1767268801123", True),
        ("1567268801123", False),  # another year: a number
        ("100017", False),
        ("2026-0001", False),
        ("0b8a8c9e-6f8e-4f8e-8d2e-0f2c9a7e4d11", False),
    ],
)
def test_times_are_known_by_what_they_say(value: str, expected: bool) -> None:
    assert is_time(value, NOON) is expected


def seen(number: int, **values: str) -> SurveyEvent:
    fields = [(f"$message.header#/{name}", value) for name, value in values.items()]
    return SurveyEvent(number, number % 2 == 1, 1, number, NOON + number, fields)


def test_a_survey_says_what_places_are_like() -> None:
    part = [
        seen(n, id=f"id-{n:08}", state="abc"[n % 3], at="2026-01-01", seq=str(n // 2), same="x")
        for n in range(1, 200)
    ]
    places = {place.text.rpartition("/")[2]: place for place in survey_paths([part], {1})}
    assert places["id"].refusal is None
    assert places["id"].is_long
    assert not places["id"].is_counted
    assert places["seq"].is_counted
    assert places["state"].refusal is places["same"].refusal is KeyRefusal.repeats
    assert places["at"].refusal is KeyRefusal.time


def rows_of(events: list[tuple[int, bool, int, dict[int, int]]]) -> Rows:
    """Rows of (event, whether it is a publish, participant, value by place)."""
    made = [
        (value, place, who, event, event, 0, is_publish)
        for event, is_publish, who, values in events
        for place, value in values.items()
    ]
    columns = [np.array(column) for column in zip(*made, strict=True)]
    return Rows(*columns[:6], columns[6].astype(bool))


def found_among(events: list[tuple[int, bool, int, dict[int, int]]]) -> ValueMatches:
    rows = rows_of(events)
    roll = {
        "id": np.array([each[0] for each in events]),
        "is_publish": np.array([int(each[1]) for each in events]),
        "participant": np.array([each[2] for each in events]),
    }
    return match_values(rows, members_of(roll, 1), np.ones(3, dtype=bool), 1)


def test_a_publish_means_deliveries_before_it_of_its_own_participant() -> None:
    found = found_among(
        [
            (1, True, 1, {0: 10}),
            (2, False, 2, {0: 10}),
            (3, True, 2, {1: 10}),  # means 2
            (4, True, 3, {1: 10}),  # was never handed it
            (5, False, 2, {0: 11}),
            (6, True, 2, {1: 12}),
            (7, True, 2, {1: 13}),
            (8, False, 2, {0: 13}),  # too late
        ]
    )
    assert found.pairs.hits.tolist() == [1]
    assert (found.hits.event.tolist(), found.hits.delivery.tolist()) == ([3], [2])
    assert (found.pairs.parent.tolist(), found.pairs.child.tolist()) == ([0], [1])


def test_what_only_publishes_is_joined_with_what_was_only_handed_it() -> None:
    events: list[tuple[int, bool, int, dict[int, int]]] = []
    for order in range(30):
        at = 10 * order
        events += [
            (at + 1, True, 1, {0: order}),
            (at + 2, False, 2, {0: order}),
            (at + 3, True, 3, {0: order}),
            (at + 4, False, 4, {0: order}),
            (at + 5, True, 5, {0: order}),
        ]
    programs = found_among(events).programs
    by_two = {
        (to, by): (known, newest)
        for to, by, known, newest in zip(
            programs.receiver.tolist(),
            programs.publisher.tolist(),
            programs.publishes.tolist(),
            programs.newest.tolist(),
            strict=True,
        )
    }
    assert by_two[2, 3] == by_two[4, 5] == (30, 30)
    assert by_two[2, 5] == (30, 0)


def place(
    text: str, *, is_counted: bool = False, is_gapless: bool = False, is_long: bool = True
) -> KeyPath:
    return KeyPath(f"$message.header#/{text}", 100, 1.0, is_long, is_counted, is_gapless, None)


def pair_of(parent: KeyPath, child: KeyPath, **figures: int) -> PathPair:
    usual = {"hits": 100, "unique": 100, "candidates": 100, "measured": 50, "chance": 0}
    made = usual | {"origins": 100, "values": 100, "replies": 0, "rivals": 0} | figures
    return PathPair(parent, child, **made)


@pytest.mark.parametrize(
    ("figures", "why"),
    [
        ({"values": 3}, KeyRefusal.repeats),
        ({"chance": 20}, KeyRefusal.chance),
        ({"candidates": 900}, KeyRefusal.ambiguous),
        ({"origins": 400}, KeyRefusal.many_origins),
    ],
)
def test_what_a_pair_is_refused_for(figures: dict[str, int], why: KeyRefusal) -> None:
    pair = pair_of(place("a"), place("a"), **figures)
    judged = PairJudge([pair], {}, {}).judge()
    assert (judged.proposals, [each.refusal for each in judged.refused]) == ([], [why])


@pytest.mark.parametrize(("measured", "chance"), [(9, None), (24, None), (25, 0.2), (100, 0.05)])
def test_chance_is_known_of_enough_hits_or_not_at_all(measured: int, chance: float | None) -> None:
    pair = pair_of(place("a"), place("a"), measured=measured, chance=5)
    assert pair.by_chance == chance


def test_links_and_better_pairs_have_to_agree() -> None:
    good, counter, wrong = place("good"), place("n", is_counted=True, is_long=False), place("bad")
    pairs = [pair_of(each, each) for each in (good, counter, wrong)]
    right = {event: {event - 1} for event in range(1, 101)}
    off = {event: {event - 9} for event in range(1, 101)}
    meant = {(p.text, p.text): m for p, m in ((good, right), (counter, off), (wrong, off))}
    linked = {event: {event - 1} for event in range(1, 51)}
    judged = PairJudge(pairs, meant, linked).judge()
    assert [each.best.child for each in judged.proposals] == [good]
    assert (judged.proposals[0].agreement, judged.proposals[0].linked) == (1.0, 50)
    assert {each.refusal for each in judged.refused} == {KeyRefusal.unlinked}
    for exact, rivals in ((True, 0), (False, 3)):
        own = place("n", is_counted=True, is_gapless=exact, is_long=False)
        alone = PairJudge([pair_of(own, own, rivals=rivals)], meant, {}).judge()
        assert [each.refusal for each in alone.refused] == [KeyRefusal.counter]
    assert [each.best.child for each in PairJudge([pairs[1]], meant, {}).judge().proposals] == [
        counter
    ]
    unlinked = PairJudge(pairs[:2], meant, {}).judge()
    assert [each.refusal for each in unlinked.refused] == [KeyRefusal.disagrees]


def test_how_often_it_was_what_was_in_hand_is_told_of_those_of_whom_enough_is_known() -> None:
    found = [AloneInHand(100 + k, k % 2, k, k) for k in range(1, 61)]
    told = {100 + k: k for k in range(1, 43)} | {102: 7}
    one, other = hand_figures(found, told, 3)
    assert (one.participant, one.publishes, one.linked, one.agreement) == (0, 30, 21, 20 / 21)
    assert (other.participant, other.linked, other.agreement) == (1, 21, 1.0)
    # Those are shown of which nothing else is known.
    assert other.examples == [(143, 43), (149, 49), (155, 55)]
    assert hand_figures(found, {each: told[each] for each in [*told][:38]}, 3) == []
