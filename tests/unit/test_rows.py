"""The rows of events: each value in the column that is its own."""

from __future__ import annotations

from hashlib import sha256

import pytest
from msgspec import structs

from app.store.capture._rows import event_rows
from app.store.database.engine import dialect_of
from app.store.database.tables import EVENT_ROWS, OF_EVENTS, USUAL
from app.tracker import Bounds, Channel, Deliver, Policy, Publish, StampedEvent, Tracker
from app.tracker.links import BUILT_IN, Rules
from model.words import Disposition, EventType, Match

KEPT = 4
PROPERTIES = {"message_id": "an id"}


def stamped() -> tuple[StampedEvent, StampedEvent]:
    """A publish and its delivery, which has no two numbers that are the same."""
    tracker = Tracker(Policy.connection, Bounds(), rules=Rules(BUILT_IN))
    one, other = (
        Channel("node", f"10.0.0.{number}:1 -> 10.0.0.9:5672", number, "guest") for number in (1, 2)
    )
    publish = Publish(one, "x", ("k", "l"), ("q",), PROPERTIES, b"body")
    delivery = Deliver(other, "x", ("k", "l"), "q", True, PROPERTIES, b"body")
    [sent], [received] = (tracker.apply(record, 1_000) for record in (publish, delivery))
    sent.reference.id, received.reference.id = 101, 102
    numbers = {"participant": 11, "channel_key": 12, "seq": 13, "lamport": 14, "height": 15}
    return sent, structs.replace(received, **numbers)


@pytest.mark.parametrize("url", ["sqlite:///itc.db", "postgresql://guest:guest@localhost/itc"])
@pytest.mark.parametrize("most", [KEPT, 3, 0])
def test_each_value_is_in_the_column_that_is_its_own(most: int, url: str) -> None:
    publish, delivery = stamped()
    names, dialect = {field.column: field.name for field in OF_EVENTS}, dialect_of(url)
    assert [*USUAL] == [column.name for column in EVENT_ROWS.columns][-len(USUAL) :]
    settled = {102: (Disposition.in_hand, 1_500, 17), 103: (Disposition.auto, 9, None)}
    one, other = (
        {
            names[column.name]: None if value == dialect.absent else value
            for column, value in zip(EVENT_ROWS.columns, row, strict=True)
        }
        for some in event_rows(dialect, 7, (publish, delivery), most, settled)
        # What a publish as this one leaves out where the dialect puts it in.
        for row in [some if len(some) == len(EVENT_ROWS.columns) else (*some, *USUAL.values())]
    )
    for event, row in ((publish, one), (delivery, other)):
        for name in (
            "participant",
            "seq",
            "lamport",
            "height",
            "recorded_at",
            "quiet",
            "fingerprint",
        ):
            assert row[name] == getattr(event, name), name
        assert row["id"] == event.reference.id
        assert row["channel_key"] == event.channel_key
        assert row["clock"] == event.reference.packed
        assert row["trace_id"] == 7
        assert row["ids"] == b"".join(event.names.ids) != b""
        assert row["routing_keys"] == '["k","l"]'
        assert row["properties"] == '{"message_id":"an id"}'
        assert row["payload"] == (b"body"[:most] or None)
        assert row["payload_bytes"] == KEPT
        assert row["payload_sha256"] == (sha256(b"body").digest() if most < KEPT else None)
        assert row["exchange"] == "x"
    assert (one["type"], one["match"]) == (EventType.published, Match.none)
    assert (other["type"], other["match"]) == (EventType.received, delivery.match)
    assert (one["cause"], other["cause"]) == (None, one["id"])
    assert (one["queue"], other["queue"]) == (None, "q")
    assert (one["routed_queues"], other["routed_queues"]) == ('["q"]', None)
    assert (one["redelivered"], other["redelivered"]) == (False, True)
    assert (one["settlement"], one["settled_at"], one["hold"]) == (None, None, None)
    settled_as = (other["settlement"], other["settled_at"], other["hold"])
    assert settled_as == (Disposition.in_hand, 1_500, 17)


def test_sqlites_driver_looks_for_no_adapter_of_a_value() -> None:
    """It would, for anything else, at 1,200 instructions."""
    rows = event_rows(dialect_of("sqlite:///itc.db"), 7, stamped(), KEPT, {})
    assert {type(value) for row in rows for value in row} == {int, str, bytearray}
