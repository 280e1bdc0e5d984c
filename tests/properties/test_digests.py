"""What is compiled of fingerprints and keys agrees with the Python that it replaces."""

import gc
import os
import shutil
import sys
import tracemalloc
from collections import Counter
from hashlib import blake2b

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tracker import Channel, Deliver, Publish
from app.tracker import fingerprint as fingerprints
from app.tracker.links import BUILT_IN, Rules
from app.tracker.links import rules as reading
from app.tracker.links.names import NO_NAMES
from app.tracker.links.probes import Triggers
from app.tracker.links.rules import CONVERSATION
from app.tracker.streams import BROKER_HEADERS, TELLING
from itc.compiled import compiled

digests = compiled("app.tracker._digests")
has_compiler = bool(shutil.which("gcc") or shutil.which("cc"))
pytestmark = pytest.mark.skipif(
    digests is None and (bool(os.environ.get("PURE_PYTHON")) or not has_compiler),
    reason="left out, or no compiler to build it with",
)
CHANNEL = Channel("rabbit@test", "127.0.0.1:1 -> 127.0.0.1:2", 1, "guest")
RULES = Rules(BUILT_IN, indexed=["x-tenant"])
LOOKED_AT = sorted(
    {*RULES._of_publishes.by_header, *BROKER_HEADERS, *TELLING, "task", "retries", "x-tenant"}
)
PROPERTIES = [
    *("message_id", "correlation_id", "reply_to", "content_type", "cluster_id", "type"),
    *("expiration", "delivery_mode", "timestamp", "app_id", "priority"),
]
TEXTS = st.sampled_from(
    [
        *("", "null", "None", "a", "id-1", "urn:uuid:1", "urn:uuid", "é" * 20, "x" * 3_000),
        "00000000-0000-0000-0000-000000000000",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "application/vnd.masstransit+json",
        "463ac35c9f6413ad48485a3953bb6124-a2fb4a1d1a96d312-1",
        "12345",
    ]
) | st.text(max_size=40)
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.sampled_from([-33, -32, -1, 0, 127, 128, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32])
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(TEXTS, inner, max_size=20),
    max_leaves=20,
)
HEADERS = st.dictionaries(st.sampled_from(LOOKED_AT) | st.text(max_size=5), VALUES, max_size=6)
TABLES = st.dictionaries(st.sampled_from(PROPERTIES), TEXTS | VALUES, max_size=6)


@st.composite
def messages(draw):
    properties = draw(TABLES)
    if draw(st.booleans()):
        properties["headers"] = draw(HEADERS | VALUES)
    body = draw(st.binary(max_size=300) | st.sampled_from([b"x" * 511, b"xy" * 256, b"z" * 1_500]))
    channel = msgspec.structs.replace(CHANNEL, number=draw(st.integers(0, 1)))
    exchange, key = draw(TEXTS), draw(TEXTS)
    if draw(st.booleans()):
        return Publish(channel, exchange, (key,), ("q",), properties, body)
    return Deliver(channel, exchange, (key,), "q", False, properties, body)


def in_python(monkeypatch):
    monkeypatch.setattr(reading, "_compiled", None)
    monkeypatch.setattr(fingerprints, "_compiled", None)


def test_it_was_built():
    assert digests is not None, "there is a compiler: pip install --editable . builds it"


@given(messages())
def test_the_fingerprint_is_the_same(message):
    try:
        expected = fingerprints._fingerprint(message, message.routing_keys[0])
    except OverflowError:  # a number that no broker sends
        with pytest.raises(OverflowError):
            fingerprints.fingerprint(message)
        return
    assert fingerprints.fingerprint(message) == expected


@given(st.binary(max_size=700))
def test_the_digest_is_the_librarys(body):
    mark = digests.mark("x", "k", {}, body, frozenset(), False, False)
    head = msgspec.msgpack.encode(("x", "k", (), {}))
    assert mark == blake2b(head + body, digest_size=16).digest()


@pytest.mark.parametrize(
    ("properties", "is_ordinary"),
    [
        ({}, True),
        ({"message_id": "1", "headers": {"a": 1}}, True),
        ({"headers": {"x-death": []}}, False),
        ({"headers": {"a": {}}}, False),
        ({"cluster_id": "1"}, False),
        ({"message_id": "urn:uuid:1"}, False),
        ({"headers": {str(number): number for number in range(65)}}, False),
    ],
)
def test_what_is_ordinary_is_read_without_the_python(properties, is_ordinary):
    special = BROKER_HEADERS | TELLING
    mark = digests.mark("x", "k", properties, b"", special, True, False)
    assert (mark is not None) == is_ordinary


@given(messages())
def test_the_names_are_the_same(message):
    with pytest.MonkeyPatch.context() as patch:
        in_python(patch)
        RULES.refused.clear()
        expected, refused = RULES.read(message), Counter(RULES.refused)
    RULES.refused.clear()
    assert (RULES.read(message), RULES.refused) == (expected, refused)


def test_half_a_character_is_read_by_the_python():
    message = Publish(CHANNEL, "", ("k",), (), {"message_id": "\ud800"}, b"")
    assert RULES.read(message).ids


def test_who_says_nothing_makes_nothing():
    message = Publish(CHANNEL, "", ("k",), (), {"headers": {"mine": 1}}, b"")
    assert RULES.read(message) is NO_NAMES


@pytest.mark.parametrize(
    "odd", [(1,), (b"", (), False, None), 1, (b"", (), False, None, ((9, 0),))]
)
def test_what_is_no_probe_is_an_error_and_no_crash(odd):
    with pytest.raises((TypeError, IndexError)):
        digests.keys({}, {"a": (odd,)}, {}, {"a": "b"}, b"", frozenset(), 10, list, list)


def test_nothing_leaks():
    said = {
        "message_id": "".join(["nobody", "has this"]),  # so nobody else holds it
        "correlation_id": "".join(["nor", "this"]),
        "headers": {"causation_id": "a", "traceparent": "x", "task": "t", "id": "1", "n": [1, "a"]},
    }
    message = Publish(CHANNEL, "x", ("k",), (), said, b"x" * 600)

    def work():
        for _ in range(200):
            fingerprints.fingerprint(message)
            RULES.read(message)

    work()
    gc.collect()
    before = [sys.getrefcount(each) for each in (None, *said.values())]
    tracemalloc.start()
    try:
        work()
        gc.collect()
        start, _ = tracemalloc.get_traced_memory()
        work()
        gc.collect()
        end, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    after = [sys.getrefcount(each) for each in (None, *said.values())]
    assert end - start < 2_000
    assert after[1:] == before[1:]
    assert abs(after[0] - before[0]) < 50  # None: of which others come and go


def test_the_probes_of_a_space_agree_on_what_they_digest():
    triggers = Triggers(RULES._probes.values(), causes=True)
    (called, *_) = triggers.compiled_properties["message_id"]
    found = digests.keys({}, {"m": (called,)}, {}, {"m": "1"}, b"", frozenset(), 10, list, list)
    assert found[4] == (reading.search_key("message_id", "1"),)
    assert CONVERSATION
