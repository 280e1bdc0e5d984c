"""What publishes name joins their clocks: whom is meant, and what is said where nobody is known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tracker import Bounds, Deliver, Policy, Record, Tracker
from itc import Relation, compare
from tests.unit.test_linker import (
    RULES,
    causes,
    deliver,
    is_certain,
    publish,
    stamped,
    tracker_of,
)
from tests.unit.test_tracker import Store


def test_an_id_that_ten_thousand_messages_have_is_found_as_quickly() -> None:
    tracker = tracker_of(bounds=Bounds(named=5_000))
    events = stamped([publish("a", id="same") for _ in range(10_000)], tracker)
    (event,) = stamped([publish("a", names="same")], tracker)
    assert event.edges[0].cause is events[-1].reference


WHO = ("a/1", "a/2", "b/1", "b/2", "c/1")


@st.composite
def runs(draw: st.DrawFn) -> list[Record]:
    """Messages to two queues, delivered now and again, that name earlier ones, or none that is."""
    records: list[Record] = []
    waiting: list[tuple[str, str]] = []
    for number in range(draw(st.integers(2, 30))):
        who = draw(st.sampled_from(WHO))
        if waiting and draw(st.booleans()):
            queue, name = waiting[draw(st.integers(0, len(waiting) - 1))]
            again = any(isinstance(r, Deliver) and r == deliver(who, queue, name) for r in records)
            records.append(deliver(who, queue, name, again=again))
            continue
        queues = draw(st.lists(st.sampled_from(("q", "r")), unique=True, max_size=2))
        names = draw(st.none() | st.integers(0, number).map(str))
        records.append(publish(who, *queues, id=str(number), names=names))
        waiting += [(queue, str(number)) for queue in queues]
    return records


@given(runs(), st.sampled_from([Policy.channel, Policy.client]))
def test_causes_that_are_named_come_before(records: list[Record], policy: Policy) -> None:
    events = stamped(records, tracker_of(policy))
    for position, event in enumerate(events):
        for cause in causes(event, events):
            assert cause < position
            assert compare(events[cause].stamp, event.stamp) is Relation.before
            assert events[cause].lamport < event.lamport


@pytest.mark.parametrize("named", [4, 100])
@given(records=runs(), batches=st.lists(st.integers(1, 7), max_size=8))
def test_an_interrupted_run_links_as_an_uninterrupted_one(
    named: int, records: list[Record], batches: list[int]
) -> None:
    bounds = Bounds(named=named)
    whole_tracker = tracker_of(bounds=bounds)
    whole = stamped(records, whole_tracker)
    store, position, tracker = Store(), 0, whole_tracker
    for size in [*batches, len(records)]:
        store.restored.named = store.restored.named[-named:]
        tracker = Tracker(Policy.channel, bounds, store.restored, rules=RULES)
        store.append(stamped(records[position : position + size], tracker), tracker.checkpoint())
        position += size
    for one, other in zip(whole, store.events, strict=True):
        assert one.stamp == other.stamp
        ids = [edge.cause.id for edge in other.edges if is_certain(edge)]
        assert ids == [cause + 1 for cause in causes(one, whole)]
    assert tracker.totals().links == whole_tracker.totals().links
