"""The parser accepts anything: every message is a record, or says why it is not one."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.tracker import (
    Bounds,
    Deliver,
    Policy,
    Publish,
    RestorePoint,
    Tracker,
    Unreadable,
)
from tests.unit.test_firehose import DELIVER, PUBLISH, read

numbers: st.SearchStrategy[Any] = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(width=32),
    st.text(max_size=3),
    st.none(),
)


@given(
    numbers,
    numbers,
    st.lists(st.one_of(numbers, st.dictionaries(st.text(max_size=3), numbers)), max_size=3),
)
def test_whatever_is_taken_for_a_delivery_is_read_back_from_a_checkpoint(
    number: Any, redelivered: Any, deaths: list[Any]
) -> None:
    headers = {"headers": {"x-death": deaths, "timestamp_in_ms": number}}
    forged = {**DELIVER, "channel": number, "redelivered": redelivered, "properties": headers}
    for record in (
        read("deliver.q", forged),
        read("deliver.q", {**DELIVER, "properties": headers}),
    ):
        if isinstance(record, Unreadable):
            continue
        tracker = Tracker(Policy.channel, Bounds(reorder_window=1_000_000))
        assert tracker.apply(record, 0) == []
        state = tracker.checkpoint().state
        again = Tracker(Policy.channel, Bounds(), RestorePoint(state, [], [], [], []))
        assert len(again._window) == 1


anything: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(
    st.one_of(st.text(max_size=12), st.sampled_from(("publish.x", "deliver.q", "publish."))),
    st.dictionaries(st.sampled_from(sorted({**PUBLISH, **DELIVER})), anything),
    st.binary(max_size=8),
)
def test_any_message_becomes_a_record_or_a_reason(
    key: str, changes: dict[str, Any], body: bytes
) -> None:
    result = read(key, {**PUBLISH, **DELIVER, **changes}, body)
    assert isinstance(result, Publish | Deliver | Unreadable)
