"""The compiled reader of marks agrees with the Python that it replaces."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from app.tracker import _names
from app.tracker.fingerprint import _REVEALING, fingerprint
from app.tracker.links import BUILT_IN, Rules
from app.tracker.records import Channel, Deliver, Publish, Record
from tests.leaks import growth
from tests.oracles.names import names_in

EDGES = [2**power - less for power in (5, 7, 8, 15, 16, 31, 32, 63) for less in (1, 0)]
_texts = st.text(max_size=8) | st.sampled_from([size for size in EDGES if size <= 2**16]).map(
    lambda size: "ü" + "a" * (size - 2)
)
_plain = (
    _texts
    | st.sampled_from([*EDGES, 2**64 - 1, *[-edge for edge in EDGES]])
    | st.sampled_from(["urn:uuid:A", "urn:uuid", 2.5, None, True, False])
)
_values = _plain | st.lists(_plain, max_size=2) | st.dictionaries(_texts, _plain, max_size=2)
_names_of_headers = st.sampled_from(sorted(_REVEALING)) | st.text(max_size=3)
_headers = st.dictionaries(_names_of_headers, _values, max_size=3) | st.integers(0, 70).map(
    lambda count: {str(number): number for number in range(count)}
)
_properties = st.dictionaries(
    st.sampled_from(["message_id", "correlation_id", "priority", "expiration", "cluster_id", "b"]),
    _values,
).flatmap(lambda rest: st.just(rest) | _headers.map(lambda headers: {**rest, "headers": headers}))


def record_of(properties: dict[str, Any], number: int, is_publish: bool) -> Record:
    channel = Channel("n", "c", number, "u")
    if is_publish:
        return Publish(channel, "é", ("k", "cc"), ("q",), properties, b"body")
    return Deliver(channel, "é", ("k", "cc"), "q", False, properties, b"body")


@given(_properties, st.sampled_from([0, 1]), st.booleans())
@example({"headers": {"x-stream-offset": 1}}, 1, False)
@example({"headers": {}}, 1, True)
@example({"headers": {"a": "b", "n": -33}, "priority": 300, "message_id": "7"}, 1, True)
def test_any_message_has_the_same_mark(
    properties: dict[str, Any], number: int, is_publish: bool
) -> None:
    record = record_of(properties, number, is_publish)
    marked = fingerprint(record)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_names, "mark", lambda *_: None)
        assert fingerprint(record) == marked


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 1024, 3000])
def test_a_message_of_any_length_has_the_digests_that_python_makes(size: int) -> None:
    record = replace(record_of({"message_id": "7" * (size % 300)}, 1, True), body=b"x" * size)
    marked = fingerprint(record)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_names, "mark", lambda *_: None)
        assert fingerprint(record) == marked
    rules = Rules(BUILT_IN)
    assert set(rules.read(record).ids) == set(names_in(rules, record)[0].ids)


def test_an_empty_table_of_headers_is_as_none_and_needs_no_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    marks = []
    mark = _names.mark
    monkeypatch.setattr(_names, "mark", lambda *what: marks.append(mark(*what)) or marks[-1])
    without, empty = {"message_id": "7"}, {"message_id": "7", "headers": {}}
    assert fingerprint(record_of(empty, 1, True)) == fingerprint(record_of(without, 1, False))
    assert None not in marks


def test_a_usual_message_is_marked_without_the_python_and_nothing_is_leaked() -> None:
    usual = {"message_id": "7", "headers": {"a": "b", "n": 300, "is": True, "none": None}}
    odd = [{"headers": {"a": []}}, {"message_id": "\ud800"}, {"headers": {"CC": "b"}}]

    def repr_of(value: Any) -> bytes:
        return repr(value).encode()

    def work() -> None:
        assert _names.mark(record_of(usual, 1, True), repr_of, _REVEALING) is not None
        for each in odd:
            assert _names.mark(record_of(each, 1, True), repr_of, _REVEALING) is None

    assert growth(work, 1_000) < 1_000
