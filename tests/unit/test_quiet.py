"""Quiet traffic is matched, and joins no clocks."""

from __future__ import annotations

import pytest

from app.tracker import Bounds, Deliver, Policy, Publish, Quiet, Record, Tracker
from app.tracker.quiet import DEFAULT, LONGEST, MOST_PATTERNS
from itc import Relation, compare
from model.words import Match
from tests.unit.test_participants import channel

ANN, BOB = channel("10.0.0.1:1"), channel("10.0.0.2:1")


def publish(exchange: str, *queues: str) -> Publish:
    return Publish(ANN, exchange, ("key",), queues, {}, b"")


def deliver(exchange: str, queue: str) -> Deliver:
    return Deliver(BOB, exchange, ("key",), queue, False, {}, b"")


@pytest.mark.parametrize(
    ("record", "quiet"),
    [
        (publish("celeryev", "celeryev.a1"), True),
        (publish("celeryev", "audit"), True),
        (publish("celery.pidbox"), True),
        (publish("reply.celery.pidbox", "x"), True),
        (publish("", "w1.celery.pidbox"), True),
        (publish("", "w1.celery.pidbox", "orders"), False),  # one of them is told something
        (publish("orders"), False),
        (publish("orders", "orders"), False),
        (deliver("celeryev", "audit"), True),
        (deliver("orders", "celeryev.a1"), True),
        (deliver("orders", "orders"), False),
        (deliver("my.celeryev", "orders"), False),
        (publish("MOL.HEARTBEAT", "MOL.HEARTBEAT.a", "MOL.HEARTBEAT.b"), True),
        (publish("MOL-shop.DISCONNECT"), True),
        (publish("", "MOL-shop.INFO.orders"), True),
        (deliver("MOL.DISCOVER", "MOL.DISCOVER.orders"), True),
        (publish("", "MOL.REQ.orders"), False),
        (deliver("", "MOL.EVENT.mail"), False),
    ],
)
def test_what_clients_tell_of_themselves_is_quiet_by_default(record: Record, quiet: bool) -> None:
    covers = Quiet(DEFAULT)
    assert covers.covers(record) is quiet
    assert covers.covers(record) is quiet  # the second time it is remembered
    assert not Quiet(()).covers(record)


def test_a_quiet_delivery_has_its_cause_and_does_not_know_it() -> None:
    tracker = Tracker(Policy.client, Bounds(), quiet=Quiet(("exchange:beat",)))
    (said,) = tracker.apply(publish("beat", "q"), 0)
    (heard,) = tracker.apply(deliver("beat", "q"), 0)
    assert (heard.match, heard.cause) == (Match.routed, said.reference)
    assert (said.quiet, heard.quiet) == (True, True)
    assert compare(said.stamp, heard.stamp) is Relation.concurrent
    assert tracker.counters.quiet == 2


@pytest.mark.parametrize(
    "pattern", ["", "orders", "vhost:x", "queue:", ":x", "queue:" + "x" * (LONGEST + 1), "queue:\0"]
)
def test_what_is_no_pattern_is_refused_with_it(pattern: str) -> None:
    with pytest.raises(ValueError, match="write exchange:NAME or queue:NAME"):
        Quiet((pattern,))


def test_there_are_only_so_many() -> None:
    Quiet(("queue:x",) * MOST_PATTERNS)
    with pytest.raises(ValueError, match=f"more than {MOST_PATTERNS}"):
        Quiet(("queue:x",) * (MOST_PATTERNS + 1))


def test_patterns_are_a_shell_s() -> None:
    quiet = Quiet(("queue:audit.*", "queue:log-[ab]", "exchange:?"))
    for queue, expected in (("audit.x", True), ("log-a", True), ("log-c", False), ("a", False)):
        assert quiet.covers(deliver("orders", queue)) is expected
    assert quiet.covers(publish("z"))
