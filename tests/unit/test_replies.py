"""Direct replies, whose deliveries RabbitMQ does not trace before 4.2."""

from __future__ import annotations

import pytest

from app.tracker import Bounds, Policy, Publish, StampedEvent, Tracker
from itc import Relation, compare
from model.texts import DIRECT_REPLIES
from model.words import Match
from tests.unit.test_participants import channel
from tests.unit.test_tracker import Store

ASKS, ANSWERS, PASSES_ON = (channel(f"10.0.0.{n}:1") for n in (1, 2, 3))
NAME = DIRECT_REPLIES + "g1h2AA5yZXBseUAx"
REQUEST = Publish(ASKS, "", ("rpc",), ("rpc",), {"reply_to": NAME}, b"question")
REPLY = Publish(ANSWERS, "", (NAME,), (), {"correlation_id": "1"}, b"answer")


def tracker(restored: Store | None = None) -> Tracker:
    made = Tracker(Policy.client, Bounds(), restored.restored if restored else None)
    made.trace_replies(False)
    return made


def applied(tracker: Tracker, *records: Publish) -> list[StampedEvent]:
    return [event for record in records for event in tracker.apply(record, 0)]


def test_a_reply_is_received_by_whoever_asked() -> None:
    asked, answered, heard = applied(tracker(), REQUEST, REPLY)
    assert (heard.match, heard.cause) == (Match.untraced, answered.reference)
    assert heard.record.channel == ASKS
    assert (heard.record.queue, heard.record.body) == (NAME, b"answer")
    assert compare(answered.stamp, heard.stamp) is Relation.before
    assert compare(asked.stamp, heard.stamp) is Relation.before
    assert answered.record.routed_queues == (NAME,)


@pytest.mark.parametrize("routed", [(), (NAME,)])  # as up to 3.12, and as from 3.13.5 on
def test_it_is_received_once_for_each_reply(routed: tuple[str, ...]) -> None:
    here = tracker()
    reply = Publish(ANSWERS, "", (NAME,), routed, {}, b"answer")
    events = applied(here, REQUEST, reply, reply)
    assert [event.match for event in events].count(Match.untraced) == 2
    assert here.totals().pending_copies == 1  # the request's
    assert here.counters.untraced == 2


def test_where_the_broker_traces_it_nothing_is_added() -> None:
    here = tracker()
    here.trace_replies(True)
    assert len(applied(here, REQUEST, REPLY)) == 2


@pytest.mark.parametrize("routed", [(), (NAME,)])
def test_a_reply_to_a_request_that_was_not_seen_has_a_gap_in_place_of_its_delivery(
    routed: tuple[str, ...],
) -> None:
    here = tracker()
    [answered] = applied(here, Publish(ANSWERS, "", (NAME,), routed, {}, b"answer"))
    [omission] = here.checkpoint().omissions
    assert (omission.previous, omission.is_untraced) == (answered.reference, True)


def test_a_reply_whose_receiver_is_known_or_gone_has_no_gap() -> None:
    here = tracker()
    applied(here, REQUEST, REPLY)
    here.end(ASKS.connection)
    applied(here, REPLY, REQUEST)
    assert here.checkpoint().omissions == []
    traced = tracker()
    traced.trace_replies(True)
    applied(traced, REPLY)
    assert traced.checkpoint().omissions == []


def test_whoever_passes_the_request_on_does_not_get_the_reply() -> None:
    passed_on = Publish(PASSES_ON, "", ("rpc2",), ("rpc2",), {"reply_to": NAME}, b"question")
    *_, heard = applied(tracker(), REQUEST, passed_on, REPLY)
    assert heard.record.channel == ASKS


def test_who_asked_is_known_after_a_restart() -> None:
    store, before = Store(), tracker()
    store.append(applied(before, REQUEST), before.checkpoint())
    *_, heard = applied(tracker(store), REPLY)
    assert (heard.match, heard.record.channel) == (Match.untraced, ASKS)
