"""Who acts: places, clients' names, connections that are used again, and what is assumed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tracker import (
    Bounds,
    Channel,
    Deliver,
    Policy,
    Publish,
    RestorePoint,
    SharedPlaces,
    StampedEvent,
    Tracker,
)
from app.tracker.identity import place_of
from app.tracker.participants import MOST_NAMES
from itc import Relation, compare
from tests.unit.test_tracker import Store


def channel(peer: str = "10.0.0.7:5000", number: int = 1, user: str = "shop") -> Channel:
    return Channel("rabbit@a", f"{peer} -> 10.0.0.1:5672", number, user)


def publish(where: Channel, queue: str = "q", body: bytes = b"") -> Publish:
    return Publish(where, "x", ("key",), (queue,), {}, body)


def deliver(where: Channel, queue: str = "q", body: bytes = b"") -> Deliver:
    return Deliver(where, "x", ("key",), queue, False, {}, body)


def acts(tracker: Tracker, where: Channel, client: str | None = None) -> int:
    """The number of the participant that an event on a channel is of, introduced if need be."""
    for stranger in tracker.participants.strangers([where]):
        tracker.participants.introduce(stranger, client)
    (event,) = tracker.apply(publish(where), 0)
    return event.participant


@pytest.mark.parametrize(
    ("connection", "place"),
    [
        ("10.0.0.7:5000 -> 10.0.0.1:5672", "10.0.0.7"),
        ("[2001:db8::7]:5000 -> [2001:db8::1]:5672", "2001:db8::7"),
        ("2001:db8:0::7:5000 -> x", "2001:db8::7"),
        ("orders.example.com:4000 -> mq:5672", "orders.example.com"),  # reverse_dns_lookups
        ("10.0.0.7:5000", "10.0.0.7:5000"),
        (" -> ", " -> "),
        ("[::ffff:10.0.0.7]:5000 -> [::]:5672", "10.0.0.7"),
        ("<rabbit@a.1697.0.1>", "rabbit@a"),
        ("no address at all", "no address at all"),
        ("", ""),
    ],
)
def test_a_place_is_the_peer_s_address(connection: str, place: str) -> None:
    assert place_of(Channel("rabbit@a", connection, 1, "shop")) == place


@pytest.mark.parametrize(
    ("shared", "place", "expected"),
    [
        ((), "127.0.0.1", True),
        ((), "127.8.0.1", True),
        ((), "::1", True),
        ((), "10.0.0.7", False),
        (("10.0.0.0/8",), "10.0.0.7", True),
        (("10.0.0.7",), "10.0.0.7", True),
        (("2001:db8::/32",), "2001:db8::7", True),
        (("2001:db8::/32",), "10.0.0.7", False),
        ((), "localhost", True),
        ((), "a.localhost", True),
        ((), "orders.example.com", False),
    ],
)
def test_loopback_and_networks_that_are_named_are_shared(
    shared: tuple[str, ...], place: str, expected: bool
) -> None:
    assert SharedPlaces(shared).is_shared(place) is expected


@pytest.mark.parametrize(
    ("policy", "different"),
    [
        # of a second channel, a second connection, another client, another place, another user
        (Policy.client, (False, False, True, True, True)),
        (Policy.host, (False, False, False, True, True)),
        (Policy.user, (False, False, False, False, True)),
        (Policy.connection, (False, True, True, True, True)),
        (Policy.channel, (True, True, True, True, True)),
    ],
)
def test_a_policy_says_what_one_participant_is(policy: Policy, different: tuple[bool, ...]) -> None:
    tracker = Tracker(policy, Bounds(), places=SharedPlaces(("10.0.0.0/24",)))
    first = acts(tracker, channel("10.0.0.7:5000"), "orders")
    others = [
        acts(tracker, channel("10.0.0.7:5000", 2), "orders"),
        acts(tracker, channel("10.0.0.7:5001"), "orders"),
        acts(tracker, channel("10.0.0.7:5002"), "billing"),
        acts(tracker, channel("10.0.0.8:5000"), "orders"),
        acts(tracker, channel("10.0.0.7:5003", user="admin"), "orders"),
    ]
    assert tuple(other != first for other in others) == different


def test_each_shovel_and_federation_link_is_a_program_of_its_own_where_its_name_is_known() -> None:
    tracker = Tracker(Policy.client, Bounds())
    names = ("Shovel a", "Shovel b", "Shovel a", None, None)
    channels = [Channel("rabbit@a", f"<rabbit@a.1.{n}.0>", 1, "none") for n in range(5)]
    assert tracker.participants.strangers(channels) == channels
    numbers = [acts(tracker, *pair) for pair in zip(channels, names, strict=True)]
    assert numbers == [1, 2, 1, 3, 3]
    assert not any(
        tracker.participants.by_number(number).identity.assumed  # type: ignore[union-attr]
        for number in numbers
    )


def test_the_clients_of_a_unix_socket_are_one_assumed_participant_of_each_user() -> None:
    tracker = Tracker(Policy.client, Bounds())
    name = ":0 -> /run/rabbitmq.sock:0"  # as RabbitMQ 4.4 writes it; several clients have it
    amqp, stomp = (Channel("rabbit@a", name, number, "shop") for number in (1, 0))
    assert tracker.participants.is_by_name(amqp)
    assert acts(tracker, amqp) == acts(tracker, stomp)
    assert acts(tracker, Channel("rabbit@a", name, 1, "billing")) == 2
    identity = tracker.participants.by_number(1).identity  # type: ignore[union-attr]
    assert identity.assumed


def test_a_program_that_consumes_and_publishes_on_two_connections_is_one_participant() -> None:
    tracker = Tracker(Policy.client, Bounds())
    asks, consumes, publishes = (channel(f"10.0.0.{n}:5000") for n in (1, 2, 2))
    publishes = channel("10.0.0.2:5001")
    events: list[StampedEvent] = []
    for record in (
        publish(asks, body=b"order"),
        deliver(consumes, body=b"order"),
        publish(publishes, "other", b"bill"),
    ):
        events += tracker.apply(record, 0)
    assert compare(events[0].stamp, events[2].stamp) is Relation.before


def test_names_decide_at_shared_places_and_are_shown_elsewhere() -> None:
    local, remote, direct = (
        channel("127.0.0.1:5000"),
        channel(),
        Channel("rabbit@a", "<rabbit@a.1.2.3>", 1, "shop"),
    )
    for policy in Policy:
        tracker = Tracker(policy, Bounds())
        strangers = tracker.participants.strangers([local, remote, direct])
        if policy in (Policy.host, Policy.user):
            assert strangers == []
        else:
            assert strangers == [local, remote, direct]
        by_name = [where for where in strangers if tracker.participants.is_by_name(where)]
        assert by_name == ([local] if policy is Policy.client else [])
    tracker.participants.introduce(local, "orders")
    assert tracker.participants.strangers([local]) == []


def test_a_connection_that_tells_no_place_is_known_by_its_client_s_name() -> None:
    tracker = Tracker(Policy.client, Bounds())
    strange = Channel("rabbit@a", "no peer", 1, "shop")
    assert tracker.participants.is_by_name(strange)
    acts(tracker, strange)
    acts(tracker, channel("orders.example.com:4000"))
    acts(tracker, channel("orders.example.com:4001"))
    states = tracker.checkpoint().participants
    assert [(state.name, state.assumed) for state in states] == [
        ("shop #1", True),
        ("shop@orders.example.com", False),
    ]


def test_reconnects_of_a_named_client_stay_one_participant() -> None:
    tracker = Tracker(Policy.client, Bounds())
    first = acts(tracker, channel("127.0.0.1:5000"), "orders")
    tracker.end(channel("127.0.0.1:5000").connection)
    assert acts(tracker, channel("127.0.0.1:5001"), "orders") == first
    assert len(tracker.participants) == 1


def test_a_connection_s_name_that_is_used_again_is_another_connection() -> None:
    where = channel("127.0.0.1:5000")
    tracker = Tracker(Policy.client, Bounds())
    first = acts(tracker, where, "orders")
    assert tracker.ends_with(where.connection)
    tracker.end(where.connection)
    assert acts(tracker, where, "billing") != first


@pytest.mark.parametrize("policy", [Policy.connection, Policy.channel])
def test_under_a_finer_policy_too(policy: Policy) -> None:
    where = channel()
    tracker = Tracker(policy, Bounds())
    seen = set()
    for _ in range(3):
        seen.add(acts(tracker, where))
        assert tracker.ends_with(where.connection)
        tracker.end(where.connection)
    assert len(seen) == 3


def test_where_the_name_does_not_matter_no_end_does() -> None:
    tracker = Tracker(Policy.client, Bounds())
    acts(tracker, channel())
    assert not tracker.ends_with(channel().connection)
    assert not tracker.ends_with("unknown")
    assert tracker.participants.connections == []


def test_a_nameless_connection_at_a_shared_place_is_assumed_and_says_so() -> None:
    tracker = Tracker(Policy.client, Bounds())
    numbers = [acts(tracker, channel(f"127.0.0.1:{port}")) for port in (5000, 5001)]
    states = tracker.checkpoint().participants
    assert [(state.number, state.assumed) for state in states] == [(n, True) for n in numbers]
    assert [state.name for state in states] == ["shop@127.0.0.1 #1", "shop@127.0.0.1 #2"]


def test_two_that_are_open_are_two_participants() -> None:
    tracker = Tracker(Policy.client, Bounds())
    acts(tracker, channel("127.0.0.1:5000"))
    tracker.end(channel("127.0.0.1:5000").connection)
    assert acts(tracker, channel("127.0.0.1:5001")) == 1
    assert acts(tracker, channel("127.0.0.1:5002")) == 2


def test_another_s_name_does_not_make_one_them() -> None:
    """Names are the clients' own words, so each can say what it wants."""
    tracker = Tracker(Policy.client, Bounds())
    honest = acts(tracker, channel("127.0.0.1:5000", user="a b"), "c")
    for user, client in (("a", "b c"), ("a", "c' of 'a b"), ("a", "c")):
        forged = channel(f"127.0.0.1:{6000 + len(client)}", user=user)
        assert acts(tracker, forged, client) != honest


