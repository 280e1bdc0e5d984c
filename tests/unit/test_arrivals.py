"""When trace messages arrived: in order, and close to the clock."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from app.broker import consumer
from app.broker.consumer import MOST_AHEAD, Reading, TraceStream
from app.broker.deliveries import Arrival
from app.broker.outages import BrokerAddress


async def arrivals(monkeypatch: pytest.MonkeyPatch, reads: list[tuple[int, int]]) -> list[int]:
    """Times of arrival in µs, for ``reads``: (time in µs, number of messages) each."""
    connection: Any = SimpleNamespace(broker_version=(4, 2), resume=lambda: None)
    nothing: Any = None
    place = BrokerAddress("localhost:5672", "guest", "/")
    stream = TraceStream(nothing, "itc.trace", connection, place, Reading(100), queue_is_new=False)
    for now, count in reads:
        monkeypatch.setattr(consumer.time, "time_ns", lambda now=now: now * 1000)
        stream.take_in([Arrival(1, False, "publish.", b"", b"") for _ in range(count)])
    return [each.at for each in await stream.batch(1_000_000, 0)]


async def test_those_of_one_read_are_a_microsecond_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await arrivals(monkeypatch, [(100, 3), (200, 2)]) == [100, 101, 102, 200, 201]


async def test_a_read_right_after_another_is_later(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await arrivals(monkeypatch, [(100, 3), (101, 2)]) == [100, 101, 102, 103, 104]


async def test_a_clock_that_is_set_back_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    set_back = 5_000_000
    times = await arrivals(monkeypatch, [(set_back + 100, 2), (100, 1)])
    assert times[2] == 100 + MOST_AHEAD
