"""Restamping against trackers that had the rules from the beginning."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.restamp.restamper import Restamper
from app.stored.restamps import Incarnation, NewStamp, RestampResult, StoredEvent, StoredLink
from app.tracker import (
    Bounds,
    Channel,
    Deliver,
    Policy,
    Publish,
    Quiet,
    Record,
    RestorePoint,
    SharedPlaces,
    StampedEvent,
    Tracker,
    UnreadableCheckpointError,
)
from app.tracker.events import Reference
from app.tracker.links import BUILT_IN, Rules, search_key
from app.tracker.tracker import read_state
from itc import Stamp, unpack
from tests.unit.test_linker import runs as linked_runs

# Two programs on this machine, one of them with two connections; a nameless one; two hosts.
CONNECTIONS = {
    "127.0.0.1:4001 -> 127.0.0.1:5672": "orders",
    "127.0.0.1:4002 -> 127.0.0.1:5672": "orders",
    "127.0.0.1:4003 -> 127.0.0.1:5672": "billing",
    "127.0.0.1:4004 -> 127.0.0.1:5672": None,
    "10.0.0.7:4001 -> 10.0.0.1:5672": None,
    "10.0.0.8:4001 -> 10.0.0.1:5672": "audit",
}
CHANNELS = [
    Channel("rabbit@test", connection, number, user)
    for connection in CONNECTIONS
    for number, user in ((1, "shop"), (2, "shop"))
] + [Channel("rabbit@test", "10.0.0.7:4009 -> 10.0.0.1:5672", 1, "robot")]


def _delivery(channel: Channel, queue: str, publish: Publish, redelivered: bool = False) -> Deliver:
    return Deliver(channel, "x", ("key",), queue, redelivered, publish.properties, b"")


def tracked(
    records: Sequence[Record], policy: Policy, quiet: Sequence[str]
) -> tuple[list[StampedEvent], Tracker]:
    """What a tracker makes of them that has these rules."""
    tracker = Tracker(
        policy, Bounds(), quiet=Quiet(quiet), places=SharedPlaces(), rules=Rules(BUILT_IN)
    )
    events: list[StampedEvent] = []
    for now, record in enumerate(records):
        for channel in tracker.participants.strangers([record.channel]):
            known = channel.user == "shop"
            tracker.participants.introduce(
                channel, CONNECTIONS.get(channel.connection) if known else None
            )
        for event in tracker.apply(record, now):
            event.reference.id = len(events) + 1
            events.append(event)
    return events, tracker


def stored(events: Sequence[StampedEvent]) -> list[StoredEvent]:
    channel_of = {event.reference.id: event.channel_key for event in events}
    return [
        StoredEvent(
            id=event.reference.id or 0,
            channel_key=event.channel_key,
            recorded_at=event.recorded_at,
            exchange=event.record.exchange,
            queue=event.record.queue,
            routed_queues=event.record.routed_queues or (),
            cause=event.cause.id if event.cause else None,
            quiet=event.quiet,
            named=tuple(
                StoredLink(
                    edge.cause.id or 0,
                    channel_of[edge.cause.id],
                    edge.rule,
                    int(edge.kind),
                    int(edge.way),
                )
                for edge in event.edges
                if edge.cause.id in channel_of
            ),
        )
        for event in events
    ]


def restamped(
    events: Sequence[StampedEvent],
    state: bytes,
    policy: Policy,
    quiet: Sequence[str],
    chunk: int = 7,
    first_id: int = 1,
) -> tuple[list[NewStamp], RestampResult]:
    """The new stamps, made in chunks."""
    restamper = Restamper(policy, Quiet(quiet), SharedPlaces(), assumed=Bounds().assumed)
    names = restamper.meet({event.channel_key: event.record.channel for event in events}.items())
    restamper.introduce({name: _incarnations(CONNECTIONS.get(name)) for name in names})
    new: list[NewStamp] = []
    aside: dict[int, Reference] = {}
    rows = stored(events)
    for start in range(0, len(rows), chunk):
        some = rows[start : start + chunk]
        known: Mapping[int, Reference] = {
            event_id: aside[event_id]
            for event_id in restamper.missing_causes(some)
            if event_id in aside
        }
        for stamp in restamper.stamp(some, known):
            aside[stamp.event_id] = Reference(stamp.clock, stamp.lamport, stamp.event_id)
            new.append(stamp)
    return new, restamper.end(state, first_id)


def _incarnations(client: str | None) -> list[Incarnation]:
    return [Incarnation(-10_000_000, "shop", client)]


def dots(new: Sequence[NewStamp], outcome: RestampResult) -> dict[int, tuple[Stamp, str, int]]:
    """Each event's clock, interval and height."""
    intervals = {state.number: state.interval for state, _, _ in outcome.participants}
    found = {}
    for stamp in new:
        interval = intervals[stamp.participant + outcome.offset]
        found[stamp.event_id] = (unpack(stamp.clock, interval), interval, stamp.height)
    return found


