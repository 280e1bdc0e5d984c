"""The reorder window: what waits for what, and for how long."""

from __future__ import annotations

from collections import Counter, deque
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from app.tracker import Deliver, Policy, Publish, Tracker
from itc import Relation, compare
from model.words import Match
from tests.unit.broker_model import Broker
from tests.unit.test_reorder import SPAN, WINDOW, events_of

WHO = ("ann", "bob", "cid", "dan")
QUEUES = ("red", "green", "blue")


@st.composite
def histories(draw: st.DrawFn) -> Broker:
    """Any that a broker may have, of messages that are told apart."""
    broker = Broker(queues={queue: deque() for queue in QUEUES})
    for number in range(draw(st.integers(5, 40))):
        who, queue = draw(st.sampled_from(WHO)), draw(st.sampled_from(QUEUES))
        if broker.queues[queue] and draw(st.booleans()):
            broker.deliver(who, queue)
        else:
            broker.publish(who, [queue], b"", message_id=str(number))
    return broker


def arrivals_of(broker: Broker, missing: set[int], random: Random) -> list[tuple[int, int]]:
    """(time, index): delayed by up to the span, each participant's own in order."""
    last: Counter[str] = Counter()
    arrivals = []
    for index, record in enumerate(broker.records):
        who = record.channel.user
        last[who] = max(last[who] + 1, index * 50 + random.randrange(SPAN))
        if index not in missing:
            arrivals.append((last[who], index))
    return sorted(arrivals)


@settings(max_examples=6 * settings().max_examples)
@given(histories(), st.data(), st.randoms(use_true_random=False))
def test_a_delivery_whose_publish_comes_within_the_span_is_matched(
    broker: Broker, data: st.DataObject, random: Random
) -> None:
    """However late others are, and whichever publishes never come."""
    published = [n for n, record in enumerate(broker.records) if isinstance(record, Publish)]
    missing = set(data.draw(st.lists(st.sampled_from(published)))) if published else set()
    arrivals = arrivals_of(broker, missing, random)
    tracker = Tracker(Policy.channel, WINDOW)
    events = events_of(tracker, [(at, broker.records[n]) for at, n in arrivals])
    end = arrivals[-1][0] if arrivals else 0
    for now in range(end, end + len(arrivals) * SPAN + 2, 100):
        events += tracker.close_overdue(now)
    assert len(tracker._window) == 0
    came = {n: at for at, n in arrivals}
    publish_of = {broker.records[n].properties["message_id"]: n for n in published}
    stamped = {id(event.record): event for event in events}
    assert len(stamped) == len(arrivals)
    for n in came:
        record = broker.records[n]
        if isinstance(record, Deliver):
            cause = publish_of[record.properties["message_id"]]
            event = stamped[id(record)]
            if cause in came and came[cause] <= came[n] + SPAN:
                assert event.match is Match.routed
                assert compare(stamped[id(broker.records[cause])].stamp, event.stamp) is (
                    Relation.before
                )
            elif cause not in came:
                assert event.match is Match.unmatched
