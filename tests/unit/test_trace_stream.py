"""A stream of trace messages wakes whoever waits for it once there is as much as was asked for."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from yarl import URL

from app.broker.consumer import (
    BUFFER_BYTES,
    PORTION_BYTES,
    PORTION_HEADERS,
    Reading,
    TraceStream,
)
from app.broker.deliveries import Arrival
from app.broker.outages import BrokerAddress
from app.errors import OutageError

LONG = 3600.0  # s: whoever waits so long fails


class Connection:
    """As far as a stream knows it."""

    broker_version = (3, 10, 8)
    is_paused = False

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False


@pytest.fixture
def connection() -> Connection:
    return Connection()


@pytest.fixture
def stream(connection: Any) -> TraceStream:
    place = BrokerAddress.of(URL("amqp://guest:guest@localhost"), "/")
    return TraceStream(cast("Any", None), "q", connection, place, Reading(9), queue_is_new=True)


def arrival(tag: int, size: int = 1) -> Arrival:
    return Arrival(tag, False, "publish.", b"", bytes(size))


async def test_it_wakes_at_the_last_of_what_was_asked_for(stream: TraceStream) -> None:
    waiting = asyncio.ensure_future(stream.batch(3, LONG))
    for tag in (1, 2):
        await asyncio.sleep(0)
        stream.take_in([arrival(tag)])
    for _ in range(10):
        await asyncio.sleep(0)
    assert not waiting.done()
    stream.take_in([arrival(3), arrival(4)])
    assert [each.tag for each in await waiting] == [1, 2, 3]
    assert [each.tag for each in await stream.batch(1, LONG)] == [4], "that was there already"


async def test_after_a_while_it_gives_what_there_is(stream: TraceStream) -> None:
    stream.take_in([arrival(1)])
    assert [each.tag for each in await stream.batch(2, 0.01)] == [1]


async def test_a_portion_of_large_bodies_is_enough(stream: TraceStream) -> None:
    waiting = asyncio.ensure_future(stream.batch(1_000, LONG))
    await asyncio.sleep(0)
    stream.take_in([arrival(1, PORTION_BYTES), arrival(2, PORTION_BYTES)])
    assert [each.tag for each in await waiting] == [1]
    assert [each.tag for each in await stream.batch(1_000, LONG)] == [2]


async def test_a_portion_of_large_headers_is_enough(stream: TraceStream) -> None:
    waiting = asyncio.ensure_future(stream.batch(1_000, LONG))
    await asyncio.sleep(0)
    header = bytes(PORTION_HEADERS // 2)
    stream.take_in([Arrival(tag, False, "publish.", header, b"") for tag in range(1, 5)])
    assert [each.tag for each in await waiting] == [1, 2]
    assert [each.tag for each in await stream.batch(1_000, LONG)] == [3, 4]
    stream.take_in([Arrival(5, False, "publish.", header, b"")])
    assert [each.tag for each in await stream.batch(1_000, 0.01)] == [5], "and no portion"


async def test_nothing_is_read_while_too_much_waits(
    stream: TraceStream, connection: Connection
) -> None:
    portions = BUFFER_BYTES // PORTION_BYTES
    stream.take_in([arrival(tag, PORTION_BYTES) for tag in range(portions)])
    assert not connection.is_paused
    stream.take_in([arrival(portions, PORTION_BYTES), arrival(portions + 1)])
    assert connection.is_paused
    await stream.batch(1, LONG)
    assert connection.is_paused, "a byte too much is left"
    await stream.batch(1, LONG)
    assert not connection.is_paused


async def test_a_lost_connection_wakes_it(stream: TraceStream) -> None:
    waiting = asyncio.ensure_future(stream.batch(2, LONG))
    await asyncio.sleep(0)
    stream.take_in([arrival(1)])
    stream.lose(OutageError("gone"))
    with pytest.raises(OutageError, match="gone"):
        await waiting
