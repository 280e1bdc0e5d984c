"""Whatever a message says, what we make of it can be stored, hashed, written and read back."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from app.tracker import Channel, Publish
from app.tracker.replies import Replies
from model.deaths import deaths_of
from model.error_queues import forward_of
from model.happened import keys_in
from model.message_types import type_of
from model.texts import DIRECT_REPLIES, storable
from spark_jobs.interchange.asyncapi import as_json, as_yaml
from spark_jobs.interchange.traffic import PeriodShapes
from spark_jobs.reports.assertions.keys import key_of
from spark_jobs.reports.message_fields import fields_of

ODD = st.sampled_from(["\ud800", "\udfff", "\0", "\ud83d\ude00", "é", "a", "\\", "x00", "ud800"])
TEXTS = st.lists(ODD, max_size=4).map("".join) | st.text(max_size=5)
# As a body spells them; the tables of messages are the broker's, whose text has been UTF-8.
CLEAN = TEXTS.map(lambda text: text.encode("utf-8", "replace").decode())
OCTETS = st.binary(max_size=20)


def trees(texts: st.SearchStrategy[str], numbers: st.SearchStrategy[Any]) -> Any:
    leaves = st.none() | st.booleans() | numbers | texts
    return st.recursive(
        leaves,
        lambda below: st.lists(below, max_size=3) | st.dictionaries(texts, below, max_size=3),
        max_leaves=12,
    )


NUMBERS = st.integers() | st.integers(1, 10**30).map(lambda n: n**100) | st.floats()
DEEP = st.integers(1, 5_000).map(lambda depth: b'{"n":' + b"[" * depth + b"]" * depth + b"}")
BODIES = (
    st.dictionaries(
        st.sampled_from(["n", "type", "messageType", "n\ud800"]) | TEXTS, trees(TEXTS, NUMBERS)
    ).map(lambda body: json.dumps(body).encode())
    | DEEP
    | st.binary(max_size=40)
    | st.sampled_from(
        [
            b'{"n":"\\ud800"}',
            b'{"n\\ud800":"k"}',
            b'{"n":"\\u0000"}',
            b'{"n":NaN}',
            b'{"n":1e999}',
            b'{"n":' + b"9" * 5_000 + b"}",
            b'{"type":"\\udc00","messageType":["urn:message:A:\\ud800"]}',
            b'{"n":"\xed\xa0\x80"}',
            '{"n":"\ud83d"}'.encode("utf-16", "surrogatepass"),
        ]
    )
)
VALUES = trees(CLEAN, st.integers(-(2**63), 2**63)) | OCTETS.map(
    lambda octets: {"base64": msgspec.to_builtins(octets)}
)
NAMED = ("n", "task", "x-death", "x-exception-message", "rbs2-error-details", "root_id")
DEATHS = st.fixed_dictionaries(
    {"queue": CLEAN, "reason": CLEAN, "exchange": CLEAN, "routing-keys": st.lists(CLEAN)}
)
PROPERTIES = st.fixed_dictionaries(
    {},
    optional={
        "message_id": CLEAN,
        "correlation_id": CLEAN,
        "type": CLEAN,
        "content_type": st.sampled_from(
            ["application/json", "application/vnd.masstransit+json", "application/cloudevents+json"]
        ),
        "headers": st.dictionaries(
            st.sampled_from(NAMED) | CLEAN, VALUES | st.lists(DEATHS, max_size=2), max_size=4
        ),
    },
)


def check(text: str | None) -> None:
    """A text that PostgreSQL, Arrow, hashes and readers of JSON take."""
    if text is not None:
        assert "\0" not in text
        assert pa.array([text]).to_pylist() == [text]
        assert msgspec.json.decode(json.dumps(text)) == text
        assert storable(text) == text


@given(TEXTS | OCTETS)
def test_any_text_becomes_storable(text: str | bytes) -> None:
    check(storable(text))


@given(st.text(max_size=9))
def test_a_text_that_can_be_stored_stays_as_it_is(text: str) -> None:
    odd = "\0" in text or any("\ud800" <= each <= "\udfff" for each in text)
    assert (storable(text) == text) is not odd


@given(TEXTS, TEXTS)
@example("\ud800", "\ud801")
@example("\0", "")
@example("a\udfff", "a?")
@example("\ud83d", "\ufffd")
def test_two_texts_stay_two_unless_one_spells_an_escape(one: str, other: str) -> None:
    if one != other and "\\" not in one + other:
        assert storable(one) != storable(other)


@given(st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16))
def test_two_binary_ids_stay_two(one: bytes, other: bytes) -> None:
    if one != other and b"\\" not in one + other:
        assert storable(one) != storable(other)


@given(PROPERTIES, BODIES)
def test_what_correlations_find_in_any_message_is_storable(
    properties: dict[str, Any], body: bytes
) -> None:
    found = fields_of(properties, body, Counter())
    for place, value in found:
        check(place)
        check(value)
    values = np.array([value for _, value in found], dtype=object)
    assert len(pd.util.hash_array(values, categorize=False)) == len(found)


@example({}, b'{"n":"\\ud800"}', "body.n")
@example({"headers": {"n": {"base64": "/w=="}}}, b"", "header.n")
@given(PROPERTIES, BODIES, st.sampled_from(["message_id", "header.n", "header.task", "body.n"]))
def test_the_key_of_any_message_is_storable(
    properties: dict[str, Any], body: bytes, key: str
) -> None:
    event = {"properties": json.dumps(properties), "payload": body, "routing_keys": "[]"}
    check(key_of(event, key))


@given(PROPERTIES, BODIES)
def test_what_conversations_and_failures_tell_of_any_message_is_storable(
    properties: dict[str, Any], body: bytes
) -> None:
    check(type_of(properties, "shop", ("k",), body))
    for key in keys_in(properties):
        check(key)
    for death in deaths_of(properties):
        for text in (death.queue, death.reason, death.exchange, *death.routing_keys):
            check(text)
    forward = forward_of(properties, "", ("k",), body)
    if forward is not None:
        for text in (forward.queue, forward.exception, *(forward.path or ())):
            check(text)


@given(st.lists(st.tuples(PROPERTIES, BODIES), min_size=1, max_size=4))
def test_the_shapes_of_any_messages_are_written_as_utf_8(
    messages: list[tuple[dict[str, Any], bytes]],
) -> None:
    seen = PeriodShapes()
    for properties, body in messages:
        seen.add(
            {
                "type": 0,
                "match": 0,
                "participant_name": "shop",
                "exchange": "shop",
                "routing_keys": '["k"]',
                "queue": None,
                "properties": json.dumps(properties),
                "payload": body,
                "payload_cut": False,
            }
        )
    again = PeriodShapes.from_json(msgspec.json.decode(json.dumps(seen.to_json())))
    schemas = {name: notes.payload.schema() for name, notes in again.messages.items()}
    assert msgspec.json.decode(as_json(schemas)) == schemas
    as_yaml(schemas).decode()


@given(TEXTS)
def test_the_name_for_direct_replies_is_storable(name: str) -> None:
    replies = Replies()
    channel = Channel("rabbit@one", "10.0.0.1:5000 -> 10.0.0.9:5672", 1, "shop")
    replies.note(
        7, Publish(channel, "", ("rpc",), (), {"reply_to": f"{DIRECT_REPLIES}{name}"}, b"")
    )
    [(key, kept)] = replies.changes()
    assert key == 7
    check(kept)
