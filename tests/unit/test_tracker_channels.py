"""Channels that share a participant: remembered as long as an event of theirs is stored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tracker import Bounds, Channel, Policy, Publish, StampedEvent, Tracker


def on(number: int, user: str = "shop") -> Publish:
    return Publish(Channel("n", "c", number, user), "x", ("key",), (), {}, b"")


def test_a_channel_that_comes_back_is_a_new_one_of_the_same_participant() -> None:
    tracker = Tracker(Policy.user, Bounds())
    events: list[StampedEvent] = []
    for event_id, number in enumerate((1, 2, 2, 1), 1):
        (event,) = tracker.apply(on(number), 0)
        event.reference.id = event_id
        events.append(event)
        tracker.forget_before(event_id)
    assert [event.channel_key for event in events] == [1, 2, 2, 3]
    assert [event.seq for event in events] == [1, 2, 3, 4]


@pytest.mark.parametrize("policy", Policy)
def test_only_channels_that_may_share_a_participant_are_named_as_having_acted(
    policy: Policy,
) -> None:
    tracker = Tracker(policy, Bounds())
    for number in (1, 2, 1):
        tracker.apply(on(number), 0)
    shares = policy is not Policy.channel
    assert tracker.checkpoint().channel_keys_acted == ([1, 2] if shares else [])
    tracker.apply(on(2), 0)
    assert tracker.checkpoint().channel_keys_acted == ([2] if shares else [])
    assert tracker.checkpoint().channel_keys_acted == []


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
