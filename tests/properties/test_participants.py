"""Who acts: places, clients' names, connections that are used again, and what is assumed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.tracker import (
    Bounds,
    Channel,
    Policy,
    SharedPlaces,
    Tracker,
)
from app.tracker.identity import place_of
from tests.unit.test_participants import acts, channel


@given(st.text(max_size=60))
def test_any_connection_s_name_has_a_place(connection: str) -> None:
    where = Channel("rabbit@a", connection, 1, "shop")
    assert isinstance(place_of(where), str)
    assert SharedPlaces().is_shared(place_of(where)) in (True, False)


def test_connections_for_a_message_each_are_one_participant_once_they_are_closed() -> None:
    tracker = Tracker(Policy.client, Bounds())
    for port in range(5000, 5500):
        where = channel(f"127.0.0.1:{port}")
        acts(tracker, where)
        tracker.end(where.connection)
    assert len(tracker.participants) == 1
    assert len(tracker.participants._by_channel) == 0


def test_what_is_assumed_is_bounded() -> None:
    tracker = Tracker(Policy.client, Bounds(assumed=10))
    for port in range(5000, 5500):
        acts(tracker, channel(f"127.0.0.1:{port}"))
    assert len(tracker.participants) == 11  # the last one is shared by all others
    for number in range(500):
        acts(tracker, channel(f"127.0.0.1:{port}", number, "admin"))
    assert len(tracker.participants) <= 12
