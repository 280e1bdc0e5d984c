"""Following events one by one, and runs of them, against the truth: no Spark, no store."""

from __future__ import annotations

import random

import numpy as np
import pytest

from model.words import EdgeKind, Via
from spark_jobs.chains.in_memory import LinkColumns, SpanColumns, chain_of, leads, ranges_of
from spark_jobs.events.causes import NamedCause, causes_in, text_of_causes
from spark_jobs.events.ranges import Longs, Range, Ranges
from spark_jobs.events.slices import parts_of_ranges
from tests.spark.histories import History, Link, linked_history, linked_pairs


def longs(values: list[int]) -> Longs:
    return np.array(values, dtype=np.int64)


def span_between(history: History, first: int, last: int) -> SpanColumns:
    """All events of a trace between two, as if they had been read."""
    trace = history.rows[first - 1]["trace_id"]
    rows = [row for row in history.rows[first - 1 : last] if row["trace_id"] == trace]
    at = {row["id"]: position for position, row in enumerate(rows)}

    def links(*, candidates: bool) -> LinkColumns:
        pairs = [
            (at[link.cause], at[row["id"]])
            for row in rows
            for link in history.links.get(row["id"], ())
            if link.cause in at and not row["quiet"]
            if (link.kind is EdgeKind.candidate) is candidates
        ]
        return LinkColumns(longs([a for a, _ in pairs]), longs([b for _, b in pairs]))

    shared = [
        (at[row["id"]], ord(name))
        for row in rows
        for name in history.shared[row["id"]]
        if not row["quiet"]
    ]
    return SpanColumns(
        ids=longs([row["id"] for row in rows]),
        types=longs([row["type"] for row in rows]),
        participants=longs([row["participant"] for row in rows]),
        heights=longs([row["height"] for row in rows]),
        seqs=longs([row["seq"] for row in rows]),
        causes=longs([0 if row["quiet"] else row["cause_id"] or 0 for row in rows]),
        links=links(candidates=False),
        candidates=links(candidates=True),
        conversations=LinkColumns(longs([a for a, _ in shared]), longs([b for _, b in shared])),
    )


@pytest.mark.parametrize("churn", [0.0, 0.05])
@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_followed_is_the_true_chain(seed: int, churn: float) -> None:
    rng = random.Random(seed)
    history = linked_history(rng, 240, present=5, churn=churn)
    sizes: dict[Via, int] = dict.fromkeys(Via, 0)
    for first, last in linked_pairs(rng, history, 150):
        span = span_between(history, first, last)
        for via in Via:
            truth = history.evident(first, last, via)
            if via is Via.any:
                truth = history.chain(first, last)
            chain = chain_of(span, via)
            assert set(span.ids[chain].tolist()) == truth
            assert leads(span, via) == bool(truth)
            sizes[via] = max(sizes[via], len(truth))
    assert 5 < sizes[Via.links] <= sizes[Via.conversation] < sizes[Via.any]


def test_a_chain_with_holes_is_a_range_for_each_run() -> None:
    rng = random.Random(3)
    history = linked_history(rng, 240, present=4)
    holed = 0
    for first, last in linked_pairs(rng, history, 150):
        span = span_between(history, first, last)
        chain = chain_of(span, Via.links)
        ranges = ranges_of(span, chain)
        assert ranges == sorted(ranges)
        assert sum(each.events for each in ranges) == chain.sum()
        arrays = Ranges.from_ranges(ranges)
        assert (arrays.hold(span.participants, span.heights) == chain).all()
        holed += len(ranges) > len({each.participant for each in ranges})
    assert holed > 20


def test_a_part_of_a_chain_with_holes_has_them_too() -> None:
    ranges = [Range(1, 1, 3, 1, 5, 1, 3), Range(1, 7, 9, 11, 15, 6, 8), Range(2, 4, 4, 3, 3, 2, 2)]
    ids, participants, heights = longs([3, 5, 11, 13]), longs([2, 1, 1, 1]), longs([4, 3, 7, 8])
    parts = parts_of_ranges(Ranges.from_ranges(ranges), ids, participants, heights)
    assert [column.tolist() for column in parts.columns()] == [
        [1, 1, 2],
        [3, 7, 4],
        [3, 8, 4],
        [5, 11, 3],
        [5, 13, 3],
    ]
    assert parts.hold(longs([1, 1, 1, 2, 3]), longs([3, 5, 8, 4, 4])).tolist() == [
        True,
        False,
        True,
        True,
        False,
    ]


def test_no_ranges_hold_nothing() -> None:
    assert Ranges.from_ranges([]).positions(longs([1]), longs([1])).tolist() == [-1]


def test_the_causes_of_a_publish_are_read_in_the_order_of_their_ids() -> None:
    text = '[[9, "b", 1, null, null, null, null], [9, "a", 0, 1, 2, 3, 4], [7, "c", 2, 1, 1, 1, 1]]'
    named = causes_in(text)
    assert [(each.cause, each.rule, each.kind.name) for each in named] == [
        (7, "c", "forward"),
        (9, "a", "parent"),
        (9, "b", "reply"),
    ]
    assert [each.is_located for each in named] == [True, True, False]
    assert causes_in(text_of_causes(named)) == named
    assert (causes_in(None), causes_in(""), text_of_causes([])) == ([], [], None)
    assert str(named[0]) == "7 (forward, named by c)"
    assert NamedCause(*Link(7)).to_json() == {"cause": 7, "rule": "celery-parent", "kind": "parent"}