def test_who_has_no_events_left_gives_back_its_interval() -> None:
    records: list[Record] = [Publish(channel, "x", ("key",), (), {}, b"") for channel in CHANNELS]
    events, tracker = tracked(records, Policy.channel, ())
    _, outcome = restamped(events, tracker.checkpoint().state, Policy.channel, (), first_id=11)
    assert len(outcome.participants) == len(outcome.channels) == len(CHANNELS) - 10
    assert Tracker.stored_totals(outcome.state).participants == len(CHANNELS) - 10


@pytest.mark.parametrize("chunk", [1, 7])
@pytest.mark.parametrize("policy", [Policy.channel, Policy.client])
def test_what_a_publish_names_is_joined_again(policy: Policy, chunk: int) -> None:
    request = Publish(CHANNELS[0], "x", ("key",), ("red",), {"message_id": "1"}, b"")
    headers = {"headers": {"causation_id": "1"}}
    effect = Publish(CHANNELS[5], "x", ("key",), (), headers, b"")
    records: list[Record] = [request, _delivery(CHANNELS[4], "red", request), effect]
    events, tracker = tracked(records, Policy.channel, ())
    assert events[2].edges
    new, outcome = restamped(events, tracker.checkpoint().state, policy, (), chunk=chunk)
    where = dots(new, outcome)
    cause = events[2].edges[0].cause.id or 0
    clock, _, _ = where[3]
    _, interval, height = where[cause]
    assert clock.height_at(interval) >= height
    quiet, _ = restamped(events, tracker.checkpoint().state, Policy.channel, ("exchange:x",))
    assert [stamp.lamport for stamp in quiet] == [1, 1, 1], "quiet traffic joins nothing"


RELAY = Channel("rabbit@test", "10.0.0.9:4001 -> 10.0.0.1:5672", 1, "shop")


@pytest.mark.parametrize("before", [Policy.channel, Policy.connection, Policy.client])
@pytest.mark.parametrize("after", Policy)
def test_fit_is_counted_anew_as_a_tracker_with_the_new_rules_counts_it(
    before: Policy, after: Policy
) -> None:
    """A program handles on one channel and publishes on another; a relay has it from elsewhere."""
    records: list[Record] = []
    for number in range(3):
        request = Publish(CHANNELS[8], "x", ("key",), ("red",), {"message_id": str(number)}, b"")
        named = {"headers": {"causation_id": str(number)}}
        records += [
            request,
            _delivery(CHANNELS[10], "red", request),
            Publish(CHANNELS[11], "x", ("key",), (), named, b""),
            Publish(RELAY, "x", ("key",), (), named, b""),
        ]
    events, tracker = tracked(records, before, ())
    wanted_events, other = tracked(records, after, ())
    new, outcome = restamped(events, tracker.checkpoint().state, after, ())
    assert Tracker.stored_totals(outcome.state).links == other.totals().links
    wanted = {state.key: state for state in other.checkpoint().participants}
    for found, _, _ in outcome.participants:
        state = wanted[found.key]
        for name in ("reactions", "explained", "known", "missed", "hidden"):
            assert getattr(found, name) == getattr(state, name), (state.key, name)
    ways = {(event.reference.id, edge.way) for event in wanted_events for edge in event.edges}
    stored_ways = {(event.reference.id, edge.way) for event in events for edge in event.edges}
    changed = {(stamp.event_id, link.way) for stamp in new for link in stamp.ways}
    assert changed == ways - stored_ways


