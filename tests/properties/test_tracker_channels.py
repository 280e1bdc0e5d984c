"""Channels that share a participant: remembered as long as an event of theirs is stored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tracker import Bounds, Policy, StampedEvent, Tracker
from tests.unit.test_tracker_channels import on

SHARING = (Policy.user, Policy.connection)


@pytest.mark.parametrize("policy", SHARING)
def test_a_channel_for_each_request_leaves_as_many_as_are_stored(policy: Policy) -> None:
    tracker = Tracker(policy, Bounds())
    for number in range(1, 1001):
        (event,) = tracker.apply(on(number), 0)
        tracker.checkpoint()
        event.reference.id = number
        assert tracker.forget_before(number - 9) == []
        assert len(tracker.participants._by_channel) == min(number, 10)
    assert len(tracker.participants) == 1


acting = st.lists(
    st.tuples(st.integers(1, 8), st.sampled_from(("ann", "bob")), st.integers(0, 12)), min_size=1
)


@given(acting, st.sampled_from(Policy), st.integers(1, 4))
def test_exactly_those_with_a_stored_event_are_known(
    steps: list[tuple[int, str, int]], policy: Policy, batch: int
) -> None:
    """Each step publishes on a channel and says how many events retention keeps, at batches' ends.

    As in the service: ids are assigned when a batch is stored, and retention runs between batches.
    """
    tracker = Tracker(policy, Bounds())
    events: list[StampedEvent] = []
    begin = 1
    for step, (number, user, keep) in enumerate(steps, 1):
        events += tracker.apply(on(number, user), 0)
        if step % batch:
            continue
        tracker.checkpoint()
        for event_id, event in enumerate(events, 1):
            event.reference.id = event_id
        begin = max(begin, step + 1 - keep)
        tracker.forget_before(begin)
        stored = {event.channel_key for event in events[begin - 1 :]}
        assert len(tracker.participants._by_channel) == len(stored)
