"""The compiled reader of trace messages agrees with the Python that it replaces."""

import gc
import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.broker import _wire as wire
from app.broker import firehose
from app.broker.deliveries import Arrival
from drills.fuzz import damaged, messages
from tests.unit.test_compiled_wire import HEADER, METHOD, TABLE, delivery_bytes, header_of


@given(messages(), st.integers(0, 2**32))
def test_any_message_is_read_with_the_same_result(message, seed):
    key, whole, body = message
    for header in damaged(whole, random.Random(seed)):
        with_it = firehose.parse(key, header, body, 0)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(wire, "read_trace", lambda *_: None)
            assert repr(firehose.parse(key, header, body, 0)) == repr(with_it)


def test_nothing_is_leaked():
    header, chance = header_of(TABLE), random.Random(1)
    broken = list(damaged(header, chance)) * 20
    data = delivery_bytes(METHOD, HEADER, b"abc") * 3
    odd_key = delivery_bytes(METHOD[:-1] + b"\xff", HEADER, b"abc")

    def bytes_held_after(rounds):
        for _ in range(rounds):
            for each in broken:
                wire.read_trace(each, True)
            wire.read_deliveries(data + odd_key + data[:-1], 0, 1, Arrival)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = bytes_held_after(3)
        assert bytes_held_after(30) - before < 1_000
    finally:
        tracemalloc.stop()
