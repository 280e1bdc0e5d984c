"""Channels that share a participant: remembered as long as an event of theirs is stored."""

from __future__ import annotations

import pytest

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
