"""What is compiled of what messages say agrees with the Python that it stands for."""

import gc
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tracker import Channel, Deliver, Publish
from app.tracker._names import Reader
from app.tracker.links import BUILT_IN, Rule, Rules
from app.tracker.links.expressions import TOO_LONG
from app.tracker.links.names import NO_NAMES, Names
from app.tracker.links.probes import Triggers
from app.tracker.links.rules import search_key
from app.tracker.streams import BROKER_HEADERS, REVEALING
from app.tracker.values import AMQP_1_0
from tests.oracles.names import names_in

CHANNEL = Channel("rabbit@test", "127.0.0.1:1 -> 127.0.0.1:2", 1, "guest")
RULES = Rules(BUILT_IN, indexed=["x-tenant"])
# What the built-in rules do not ask of the reader: conditions on bodies and on several places,
# properties as conditions, joint keys of a header, several rules that give the same key.
OF_OUR_OWN = Rules(
    map(
        Rule.from_json,
        [
            {
                "name": "under-a-bodys-condition",
                "kind": "parent",
                "child": "$message.header#/task",
                "parent": "$message.header#/id",
                "where": [{"has": "$message.payload#/a"}],
            },
            {
                "name": "under-a-propertys-condition",
                "kind": "parent",
                "child": "$message.header#/task",
                "parent": "$message.property#/message_id",
                "parent_where": [{"lacks": ["$message.property#/app_id", "$message.header#/x"]}],
            },
            {
                "name": "of-the-same-body",
                "kind": "forward",
                "child": "$message.header#/task",
                "parent": "$message.header#/task",
                "same_body": True,
            },
            {
                "name": "of-two",
                "kind": "reply",
                "child": ["$message.header#/task", "$message.property#/app_id"],
                "parent": ["$message.header#/id", "$message.payload#/a"],
            },
            {
                "name": "of-a-trace",
                "kind": "conversation",
                "child": "$message.header#/traceparent",
                "take": "traceparent",
            },
            {
                "name": "where-the-body-begins-so",
                "kind": "parent",
                "child": "$message.payload#/b",
                "parent": "$message.payload#/a",
                "body_begins": "{",
            },
            *(
                {
                    "name": f"one-of-many-{number}",
                    "kind": "parent",
                    "child": "$message.header#/task",
                    "parent": "$message.header#/id",
                }
                for number in range(12)
            ),
        ],
    )
)
LOOKED_AT = sorted(
    {*RULES._of_publishes.by_header, *BROKER_HEADERS, *REVEALING, "task", "retries", "x-tenant"}
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


# Of what rules look at: also halves of characters.
ODD = st.sampled_from(
    [
        *("\ud800", "a\ud800", "\ud800" * 3_000, "x" * 2_048, "x" * 2_049, "x" * 513),
        *(
            [],
            ["a"] * 64,
            ["a"] * 65,
            ["a", "b", "a"],
            [str(n) for n in range(64)],
            [None, 1, "\ud800"],
        ),
        *({"base64": "YQ=="}, {"base64": "?"}, {"base64": 1}, 2**64 - 1, 2**64, -1, True, 1.5),
        *([["a"]], [{"base64": "YQ=="}], ["x" * 2_049, "x" * 2_049], b"a"),
    ]
)
BODIES = [b"x" * 511, b"xy" * 256, b"z" * 1_500, b'{"a": "id-1", "b": "1"}', b"{", b""]
ODD_HEADERS = st.dictionaries(st.sampled_from(LOOKED_AT), ODD | TEXTS, max_size=12)


@st.composite
def messages(draw, headers=HEADERS | VALUES, tables=TABLES):
    properties = draw(tables)
    if draw(st.booleans()):
        properties["headers"] = draw(headers)
    body = draw(st.binary(max_size=300) | st.sampled_from(BODIES))
    channel = msgspec.structs.replace(CHANNEL, number=draw(st.integers(0, 1)))
    exchange, key = draw(TEXTS), draw(TEXTS)
    if draw(st.booleans()):
        return Publish(channel, exchange, (key,), ("q",), properties, body)
    return Deliver(channel, exchange, (key,), "q", False, properties, body)


def reads_the_same(rules, message):
    expected, refused = names_in(rules, message)
    rules.refused = Counter()
    names = rules.read(message)
    assert set(rules.refused) == set(refused)
    assert names.causes == expected.causes
    for field in ("ids", "conversations", "found_by", "called"):
        assert sorted(getattr(names, field)) == sorted(getattr(expected, field))


ORDINARY = messages(
    st.dictionaries(st.sampled_from(LOOKED_AT), TEXTS, max_size=6),
    st.dictionaries(st.sampled_from(PROPERTIES), TEXTS, max_size=6),
)
STRANGE = messages(
    ODD_HEADERS,
    st.dictionaries(st.sampled_from(PROPERTIES), ODD | TEXTS | st.just(AMQP_1_0), max_size=6),
)


@pytest.mark.parametrize("rules", [RULES, RULES.for_cut_bodies(), OF_OUR_OWN, Rules(())])
@given(messages() | ORDINARY | STRANGE)
def test_the_names_are_the_same(rules, message):
    reads_the_same(rules, message)


def test_half_a_character_is_read_as_bytes():
    message = Publish(CHANNEL, "", ("k",), (), {"message_id": "\ud800"}, b"")
    assert RULES.read(message).ids
    reads_the_same(RULES, message)


@pytest.mark.parametrize("count", [7, 8, 9, 64, 65, 10_000])
@pytest.mark.parametrize("names_itself", [False, True])
def test_as_many_keys_as_there_may_be_are_the_same(count, names_itself):
    texts = [f"id-{number}" for number in range(count)]
    for headers in (
        {"task": texts, "id": "id-3" if names_itself else "other"},
        {"id": texts, "task": texts},
        {name: texts[place : place + 60] for place, name in enumerate(LOOKED_AT)},
    ):
        for rules in (RULES, OF_OUR_OWN, Rules((), indexed=LOOKED_AT[:100])):
            reads_the_same(rules, Publish(CHANNEL, "", ("k",), (), {"headers": headers}, b"{}"))


def test_of_more_headers_than_there_may_be_keys_of_all_are_looked_at():
    names = [f"x-{number}" for number in range(100)]
    rules = Rules((), indexed=names)
    for count in (63, 64, 65, 100):
        said = {"headers": dict.fromkeys(names[:count], "1")}
        reads_the_same(rules, Publish(CHANNEL, "", ("k",), (), said, b""))


def test_a_message_names_itself_only_where_that_is_the_same_message_again():
    for name in ("task", "causation_id"):
        said = {"message_id": "1", "headers": {name: "1", "id": "1"}}
        for rules in (RULES, OF_OUR_OWN):
            reads_the_same(rules, Publish(CHANNEL, "", ("k",), (), said, b"{}"))


def test_a_value_is_refused_once_for_all_that_take_the_whole_of_it():
    header, property_ = "$message.header#/task", "$message.property#/message_id"
    given = {"kind": "parent", "child": header, "parent": property_}
    rules = Rules(Rule.from_json({"name": name, "space": name, **given}) for name in "abc")
    said = {"headers": {"task": "x" * 3_000}}
    assert rules.read(Publish(CHANNEL, "", ("k",), (), said, b"")) is NO_NAMES
    assert rules.refused == {TOO_LONG: 1}


def test_a_delivery_names_no_causes_wherever_its_rule_looks():
    both = ["$message.header#/task", "$message.header#/id"]
    again = {"name": "again", "kind": "forward", "child": both, "parent": both}
    rules = Rules([Rule.from_json(again)])
    said = {"headers": {"task": "a", "id": "b"}}
    published = rules.read(Publish(CHANNEL, "", ("k",), (), said, b""))
    delivered = rules.read(Deliver(CHANNEL, "", ("k",), "q", False, said, b""))
    assert [number for number, _ in published.causes] == [0]
    assert (delivered.causes, delivered.ids) == ((), published.ids)


def test_what_holds_bytes_alone_is_nothing_to_the_collector():
    said = {"message_id": "1", "headers": {"causation_id": "2", "conversation": "3"}}
    names = RULES.read(Publish(CHANNEL, "", ("k",), (), said, b""))
    assert names.ids
    assert names.causes
    fields = [getattr(names, field) for field in names.__struct_fields__]
    assert not any(map(gc.is_tracked, [*fields, *names.causes]))


def test_who_says_nothing_makes_nothing():
    message = Publish(CHANNEL, "", ("k",), (), {"headers": {"mine": 1}}, b"")
    assert RULES.read(message) is NO_NAMES


def reader(by_header=(), by_property=(), **other):
    given = {"nothing": frozenset(), "short": 10}
    given |= {"names": Names, "no_names": NO_NAMES, "most_ids": 8, "most_keys": 64} | other
    return Reader(dict(by_header), dict(by_property), *given.values())


@pytest.mark.parametrize(
    "odd",
    [
        *((1,), 1, (), (b"", (), False, None), (b"", (), 0, None, ()), ("", (), False, None, ())),
        *((b"", (), False, None, uses) for uses in (((9, 0),), ((-1, 0),), ((0,),), (("0", 0),))),
        (b"", (), False, None, (1,)),
        *((b"", where, False, None, ()) for where in ((1,), (((1,), True, ""),))),
        *((b"", ((places, True, b""),), False, None, ()) for places in ((), ((True, "a"),))),
        *((b"", ((place, True, ""),), False, None, ()) for place in (((1, "a"),), ((True, 1),))),
    ],
)
def test_what_is_no_probe_is_an_error_and_no_crash(odd):
    for table in ({"a": (odd,)}, {"b": (), "a": (odd,)}, {"a": [odd]}):
        with pytest.raises(TypeError):
            reader(table)
        with pytest.raises(TypeError):
            reader((), table)


@pytest.mark.parametrize(
    "other", [{"most_ids": 65}, {"most_keys": -1}, {"nothing": []}, {"short": "1"}]
)
def test_what_no_reader_can_be_made_of_is_an_error_and_no_crash(other):
    with pytest.raises((TypeError, ValueError)):
        reader(**other)


class Rulers:
    """What the reader asks in place of rules, with answers that are none."""

    def __init__(self, answer):
        self.answer = answer

    def look_into(self, record):
        return record

    def values_of(self, raw):
        if self.answer is ValueError:
            raise ValueError
        return self.answer

    spoken = values_of


@pytest.mark.parametrize("answer", [None, 1, "a", [1], ["a"], [None], [b"a", 1], ValueError])
def test_an_answer_that_is_none_is_an_error_and_no_crash(answer):
    rules = Rulers(answer)
    said = Publish(CHANNEL, "", ("k",), (), {"a": 1, "headers": {"b": "1"}}, b"")
    for read in (
        reader((), {"a": ((b"", (), False, None, ((0, 0),)),)}).read,
        reader({"b": ((None, (), False, rules.spoken, ((0, 0),)),)}).read,
    ):
        with pytest.raises((TypeError, ValueError)):
            read(said, rules)
    taking = reader({"b": ((b"", (), False, lambda text: answer, ((0, 0),)),)})
    if not isinstance(answer, str | None):
        with pytest.raises(TypeError):
            taking.read(said, rules)


def test_what_is_no_record_is_an_error_and_no_crash():
    read = reader().read
    for odd in ((), (1,), (1, 2), (Rulers(1), 1)):
        with pytest.raises((TypeError, AttributeError)):
            read(*odd)
    for properties, body in (([], b""), ({}, "")):
        publish = Publish(CHANNEL, "", ("k",), (), {}, body)
        msgspec.structs.force_setattr(publish, "properties", properties)
        with pytest.raises(TypeError):
            read(publish, RULES)


def grown(work: Callable[[], None]) -> int:
    """How many more bytes are held once some work was done a second time."""
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
    return end - start


def test_nothing_leaks():
    said = {
        "message_id": "".join(["nobody", "has this"]),  # so nobody else holds it
        "correlation_id": "".join(["nor", "this"]),
        "headers": {"causation_id": "a", "traceparent": "x", "task": "t", "id": "1", "n": [1, "a"]},
    }
    message = Publish(CHANNEL, "x", ("k",), (), said, b"x" * 600)
    odd = {
        "correlation_id": [str(n) for n in range(70)],
        "headers": {"task": ["a", "b"], "id": "a"},
    }
    others = [
        Publish(CHANNEL, "x", ("k",), (), odd, b"{}"),
        Publish(CHANNEL, "x", ("k",), (), {"type": AMQP_1_0, "message_id": "2"}, b"?"),
        Publish(CHANNEL, "x", ("k",), (), {"headers": {"nameko.call_id_stack": ["a", "b"]}}, b""),
    ]

    def work():
        for _ in range(200):
            for rules in (RULES, OF_OUR_OWN):
                for each in (message, *others):
                    rules.read(each)

    work()
    gc.collect()
    before = [sys.getrefcount(each) for each in (None, *said.values())]
    more = grown(work)
    after = [sys.getrefcount(each) for each in (None, *said.values())]
    assert more < 2_000
    assert after[1:] == before[1:]
    assert abs(after[0] - before[0]) < 50  # None: of which others come and go


def test_readers_leak_nothing_either():
    def work():
        for _ in range(20):
            Rules(BUILT_IN)
            with suppress(TypeError):
                reader({"a": (1,)})

    work()
    gc.collect()
    assert grown(work) < 5_000


def test_the_probes_of_a_space_agree_on_what_they_digest():
    message = Publish(CHANNEL, "", ("k",), (), {"message_id": "1"}, b"")
    found = Triggers(RULES._probes.values(), causes=True).read(message, RULES)
    assert found.called == (search_key("message_id", "1"),)