def test_a_cause_that_is_gone_joins_nothing() -> None:
    publish = Publish(CHANNELS[0], "x", ("key",), ("red",), {"message_id": "1"}, b"")
    records: list[Record] = [publish, _delivery(CHANNELS[4], "red", publish)]
    events, tracker = tracked(records, Policy.channel, ())
    (stamp,), _ = restamped(events[1:], tracker.checkpoint().state, Policy.host, (), first_id=2)
    assert (stamp.seq, stamp.lamport) == (1, 1)


@pytest.mark.parametrize(
    ("clients", "assumed"),
    [
        ([(9, "orders"), (19, "orders")], False),
        ([(9, "orders"), (19, "billing")], True),  # which event is whose is not stored
        ([(19, "orders")], True),  # whoever it was at first is not known
        ([(9, None)], True),
        ([], True),
    ],
)
def test_a_connection_s_client_is_who_alone_can_have_been_there(
    clients: list[tuple[int, str | None]], assumed: bool
) -> None:
    tracker = Tracker(Policy.user, Bounds())
    channel = CHANNELS[0]
    events: list[StampedEvent] = []
    for at in (10_000_000, 20_000_000):
        (event,) = tracker.apply(Publish(channel, "x", ("key",), (), {}, b""), at)
        events.append(event)
        event.reference.id = len(events)
    restamper = Restamper(Policy.client, Quiet(()), SharedPlaces(), assumed=64)
    assert restamper.meet([(1, channel)]) == [channel.connection]
    known = [Incarnation(at * 1_000_000, "shop", client) for at, client in clients]
    restamper.introduce({channel.connection: [*known, Incarnation(0, "admin", "another's")]})
    restamper.stamp(stored(events), {})
    ((state, _, _),) = restamper.end(tracker.checkpoint().state, 1).participants
    assert state.assumed is assumed
    assert assumed or state.name == "orders (shop@127.0.0.1)"


def test_a_state_that_cannot_be_read_is_refused() -> None:
    restamper = Restamper(Policy.client, Quiet(()), SharedPlaces(), assumed=64)
    with pytest.raises(UnreadableCheckpointError):
        restamper.held_connections(b"nonsense")
    with pytest.raises(UnreadableCheckpointError):
        restamper.end(b"nonsense", 1)


def test_a_trace_without_events_gets_no_state() -> None:
    restamper = Restamper(Policy.client, Quiet(()), SharedPlaces(), assumed=64)
    assert restamper.held_connections(None) == []
    assert restamper.end(None, 0) == RestampResult(0, None, [], [])


def with_messages(events: Sequence[StampedEvent], most: int = 100) -> list[StoredEvent]:
    return [
        msgspec.structs.replace(
            row,
            named=tuple(link for link in row.named if link.is_act),
            routing_keys=event.record.routing_keys,
            properties=event.record.properties,
            body=event.record.body[:most],
            is_cut=len(event.record.body) > most,
        )
        for row, event in zip(stored(events), events, strict=True)
    ]


