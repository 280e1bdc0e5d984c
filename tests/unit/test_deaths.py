"""Dead letters with long histories: what a client may write into `x-death` is read once, in time
that grows as its length does, and only so far back."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from app.tracker import Bounds, Deliver, Policy, Publish, Record, Tracker, fingerprint
from app.tracker.matching.origins import MOST_ORIGINS, origins
from model import deaths
from model.words import Match
from tests.model_broker.broker import channel


def death(number: int, reason: str = "rejected") -> dict[str, Any]:
    return {
        "queue": f"q{number}",
        "reason": reason,
        "exchange": "x",
        "routing-keys": ["key"],
        "count": 1,
    }


def dead(deaths: int, reason: str = "rejected") -> Deliver:
    entries = [death(number, reason) for number in range(deaths)]  # newest first, as of 4.0
    properties = {"headers": {"x-death": entries, "x-last-death-queue": "q0"}}
    return Deliver(channel("ann"), "dlx", ("dead",), "dead", False, properties, b"body")


class Counted:
    """Counts the bytes that are encoded and those that are hashed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = 0
        encode, blake2b = fingerprint._encode, fingerprint.blake2b

        def counted_encode(value: Any) -> bytes:
            encoded = encode(value)
            self.bytes += len(encoded)
            return encoded

        def counted_hash(data: bytes, **more: Any) -> Any:
            self.bytes += len(data)
            return blake2b(data, **more)

        monkeypatch.setattr(fingerprint, "_encode", counted_encode)
        monkeypatch.setattr(fingerprint, "blake2b", counted_hash)

    def of(self, deliver: Deliver) -> int:
        self.bytes = 0
        Tracker(Policy.channel, Bounds()).apply(deliver, 0)
        return self.bytes


def test_twice_the_deaths_take_no_more_than_twice_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    assert counted.of(dead(3_200)) < 2.2 * counted.of(dead(1_600))


def test_so_do_they_where_a_delivery_waits_for_its_publish(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    tracker = Tracker(Policy.channel, Bounds(reorder_window=1_000_000))
    tracker.apply(dead(3_200, "expired"), 0)
    waited, counted.bytes = counted.bytes, 0
    Tracker(Policy.channel, Bounds(reorder_window=1_000_000)).apply(dead(1_600, "expired"), 0)
    assert waited < 2.2 * counted.bytes


@pytest.mark.parametrize("window", [0, 1_000_000], ids=["one node", "a cluster"])
def test_deaths_are_read_once_for_each_record(monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    entries: list[object] = []
    read = deaths._death
    monkeypatch.setattr(deaths, "_death", lambda entry: entries.append(entry) or read(entry))
    tracker = Tracker(Policy.channel, Bounds(reorder_window=window))
    letter = dead(3)
    headers = {**letter.properties["headers"], "x-opt-note": "a consumer's"}
    letter = replace(letter, redelivered=True, properties={"headers": headers})
    tracker.apply(letter, 0)
    publish = Publish(channel("bob"), "x", ("key",), ("q",), letter.properties, b"body")
    tracker.apply(publish, 2 * window)
    assert len(entries) == 3 + 3
    assert letter.deaths == publish.deaths


def test_only_so_many_deaths_are_followed() -> None:
    assert len(list(origins(dead(3_200)))) == MOST_ORIGINS


def test_a_dead_letter_finds_its_publish_behind_as_many_deaths_as_are_followed() -> None:
    for length, expected in ((MOST_ORIGINS, Match.dead_lettered), (MOST_ORIGINS + 1, 0)):
        publish = Publish(channel("bob"), "x", ("key",), (f"q{length - 1}",), {}, b"body")
        tracker = Tracker(Policy.channel, Bounds())
        tracker.apply(publish, 0)
        (event,) = tracker.apply(dead(length), 1)
        assert event.match == (expected or Match.unmatched)


def test_deaths_that_a_publish_carries_belong_to_its_message() -> None:
    carried = [death(1), death(2)]
    publish = Publish(
        channel("bob"), "x", ("key",), ("q0",), {"headers": {"x-death": carried}}, b"body"
    )
    tracker = Tracker(Policy.channel, Bounds())
    tracker.apply(publish, 0)
    (other,) = tracker.apply(dead(4), 1)
    (event,) = tracker.apply(dead(3), 2)
    assert other.match is Match.unmatched
    assert event.match is Match.dead_lettered


def test_an_arrival_looks_at_none_of_those_that_wait_for_something_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Deliveries that will never find their publish, from a thousand channels."""
    tracker = Tracker(Policy.channel, Bounds(reorder_window=1_000_000))
    for number in range(1_000):
        lost = Deliver(channel(f"c{number}"), "x", ("key",), "q", False, {}, b"%d" % number)
        assert tracker.apply(lost, 0) == []
    counted = Counted(monkeypatch)
    publish = Publish(channel("bob"), "x", ("key",), ("other",), {}, b"body")
    looked_at = []
    monkeypatch.setattr(tracker, "_must_wait", lambda held: looked_at.append(held) or False)
    (event,) = tracker.apply(publish, 1)
    assert (event.record, len(looked_at)) == (publish, 1)
    assert counted.bytes < 1_000


def test_a_body_is_read_a_few_times_however_many_deaths_a_stream_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read, with_body = [], fingerprint._with_body

    def counted(head: bytes, record: Record, *size: int) -> bytes:
        read.append(head)
        return with_body(head, record, *size)

    monkeypatch.setattr(fingerprint, "_with_body", counted)
    deliver = dead(MOST_ORIGINS)
    headers = {**deliver.properties["headers"], "x-stream-offset": 7}
    properties = {"headers": headers, "delivery_mode": 1}
    (event,) = Tracker(Policy.channel, Bounds()).apply(replace(deliver, properties=properties), 0)
    assert event.match is Match.unmatched
    assert len(read) < 20
