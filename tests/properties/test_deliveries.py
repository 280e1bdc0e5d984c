"""Deliveries come off a connection's bytes complete and in order, and everything else stays."""

from __future__ import annotations

from itertools import pairwise
from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands, frame
from pamqp.heartbeat import Heartbeat

from app.broker._wire import DeliverySplitter
from app.broker.deliveries import Arrival
from tests.unit.test_deliveries import OTHER, OURS, delivery_frames, header_of

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