def read_again(
    events: Sequence[StampedEvent], rules: Rules, *, quiet: Sequence[str] = (), most: int = 100
) -> tuple[list[NewStamp], Restamper]:
    """The new stamps and links by these rules, one channel being one participant."""
    restamper = Restamper(
        Policy.channel,
        Quiet(quiet),
        SharedPlaces(),
        assumed=64,
        rules=rules,
        most_named=Bounds().named_events,
    )
    restamper.meet({event.channel_key: event.record.channel for event in events}.items())
    new: list[NewStamp] = []
    aside: dict[int, Reference] = {}
    rows = with_messages(events, most)
    for start in range(0, len(rows), 5):
        some = rows[start : start + 5]
        for stamp in restamper.stamp(some, {n: aside[n] for n in restamper.missing_causes(some)}):
            aside[stamp.event_id] = Reference(stamp.clock, stamp.lamport, stamp.event_id)
            new.append(stamp)
    return new, restamper


def test_of_messages_that_are_not_stored_whole_the_bodies_are_not_read() -> None:
    def event(body: str, **headers: str) -> Publish:
        properties = {"content_type": "application/cloudevents+json", "headers": headers}
        return Publish(CHANNELS[0], "x", ("key",), (), properties, body.encode())

    records: list[Record] = [
        event('{"id": "1"}', causation_id="?"),
        event('{"id": "2", "causationid": "1"}'),
        event('{"id": "2", "causationid": "1", "more": "and more"}'),
    ]
    events, tracker = tracked(records, Policy.channel, ())
    new, restamper = read_again(events, Rules(BUILT_IN), most=40)
    assert [[edge.cause.id for edge in each.edges] for each in new] == [[], [1], []]
    assert restamper.cut == 1
    state = restamper.end(tracker.checkpoint().state, 1).state
    assert read_state(state or b"").forgot_named


def test_without_rules_messages_are_read_for_what_they_are_found_by() -> None:
    records: list[Record] = [Publish(CHANNELS[0], "x", ("key",), (), {"message_id": "7"}, b"")]
    events, _ = tracked(records, Policy.channel, ())
    ((new,), _) = read_again(events, Rules(()))
    known = (Rules(()).message_key(records[0]),), (search_key("message_id", "7"),)
    assert (new.names.ids, new.names.called) == known


QUEUES = ("red", "blue", "noise.1")
QUIET = ("queue:noise.*",)

channels = st.sampled_from(CHANNELS)


@st.composite
def histories(draw: st.DrawFn) -> list[Record]:
    """Publishes, and deliveries of them, some again."""
    records: list[Record] = []
    waiting: deque[tuple[str, Publish]] = deque()
    for number in range(draw(st.integers(1, 40))):
        if waiting and draw(st.booleans()):
            queue, publish = waiting.popleft()
            again = draw(st.integers(0, 4)) == 0
            records.append(_delivery(draw(channels), queue, publish))
            if again:
                records.append(_delivery(draw(channels), queue, publish, redelivered=True))
        else:
            queues = draw(st.lists(st.sampled_from(QUEUES), unique=True, max_size=2))
            properties = {"message_id": str(number)}
            publish = Publish(draw(channels), "x", ("key",), tuple(queues), properties, b"")
            records.append(publish)
            waiting += [(queue, publish) for queue in queues]
    return records


@given(histories(), st.sampled_from(Policy), st.sampled_from(Policy), st.booleans())
def test_the_new_stamps_say_what_a_tracker_with_the_new_rules_says(
    records: list[Record], before: Policy, after: Policy, gets_quiet: bool
) -> None:
    rules = ((), QUIET) if gets_quiet else (QUIET, ())
    events, tracker = tracked(records, before, rules[0])
    wanted, other = tracked(records, after, rules[1])
    new, outcome = restamped(events, tracker.checkpoint().state, after, rules[1])

    assert [(stamp.event_id, stamp.seq, stamp.lamport, stamp.quiet) for stamp in new] == [
        (event.reference.id, event.seq, event.lamport, event.quiet) for event in wanted
    ]
    found = dots(new, outcome)
    for earlier in wanted:
        _, interval, height = found[earlier.reference.id or 0]
        for later in wanted:
            clock, _, _ = found[later.reference.id or 0]
            is_known = clock.height_at(interval) >= height
            assert is_known is (later.stamp.height_at(earlier.stamp.interval) >= earlier.height)
    whose = {stamp.event_id: stamp.participant for stamp in new}
    assert [whose[event.reference.id or 0] for event in wanted] == [
        event.participant for event in wanted
    ]
    states = [state for state, _, _ in outcome.participants]
    assert [state.key for state in states] == [
        state.key for state in sorted(other.checkpoint().participants, key=lambda s: s.number)
    ]
    assert min(state.number for state in states) > max(event.participant for event in events)


