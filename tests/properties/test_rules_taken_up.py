"""Rules of links that change while a trace runs: from then on, and after a crash just the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tracker import Bounds, Policy, Record, StampedEvent, Tracker
from app.tracker.events import Edge
from app.tracker.links import (
    Rules,
)
from model.words import WITHOUT_RULE
from tests.properties.test_linker import runs
from tests.unit.test_linker import stamped
from tests.unit.test_rules_taken_up import ALL, NONE, OTHERS
from tests.unit.test_tracker import Store


def said(events: list[StampedEvent]) -> list[object]:
    """What is stored of events, with ids for references."""
    return [
        (
            str(event.stamp),
            event.lamport,
            event.names,
            sorted((edge.cause.id or 0, edge.rule, edge.kind) for edge in event.edges),
        )
        for event in events
    ]


def links_of(event: StampedEvent) -> list[Edge]:
    return [edge for edge in event.edges if edge.rule not in WITHOUT_RULE]


@pytest.mark.parametrize("window", [0, 3])
@given(
    records=runs(),
    at=st.integers(0, 40),
    crashes=st.sets(st.integers(0, 40), max_size=4),
    before=st.sampled_from([NONE, OTHERS, ALL]),
    after=st.sampled_from([NONE, OTHERS, ALL]),
)
def test_rules_taken_up_hold_the_same_with_crashes_and_without(
    window: int, records: list[Record], at: int, crashes: set[int], before: Rules, after: Rules
) -> None:
    bounds = Bounds(named=10, reorder_window=window)

    def told(crashes: set[int]) -> tuple[list[StampedEvent], Tracker, Store]:
        store, tracker, rules = Store(), Tracker(Policy.channel, bounds, rules=before), before
        for position, record in enumerate([*records, None]):
            if position == at:  # a batch's border; what is stored with it is as of its end
                tracker.take_up(after)
                rules = after
            now = position if record else position + 10
            events = tracker.apply(record, now) if record else [*tracker.close_overdue(now)]
            store.append(events, tracker.checkpoint())
            if position in crashes:
                store.restored.named = store.restored.named[-10:]
                held = [each.cause for each in store.restored.copies]
                held += [each.cause for each in store.restored.handovers]
                for cause in held:  # which are read from the database, in fact
                    cause.names = None
                tracker = Tracker(Policy.channel, bounds, store.restored, rules=rules)
        return store.events, tracker, store

    whole, tracker, _ = told(set())
    broken, other, _ = told(crashes)
    assert said(broken) == said(whole)
    assert other.totals().links == tracker.totals().links


@given(records=runs(), at=st.integers(0, 40))
def test_what_came_before_is_not_read_again(records: list[Record], at: int) -> None:
    tracker = Tracker(Policy.channel, Bounds(), rules=NONE)
    early = stamped(records[:at], tracker)
    tracker.take_up(ALL)
    late = stamped(records[at:], tracker)
    assert not any(links_of(event) for event in early)
    # What makes two messages one is asked by no rule alone, and so read from the start.
    assert all(event.names.ids in ((), (NONE.same(event.record),)) for event in early)
    found = {id(event.reference) for event in late}
    # Of a message that was handed over since, its publish may be the cause.
    found |= {id(event.cause) for event in late}
    assert all(id(edge.cause) in found for event in late for edge in links_of(event))
