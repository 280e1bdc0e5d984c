"""Deliveries come off a connection's bytes complete and in order, and everything else stays."""

from __future__ import annotations

import asyncio

import pytest
from pamqp import commands, frame
from pamqp.body import ContentBody
from pamqp.header import ContentHeader

from app.broker._wire import DeliverySplitter, decode_headers
from app.broker.connection import DivertingReader
from app.broker.deliveries import HEARTBEAT_FRAME, Arrival

OURS, OTHER = 1, 2


def delivery_frames(channel: int, delivery: Arrival, pieces: int) -> bytes:
    """What the broker sends for a delivery, its body in `pieces` frames."""
    arguments = commands.Basic.Deliver(
        "itc.trace", delivery.tag, delivery.redelivered, "amq.rabbitmq.trace", delivery.routing_key
    )
    size = max(1, -(-len(delivery.body) // pieces))
    bodies = [delivery.body[at : at + size] for at in range(0, len(delivery.body), size)]
    header = frame.marshal(ContentHeader(0, 0, commands.Basic.Properties()), channel)
    return b"".join(
        [
            frame.marshal(arguments, channel),
            header[:3] + len(delivery.header).to_bytes(4, "big") + delivery.header + b"\xce",
            *(frame.marshal(ContentBody(body), channel) for body in bodies),
        ]
    )


def header_of(body: bytes, number: int) -> bytes:
    properties = commands.Basic.Properties(headers={"n": number})
    return ContentHeader(0, len(body), properties).marshal()


@pytest.mark.parametrize(
    "odd",
    [
        b"AMQP\0\0\x09\x01",  # a broker that refuses the protocol's version
        b"\x09" + bytes(20),  # a kind of frame that does not exist
        b"\x08\0\0\0\0\0\0X and more",  # a frame without its end
    ],
)
def test_what_is_not_a_frame_is_left_to_the_library_with_all_after_it(odd: bytes) -> None:
    taken: list[Arrival] = []
    splitter = DeliverySplitter()
    splitter.divert(OURS, taken.extend)
    delivery = Arrival(1, False, "publish.", header_of(b"x", 1), b"x")
    behind = delivery_frames(OURS, delivery, 1)
    assert splitter.feed(behind + odd + behind) + splitter.feed(behind) == odd + behind + behind
    assert taken == [delivery]


def test_a_large_body_in_many_frames_and_chunks() -> None:
    taken: list[Arrival] = []
    splitter = DeliverySplitter()
    splitter.divert(OURS, taken.extend)
    body = bytes(range(256)) * 8000
    delivery = Arrival(7, True, "deliver.q", header_of(body, 1), body)
    data = delivery_frames(OURS, delivery, 16)
    assert not any(splitter.feed(data[at : at + 4096]) for at in range(0, len(data), 4096))
    assert taken == [delivery]


def test_a_routing_key_that_is_not_utf8_keeps_its_odd_bytes_as_escapes() -> None:
    taken: list[Arrival] = []
    splitter = DeliverySplitter()
    splitter.divert(OURS, taken.extend)
    delivery = Arrival(1, False, "deliver.ab", header_of(b"", 1), b"")
    splitter.feed(delivery_frames(OURS, delivery, 1).replace(b"deliver.ab", b"deliver.\xff\xfe"))
    assert taken[0].routing_key == "deliver.\\xff\\xfe"
    assert decode_headers(taken[0].header) == {"n": 1}


class Wire:
    """A reader of bytes that a test feeds."""

    def __init__(self) -> None:
        self.stream = asyncio.StreamReader()
        self.gate = asyncio.Event()
        self.gate.set()
        self.splitter = DeliverySplitter()
        self.taken: list[Arrival] = []
        self.came = asyncio.Event()
        self.reader = DivertingReader(self.stream, self.gate, self.splitter)

    def divert(self) -> None:
        self.splitter.divert(OURS, self.take)

    def take(self, deliveries: list[Arrival]) -> None:
        self.taken.extend(deliveries)
        self.came.set()


DELIVERY = Arrival(1, False, "publish.", header_of(b"body", 1), b"body")
FRAMES = delivery_frames(OURS, DELIVERY, 1)
ANSWER = frame.marshal(commands.Basic.ConsumeOk("itc.trace"), OURS)


async def test_the_library_reads_everything_else_in_pieces_of_its_choice() -> None:
    wire = Wire()
    wire.divert()
    wire.stream.feed_data(FRAMES + ANSWER + FRAMES + ANSWER[:5])
    assert await wire.reader.readexactly(7) == ANSWER[:7]
    assert await wire.reader.readexactly(len(ANSWER) - 7) == ANSWER[7:]
    assert wire.taken == [DELIVERY, DELIVERY]
    wire.stream.feed_data(ANSWER[5:])
    assert await wire.reader.read() == ANSWER


async def test_at_the_end_the_library_is_told() -> None:
    wire = Wire()
    wire.stream.feed_data(ANSWER + ANSWER[:3])
    wire.stream.feed_eof()
    assert await wire.reader.readexactly(len(ANSWER)) == ANSWER
    with pytest.raises(asyncio.IncompleteReadError):
        await wire.reader.readexactly(1)
    assert wire.reader.at_eof()
    assert await wire.reader.read() == b""


async def test_a_connection_with_deliveries_alone_shows_signs_of_life(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    wire = Wire()
    wire.stream.feed_data(ANSWER)
    assert await wire.reader.readexactly(len(ANSWER)) == ANSWER
    wire.divert()
    wire.stream.feed_data(FRAMES)
    reading = asyncio.ensure_future(wire.reader.readexactly(len(HEARTBEAT_FRAME)))
    await wire.came.wait()
    assert not reading.done(), "within a second nothing is missed"
    now += 1.5
    wire.stream.feed_data(FRAMES)
    assert await reading == HEARTBEAT_FRAME
    assert len(wire.taken) == 2


async def test_nothing_is_read_while_the_gate_is_closed() -> None:
    wire = Wire()
    wire.divert()
    wire.gate.clear()
    wire.stream.feed_data(FRAMES + ANSWER)
    reading = asyncio.ensure_future(wire.reader.readexactly(len(ANSWER)))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not wire.taken
    wire.gate.set()
    assert await reading == ANSWER
    assert wire.taken == [DELIVERY]


async def test_a_closed_gate_does_not_make_the_connection_seem_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.broker.connection.SIGN_OF_LIFE_SECONDS", 0.01)
    wire = Wire()
    wire.divert()
    wire.gate.clear()
    wire.stream.feed_data(FRAMES)
    size = len(HEARTBEAT_FRAME)
    assert await wire.reader.readexactly(2 * size) == 2 * HEARTBEAT_FRAME
    assert not wire.taken


async def test_a_silent_connection_shows_no_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.broker.connection.SIGN_OF_LIFE_SECONDS", 0.01)
    wire = Wire()
    wire.divert()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(wire.reader.readexactly(1), 0.1)
