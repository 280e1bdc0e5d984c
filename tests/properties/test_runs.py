"""What another process reads is what we would have read, wherever the bytes were cut."""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from app.broker import runs
from app.broker.arrivals import TraceMessage, read
from app.broker.deliveries import RUN, Delivery, DeliverySplitter, framed
from app.broker.runs import RunReader, RunWriter
from app.tracker import Unreadable
from app.tracker.digest import digest
from app.tracker.fingerprint import fingerprint
from drills.fuzz import damaged, messages
from tests.properties.test_deliveries import Sent, answers, in_chunks
from tests.unit.test_deliveries import OURS, delivery_frames
from tests.unit.test_firehose import DELIVER, PUBLISH

pytestmark = pytest.mark.usefixtures("each_reader")


@st.composite
def read_or_not(draw: st.DrawFn) -> list[Delivery]:
    """Deliveries of trace messages, many of them damaged."""
    found = []
    for number in range(draw(st.integers(1, 6))):
        key, whole, body = draw(messages())
        chance = random.Random(draw(st.integers(0, 99)))
        header = draw(st.sampled_from([whole, *damaged(whole, chance)]))
        found.append(Delivery(number + 1, draw(st.booleans()), key, header, body))
    return found


def read_here(delivery: Delivery) -> TraceMessage:
    """As in our own process, with all that is made of it later."""
    arrived = read(delivery, 0)
    if not isinstance(arrived.message, Unreadable):
        arrived.digest = digest(arrived.message)
        arrived.fingerprint = fingerprint(arrived.message)
    return arrived


def as_read_here(arrived: TraceMessage | Delivery) -> TraceMessage:
    return read_here(arrived) if isinstance(arrived, Delivery) else arrived


def shown(messages: list[TraceMessage]) -> str:
    """With every value's type, and the order within tables, which are not part of equality."""
    return repr([msgspec.structs.astuple(message) for message in messages])


@given(st.lists(read_or_not(), min_size=1, max_size=4), st.integers(1, 3))
def test_a_run_says_what_its_deliveries_say(reads: list[list[Delivery]], table: int) -> None:
    writer, reader = RunWriter(), RunReader()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "MOST_CHANNELS", table)
        for deliveries in reads:
            told = reader.read(writer.write(deliveries))
            expected = [read_here(delivery) for delivery in deliveries]
            assert shown([as_read_here(each) for each in told]) == shown(expected)
            raw = [isinstance(each, Delivery) for each in told]
            assert raw == [isinstance(each.message, Unreadable) for each in expected]


@st.composite
def trace_messages(draw: st.DrawFn) -> Sent:
    table, key = draw(st.sampled_from([(PUBLISH, "publish.orders"), (DELIVER, "deliver.q")]))
    table = {**table, "connection": draw(st.sampled_from(["a", "b", "c"]))}
    body = draw(st.binary(max_size=40))
    header = ContentHeader(0, len(body), Basic.Properties(headers=table)).marshal()
    delivery = Delivery(draw(st.integers(1, 99)), draw(st.booleans()), key, header, body)
    return delivery_frames(OURS, delivery, draw(st.integers(1, 4))), delivery


@given(
    st.lists(st.one_of(answers, trace_messages()), max_size=12),
    st.lists(st.integers(0, 100_000), max_size=30),
    st.lists(st.integers(0, 100_000), max_size=30),
    st.integers(0, 5),
)
def test_behind_a_relay_the_same_is_taken_and_the_same_is_passed_on(
    sent: list[Sent], cuts: list[int], others: list[int], late: int
) -> None:
    relayed = b"".join(_relayed(b"".join(data for data, _ in sent), cuts, late))
    taken: list[TraceMessage | Delivery] = []
    reader, splitter = RunReader(), DeliverySplitter()
    splitter.divert(OURS, taken.extend, lambda run: taken.extend(reader.read(run)))
    passed = [splitter.feed(chunk) for chunk in in_chunks(relayed, others)]
    assert shown([as_read_here(each) for each in taken]) == shown(
        [read_here(delivery) for _, delivery in sent if delivery]
    )
    assert b"".join(passed) == b"".join(data for data, delivery in sent if not delivery)


def _relayed(data: bytes, cuts: list[int], late: int) -> Iterator[bytes]:
    """What the reading process makes of the broker's bytes, told of the channel so much later."""
    writer, splitter = RunWriter(), DeliverySplitter()

    def take(some: list[Delivery]) -> None:
        splitter.pass_on(framed(RUN, OURS, writer.write(some)))

    for number, chunk in enumerate(in_chunks(data, cuts)):
        if number == late:
            splitter.divert(OURS, take)
        yield splitter.feed(chunk)


@given(st.binary(max_size=60))
def test_who_takes_no_runs_passes_them_on_and_nothing_is_made_of_what_is_none(data: bytes) -> None:
    taken: list[object] = []
    frame = framed(RUN, OURS, data)
    plain = DeliverySplitter()
    plain.divert(OURS, taken.extend)
    assert plain.feed(frame + frame) == frame + frame
    splitter, reader = DeliverySplitter(), RunReader()
    splitter.divert(OURS, taken.extend, lambda run: taken.extend(reader.read(run)))
    splitter.feed(frame)
    assert all(isinstance(each, TraceMessage | Delivery) for each in taken)


def test_a_delivery_that_had_begun_stays_ahead_of_those_that_are_read() -> None:
    def delivery(tag: int) -> tuple[bytes, Delivery]:
        header = ContentHeader(0, 3, Basic.Properties(headers=PUBLISH)).marshal()
        made = Delivery(tag, False, "publish.orders", header, b"abc")
        return delivery_frames(OURS, made, 1), made

    (first, one), (second, two) = delivery(1), delivery(2)
    relayed = b"".join(_relayed(first + second, [len(first) - 5], late=1))
    taken: list[TraceMessage | Delivery] = []
    splitter, reader = DeliverySplitter(), RunReader()
    splitter.divert(OURS, taken.extend, lambda run: taken.extend(reader.read(run)))
    assert splitter.feed(relayed) == b""
    assert [each.tag for each in taken] == [1, 2]
    assert [isinstance(each, Delivery) for each in taken] == [True, False]
    assert shown([as_read_here(each) for each in taken]) == shown([read_here(one), read_here(two)])