@given(histories(), st.sampled_from(Policy), st.sampled_from(Policy))
def test_a_tracker_goes_on_from_the_new_state(
    records: list[Record], before: Policy, after: Policy
) -> None:
    events, tracker = tracked(records, before, ())
    checkpoint = tracker.checkpoint()
    new, outcome = restamped(events, checkpoint.state, after, QUIET)
    clocks = {stamp.event_id: stamp.clock for stamp in new}
    by_key = {event.channel_key: event.record.channel for event in events}
    restored = RestorePoint(
        state=outcome.state or b"",
        channels=outcome.channels,
        participants=[
            (state, unpack(clocks[last], state.interval), last)
            for state, _, last in outcome.participants
        ],
        copies=[],
        handovers=[],
    )
    assert by_key.keys() == {each.key for each in outcome.channels}
    follower = Tracker(after, Bounds(), restored, quiet=Quiet(QUIET))
    assert len(follower.participants) == len(outcome.participants)
    totals = Tracker.stored_totals(outcome.state)
    assert totals.counters.quiet == sum(stamp.quiet for stamp in new)
    assert totals.counters.published == tracker.counters.published
    last = {stamp.participant + outcome.offset: stamp for stamp in new}
    seen = set()
    for channel in by_key.values():
        (event,) = follower.apply(Publish(channel, "x", ("key",), (), {}, b""), 10_000)
        number = event.participant
        assert event.height > last[number].height
        if number not in seen:
            assert event.seq == last[number].seq + 1
        seen.add(number)


RULES_BEFORE = [Rules(()), Rules([rule for rule in BUILT_IN if rule.name == "forward"])]


@given(linked_runs(), st.sampled_from(RULES_BEFORE), st.booleans())
def test_messages_that_are_read_again_say_what_a_tracker_with_the_rules_says(
    records: list[Record], before: Rules, gets_quiet: bool
) -> None:
    quiet = ("queue:q",) if gets_quiet else ()

    def told(rules: Rules, quiet: Sequence[str]) -> tuple[list[StampedEvent], Tracker]:
        tracker = Tracker(Policy.channel, Bounds(), rules=rules, quiet=Quiet(quiet))
        events: list[StampedEvent] = []
        for now, record in enumerate(records):
            for event in tracker.apply(record, now):
                event.reference.id = len(events) + 1
                events.append(event)
        return events, tracker

    events, tracker = told(before, ())
    wanted, other = told(Rules(BUILT_IN), quiet)
    new, restamper = read_again(events, Rules(BUILT_IN), quiet=quiet)
    assert [(each.event_id, each.lamport, each.names.ids, each.names.found_by) for each in new] == [
        (event.reference.id, event.lamport, event.names.ids, event.names.found_by)
        for event in wanted
    ]
    assert [[(e.cause.id, e.rule, e.kind, e.way) for e in each.edges] for each in new] == [
        [(e.cause.id, e.rule, e.kind, e.way) for e in event.edges] for event in wanted
    ]
    outcome = restamper.end(tracker.checkpoint().state, 1)
    assert Tracker.stored_totals(outcome.state).links == other.totals().links
    assert restamper.cut == 0