def test_a_label_says_client_user_and_place() -> None:
    tracker = Tracker(Policy.client, Bounds())
    acts(tracker, channel("127.0.0.1:5000"), "orders")
    acts(tracker, channel("10.0.0.7:5000"))
    finer = Tracker(Policy.channel, Bounds())
    acts(finer, channel())
    names = [state.name for each in (tracker, finer) for state in each.checkpoint().participants]
    assert names == ["orders (shop@127.0.0.1)", "shop@10.0.0.7", "shop@10.0.0.7 #1"]


@pytest.mark.parametrize("policy", Policy)
def test_after_a_restart_everybody_is_who_they_were(policy: Policy) -> None:
    peers = [f"{place}:{port}" for place in ("127.0.0.1", "10.0.0.7") for port in (5000, 5001)]
    wheres = [channel(peer, number) for peer in peers for number in (1, 2)]
    names = {wheres[0].connection: "orders", wheres[2].connection: None}

    def numbers(tracker: Tracker) -> list[int]:
        return [acts(tracker, where, names.get(where.connection)) for where in wheres]

    tracker, store = Tracker(policy, Bounds()), Store()
    for where in wheres:
        for stranger in tracker.participants.strangers([where]):
            tracker.participants.introduce(stranger, names.get(where.connection))
        store.append(tracker.apply(publish(where), 0), tracker.checkpoint())
    again = Tracker(policy, Bounds(), store.restored)
    assert numbers(again) == numbers(tracker)
    assert len(again.participants) == len(tracker.participants)


