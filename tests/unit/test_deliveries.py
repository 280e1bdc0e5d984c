"""Deliveries come off a connection's bytes complete and in order, and everything else stays."""

from __future__ import annotations

import asyncio
import tracemalloc
from itertools import pairwise
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands, frame
from pamqp.body import ContentBody
from pamqp.header import ContentHeader
from pamqp.heartbeat import Heartbeat

from app.broker._wire import DeliverySplitter, decode_headers
from app.broker.connection import Diversion
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


def test_no_second_copy_of_a_large_body_is_made_once_its_last_frame_has_come() -> None:
    splitter = DeliverySplitter()
    splitter.divert(OURS, [].extend)
    body = bytes(8 * 1024 * 1024)
    data = delivery_frames(OURS, Arrival(1, False, "publish.", header_of(body, 1), body), 64)
    tracemalloc.start()
    try:
        for at in range(0, len(data), 65_536):
            splitter.feed(data[at : at + 65_536])
        assert tracemalloc.get_traced_memory()[1] < 1.2 * len(body)
    finally:
        tracemalloc.stop()


def test_a_routing_key_that_is_not_utf8_keeps_its_odd_bytes_as_escapes() -> None:
    taken: list[Arrival] = []
    splitter = DeliverySplitter()
    splitter.divert(OURS, taken.extend)
    delivery = Arrival(1, False, "deliver.ab", header_of(b"", 1), b"")
    splitter.feed(delivery_frames(OURS, delivery, 1).replace(b"deliver.ab", b"deliver.\xff\xfe"))
    assert taken[0].routing_key == "deliver.\\xff\\xfe"
    assert decode_headers(taken[0].header) == {"n": 1}


