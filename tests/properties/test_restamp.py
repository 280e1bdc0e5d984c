"""Restamping against trackers that had the rules from the beginning."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from app.tracker import (
    Bounds,
    Policy,
    Publish,
    Quiet,
    Record,
    RestorePoint,
    StampedEvent,
    Tracker,
)
from app.tracker.links import BUILT_IN, Rules
from itc import unpack
from tests.properties.test_linker import runs as linked_runs
from tests.unit.test_restamp import CHANNELS, _delivery, dots, read_again, restamped, tracked

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