def test_who_was_introduced_and_waits_for_another_s_publish_is_kept() -> None:
    window = Bounds(reorder_window=1_000)
    tracker, where = Tracker(Policy.client, window), channel("127.0.0.1:5000")
    tracker.participants.introduce(where, "orders")
    assert tracker.apply(deliver(where), 0) == []
    state = tracker.checkpoint().state
    again = Tracker(Policy.client, window, RestorePoint(state, [], [], [], []))
    assert again.participants.strangers([where]) == []
    (event,) = again.close_overdue(2_000)
    assert event.record.channel == where
    assert [one.name for one in again.checkpoint().participants] == ["orders (shop@127.0.0.1)"]


def crowd(tracker: Tracker, store: Store, size: int) -> None:
    """So many clients of one user at loopback, each with a name of its own, publish."""
    for number in range(size):
        where = channel(f"127.0.0.1:{number + 1}")
        tracker.participants.introduce(where, f"client {number}")
        store.append(tracker.apply(publish(where), 0), tracker.checkpoint())


def test_beyond_so_many_names_a_user_s_clients_at_a_place_share_one_that_is_assumed() -> None:
    tracker, store = Tracker(Policy.client, Bounds()), Store()
    crowd(tracker, store, MOST_NAMES + 20)
    assert len(tracker.participants) == MOST_NAMES + 1
    for each in (tracker, Tracker(Policy.client, Bounds(), store.restored)):
        shared = acts(each, channel("127.0.0.1:9001"), "another")
        assert acts(each, channel("127.0.0.1:9002"), "and another") == shared
        (state,) = each.checkpoint().participants
        assert (state.number, state.client, state.assumed) == (MOST_NAMES + 1, None, True)
        # Who was known before is who it was, and names of others are counted apart.
        assert acts(each, channel("127.0.0.1:9003"), "client 0") == 1
        acts(each, channel("127.0.0.1:9004", user="other"), "another")
        acts(each, channel("[::1]:9005"), "another")
        assert [state.assumed for state in each.checkpoint().participants] == [False] * 3


def test_a_name_counts_until_nothing_of_its_participant_is_stored() -> None:
    tracker, store = Tracker(Policy.client, Bounds()), Store()
    crowd(tracker, store, MOST_NAMES)
    assert tracker.forget_before(2) == [1]
    acts(tracker, channel("127.0.0.1:9001"), "another")
    acts(tracker, channel("127.0.0.1:9002"), "and another")
    assert [state.assumed for state in tracker.checkpoint().participants] == [False, True]


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