class Library(asyncio.StreamReaderProtocol):
    """What the library reads from; it keeps what it was handed."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        super().__init__(stream)
        self.handed = b""

    def data_received(self, data: bytes) -> None:
        self.handed += data
        super().data_received(data)


class Wire(asyncio.Transport):
    """A transport of bytes that a test receives, and the stream that the library reads."""

    def __init__(self) -> None:
        super().__init__()
        self.stream = asyncio.StreamReader()
        self.library = Library(self.stream)
        self.is_open = True
        self.taken: list[Arrival] = []
        self.splitter = DeliverySplitter()
        self.diversion = Diversion(self, self.splitter)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.library

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self.receiver = protocol

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        """Nothing is open."""

    def pause_reading(self) -> None:
        self.is_open = False

    def resume_reading(self) -> None:
        assert not self.is_open
        self.is_open = True

    def receive(self, data: bytes) -> None:
        assert self.is_open
        self.receiver.data_received(data)

    def divert(self) -> None:
        self.splitter.divert(OURS, self.taken.extend)


DELIVERY = Arrival(1, False, "publish.", header_of(b"body", 1), b"body")
FRAMES = delivery_frames(OURS, DELIVERY, 1)
ANSWER = frame.marshal(commands.Basic.ConsumeOk("itc.trace"), OURS)


async def test_the_library_reads_everything_else() -> None:
    wire = Wire()
    wire.divert()
    wire.receive(FRAMES + ANSWER + FRAMES + ANSWER[:5])
    assert await wire.stream.readexactly(len(ANSWER)) == ANSWER
    assert wire.taken == [DELIVERY, DELIVERY]
    wire.receive(ANSWER[5:])
    assert await wire.stream.readexactly(len(ANSWER)) == ANSWER


async def test_at_the_end_the_library_is_told() -> None:
    wire = Wire()
    wire.receive(ANSWER + ANSWER[:3])
    assert wire.receiver.eof_received(), "the library has its say before the socket is closed"
    assert await wire.stream.readexactly(len(ANSWER)) == ANSWER
    with pytest.raises(asyncio.IncompleteReadError):
        await wire.stream.readexactly(1)
    assert wire.stream.at_eof()


async def test_of_a_lost_connection_the_library_is_told_why() -> None:
    wire = Wire()
    wire.receiver.connection_lost(ConnectionResetError("by the peer"))
    with pytest.raises(ConnectionResetError, match="by the peer"):
        await wire.stream.readexactly(1)


async def test_a_library_that_writes_waits_for_the_socket() -> None:
    wire = Wire()
    writer = asyncio.StreamWriter(wire, wire.library, wire.stream, asyncio.get_running_loop())
    wire.receiver.pause_writing()
    draining = asyncio.ensure_future(writer.drain())
    for _ in range(3):
        await asyncio.sleep(0)
    assert not draining.done()
    wire.receiver.resume_writing()
    await draining


@pytest.fixture
def quick_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.broker.connection.SIGN_OF_LIFE_SECONDS", 0.01)


@pytest.mark.usefixtures("quick_signs")
async def test_a_connection_with_deliveries_alone_shows_signs_of_life() -> None:
    wire = Wire()
    wire.divert()
    for _ in range(2):
        wire.receive(FRAMES)
        assert await wire.stream.readexactly(len(HEARTBEAT_FRAME)) == HEARTBEAT_FRAME
    assert wire.taken == [DELIVERY, DELIVERY]
    await no_sign_of_life(wire)


@pytest.mark.usefixtures("quick_signs")
async def test_a_connection_that_is_paused_does_not_seem_dead() -> None:
    wire = Wire()
    wire.divert()
    wire.diversion.pause()
    assert not wire.is_open
    assert await wire.stream.readexactly(2 * len(HEARTBEAT_FRAME)) == 2 * HEARTBEAT_FRAME
    for _ in range(2):  # of which the second changes nothing
        wire.diversion.resume()
    await no_sign_of_life(wire)


@pytest.mark.usefixtures("quick_signs")
async def test_one_that_is_silent_shows_none() -> None:
    wire = Wire()
    wire.divert()
    await no_sign_of_life(wire)


@pytest.mark.usefixtures("quick_signs")
async def test_one_that_is_still_opened_shows_none() -> None:
    wire = Wire()
    wire.receive(ANSWER[:3])
    await no_sign_of_life(wire)


@pytest.mark.usefixtures("quick_signs")
@pytest.mark.parametrize("is_lost", [True, False])
async def test_one_that_is_over_shows_none(is_lost: bool) -> None:
    wire = Wire()
    wire.divert()
    wire.receive(FRAMES)
    if is_lost:
        wire.receiver.connection_lost(None)
    else:
        wire.receiver.eof_received()
    await no_sign_of_life(wire)


async def no_sign_of_life(wire: Wire) -> None:
    before = wire.library.handed
    await asyncio.sleep(0.1)  # ten times as long as until the next
    assert wire.library.handed == before


# Bytes, and the delivery that they hold, if it is ours.
Sent: TypeAlias = tuple[bytes, Arrival | None]


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[bytes, Arrival]:
    body = draw(st.binary(max_size=40))
    delivery = Arrival(
        tag=draw(st.integers(1, 2**63 - 1)),
        redelivered=draw(st.booleans()),
        routing_key=draw(st.text(max_size=20)),
        header=header_of(body, draw(st.integers(0, 9))),
        body=body,
    )
    pieces = draw(st.integers(1, 4))
    channel = draw(st.sampled_from([OURS, OURS, OURS, OTHER]))
    return delivery_frames(channel, delivery, pieces), delivery if channel == OURS else None


answers = st.sampled_from(
    [
        frame.marshal(Heartbeat(), 0),
        frame.marshal(commands.Basic.ConsumeOk("itc.trace"), OURS),
        frame.marshal(commands.Basic.Cancel("itc.trace", True), OURS),
        frame.marshal(commands.Queue.DeclareOk("itc.trace", 5, 1), OURS),
        frame.marshal(commands.Channel.CloseOk(), OTHER),
        frame.marshal(commands.Connection.Blocked("no memory"), 0),
    ]
).map(lambda data: (data, None))


def in_chunks(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in pairwise(places)]


@given(
    st.lists(st.one_of(answers, deliveries()), max_size=12),
    st.lists(st.integers(0, 100_000), max_size=30),
)
def test_however_the_bytes_come_deliveries_are_complete_and_the_rest_is_passed_on(
    sent: list[Sent], cuts: list[int]
) -> None:
    taken: list[Arrival] = []
    splitter = DeliverySplitter()
    splitter.divert(OURS, taken.extend)
    passed = [splitter.feed(c) for c in in_chunks(b"".join(data for data, _ in sent), cuts)]
    assert taken == [delivery for _, delivery in sent if delivery]
    assert b"".join(passed) == b"".join(data for data, delivery in sent if not delivery)


@given(st.lists(deliveries(), min_size=1, max_size=3), st.lists(st.integers(0, 500), max_size=9))
def test_until_deliveries_are_diverted_everything_is_passed_on(
    sent: list[Sent], cuts: list[int]
) -> None:
    splitter = DeliverySplitter()
    data = b"".join(data for data, _ in sent)
    assert b"".join(splitter.feed(chunk) for chunk in in_chunks(data, cuts)) == data
