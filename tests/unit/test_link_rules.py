"""Rules: how they are written, and what messages say under them, bad input included."""

from __future__ import annotations

import codecs
import gzip
import json
import re
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import cbor2
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import SettingsError
from app.main import link_rules
from app.tracker.links import BUILT_IN, Rule, RuleError, Rules, search_key
from app.tracker.links.expressions import TOO_LONG, TOO_MANY
from app.tracker.links.names import NO_NAMES
from app.tracker.links.probes import MOST_CAUSES
from app.tracker.links.rules import MOST_INDEXED, MOST_RULES, NAMES_ITSELF, TOO_MANY_KEYS
from app.tracker.packed import NOT_CBOR, NOT_PACKED
from app.tracker.records import Channel, Deliver, Publish
from model.bodies import (
    MOST_BYTES,
    MOST_DEPTH,
    NOT_JSON,
    NOT_UNPACKED,
    TOO_DEEP,
    TOO_LARGE,
    UNKNOWN,
)

EVERY = Rules(BUILT_IN)
CHANNEL = Channel("rabbit@a", "10.0.0.1:1 -> 10.0.0.2:5672", 1, "app")
ORDER = {
    "name": "order",
    "kind": "parent",
    "child": "$message.header#/caused_by",
    "parent": "$message.header#/order",
}
IN_BODY = {**ORDER, "child": "$message.payload#/caused_by", "parent": "$message.payload#/id"}


def publish(
    headers: dict[str, Any] | None = None, body: bytes = b"", key: str = "q", **properties: Any
) -> Publish:
    if headers is not None:
        properties["headers"] = headers
    return Publish(CHANNEL, "", (key,), (key,), properties, body)


def deliver(headers: dict[str, Any] | None = None, body: bytes = b"", **properties: Any) -> Deliver:
    if headers is not None:
        properties["headers"] = headers
    return Deliver(CHANNEL, "", ("q",), "q", False, properties, body)


def of(*rules: dict[str, Any], indexed: tuple[str, ...] = ()) -> Rules:
    return Rules(map(Rule.from_json, rules), indexed=indexed)


def keys(rules: Rules, record: Publish | Deliver) -> list[bytes]:
    return [key for _, key in rules.read(record).causes]


def test_a_publish_names_the_message_with_the_same_value() -> None:
    rules = of(ORDER)
    cause = rules.read(deliver({"order": "17"}))
    effect = rules.read(publish({"caused_by": "17", "order": "18"}))
    assert effect.causes == ((0, cause.ids[0]),)
    assert rules[0].name == "order"
    assert not cause.causes
    assert len(cause.ids[0]) == 16
    assert set(cause.ids).isdisjoint(effect.ids)


def test_the_body_of_an_amqp_1_0_value_is_read_as_the_text_that_is_stored() -> None:
    rules = of(IN_BODY)
    text = b'{"caused_by": "17", "id": "18"}'
    as_value = b"\x00\x53\x77\xa1" + bytes([len(text)]) + text
    for body in (as_value, text):
        assert rules.read(publish(body=body, type="amqp-1.0")) == rules.read(publish(body=text))


def test_a_delivery_names_no_cause() -> None:
    assert of(ORDER).read(deliver({"caused_by": "17"})).causes == ()


def test_a_number_equals_its_text_and_bytes_what_they_spell() -> None:
    rules = of(ORDER)
    ids = {rules.read(publish({"order": raw})).ids for raw in (17, "17", {"base64": "MTc="})}
    assert len(ids) == 1


def test_other_rules_give_other_keys_unless_they_share_a_space() -> None:
    other = {**ORDER, "name": "other"}
    message = publish({"order": "17"})
    assert of(ORDER).read(message).ids != of(other).read(message).ids
    assert of(ORDER).read(message).ids == of({**other, "space": "order"}).read(message).ids
    assert len(of(ORDER, other).read(message).ids) == 2
    assert len(of(ORDER, {**other, "space": "order"}).read(message).ids) == 1


def test_an_aggregate_names_several_parents() -> None:
    rules = of(ORDER)
    parents = [rules.read(publish({"order": name})).ids[0] for name in "abc"]
    assert sorted(keys(rules, publish({"caused_by": ["a", "b", "c", "a"]}))) == sorted(parents)


def test_ten_thousand_parents_are_refused_whole_and_counted() -> None:
    rules = of(ORDER)
    record = publish({"caused_by": [str(n) for n in range(10_000)], "order": "1"})
    names = rules.read(record)
    assert names.causes == ()
    assert len(names.ids) == 1
    assert rules.refused[TOO_MANY] > 0


def test_many_values_over_several_rules_are_refused_too() -> None:
    other = {**ORDER, "name": "other"}
    rules = of(ORDER, other)
    names = rules.read(publish({"caused_by": [str(n) for n in range(MOST_CAUSES // 2)]}))
    assert len(names.causes) == MOST_CAUSES
    names = rules.read(publish({"caused_by": [str(n) for n in range(MOST_CAUSES // 2 + 1)]}))
    assert names.causes == ()
    assert rules.refused[TOO_MANY_KEYS] == 1


def test_a_long_value_is_no_value_and_counted() -> None:
    rules = of(ORDER)
    assert rules.read(publish({"order": "x" * 100_000})) == NO_NAMES
    assert rules.refused[TOO_LONG] > 0


@pytest.mark.parametrize("value", ["17", ["17", "17"], 17])
def test_a_message_that_names_itself_names_nothing(value: Any) -> None:
    rules = of(ORDER)
    names = rules.read(publish({"order": "17", "caused_by": value}))
    assert names.ids
    assert names.causes == ()
    assert rules.refused[NAMES_ITSELF] > 0


def test_who_names_itself_among_others_names_the_others() -> None:
    rules = of(ORDER)
    other = rules.read(publish({"order": "16"})).ids[0]
    assert keys(rules, publish({"order": "17", "caused_by": ["17", "16"]})) == [other]


def test_several_places_have_to_agree_in_order() -> None:
    both = {
        **ORDER,
        "child": ["$message.header#/a", "$message.header#/b"],
        "parent": ["$message.header#/x", "$message.header#/y"],
    }
    rules = of(both)
    named = keys(rules, publish({"a": "ab", "b": "c"}))
    assert rules.read(publish({"x": "ab", "y": "c"})).ids == tuple(named)
    for wrong in ({"x": "a", "y": "bc"}, {"x": "c", "y": "ab"}, {"x": "abc", "y": ""}):
        assert rules.read(publish(wrong)).ids != tuple(named)
    assert keys(rules, publish({"a": "ab"})) == []
    assert keys(rules, publish({"a": ["a", "b"], "b": "c"})) == []
    assert rules.refused[TOO_MANY] == 1


def test_a_conversation_is_a_shared_key_and_names_no_parent() -> None:
    rules = of({"name": "order", "kind": "conversation", "child": "$message.header#/order"})
    names = rules.read(publish({"order": "17"}))
    assert names.conversations == rules.read(deliver({"order": "17"})).conversations
    assert len(names.conversations) == 1
    assert not names.ids
    assert not names.causes
    assert search_key("conversation", "17") in names.found_by


@pytest.mark.parametrize(
    ("where", "headers", "speaks"),
    [
        ({"has": "$message.header#/x"}, {"x": "1"}, True),
        ({"has": "$message.header#/x"}, {"x": 0}, False),
        ({"has": "$message.header#/x"}, {"x": []}, False),
        ({"has": "$message.header#/x"}, {}, False),
        ({"has": ["$message.header#/x", "$message.header#/y"]}, {"y": True}, True),
        ({"has": "$message.header#/x", "begins": "ab"}, {"x": "abc"}, True),
        ({"has": "$message.header#/x", "begins": "ab"}, {"x": "b"}, False),
        ({"has": "$message.header#/x", "begins": "ab"}, {"x": 1}, False),
        ({"lacks": "$message.header#/x"}, {"x": "1"}, False),
        ({"lacks": "$message.header#/x"}, {}, True),
        ({"lacks": "$message.header#/x", "begins": "ab"}, {"x": "b"}, True),
    ],
)
def test_a_condition_decides_whether_a_message_speaks(
    where: dict[str, Any], headers: dict[str, Any], speaks: bool
) -> None:
    rules = of({**ORDER, "where": [where]})
    assert bool(keys(rules, publish({"caused_by": "1", **headers}))) == speaks
    assert rules.read(publish({"order": "1", **headers})).ids


def test_the_same_message_again_is_named_by_id_and_body() -> None:
    again = {
        "name": "again",
        "kind": "forward",
        "child": "$message.property#/message_id",
        "parent": "$message.property#/message_id",
        "same_body": True,
        "space": "forward",
        "where": [{"has": "$message.header#/retried"}],
    }
    rules = of(again)
    first = rules.read(deliver(message_id="1", body=b"x" * 5_000))
    assert keys(rules, publish({"retried": "1"}, b"x" * 5_000, message_id="1")) == [*first.ids]
    for body in (b"x" * 4_999, b"y" + b"x" * 4_999, b"x" * 4_999 + b"y"):
        assert keys(rules, publish({"retried": "1"}, body, message_id="1")) != [*first.ids]
    assert keys(rules, publish({}, b"x" * 5_000, message_id="1")) == []


def test_what_is_surely_published_again_names_only_the_first() -> None:
    again = {
        "name": "again",
        "kind": "forward",
        "child": "$message.header#/order",
        "parent": "$message.header#/order",
        "where": [{"has": "$message.header#/retried"}],
    }
    rules = of(ORDER, again)
    record = publish({"order": "2", "caused_by": "1", "retried": 1})
    assert [number for number, _ in rules.read(record).causes] == [1]
    rules = of(ORDER, {**again, "sure": False})
    assert [number for number, _ in rules.read(record).causes] == [0, 1]


def test_bodies_are_parsed_where_a_rule_asks() -> None:
    rules = of(IN_BODY)
    parent = rules.read(deliver(body=b'{"id": 17}'))
    child = rules.read(publish(body=b' {"caused_by": "17", "id": "18"}'))
    assert child.causes == ((0, parent.ids[0]),)
    assert not rules.refused
    assert of(ORDER).read(publish(body=b"{")) == NO_NAMES


def test_a_body_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []
    monkeypatch.setattr(
        "model.bodies.parse", lambda body, refused, decode: parsed.append(body) or {"id": "1"}
    )
    rules = of(IN_BODY, {**IN_BODY, "name": "other"})
    assert len(rules.read(publish(body=b"{}")).ids) == 2
    assert parsed == [b"{}"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"id": "' + b"x" * 10_000_000 + b'"}', TOO_LARGE),
        (b"[" * 10_000 + b"]" * 10_000, TOO_DEEP),
        (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, TOO_DEEP),
        (b'{"id": "[', NOT_JSON),
        (b"[" * MOST_DEPTH, NOT_JSON),
        (b'{"id": \xff}', NOT_JSON),
        (b'{"id": NaN}', None),
        (gzip.compress(b"{", mtime=0)[:-4], NOT_UNPACKED),
        (b"\x1f\x8b nothing of the kind", NOT_UNPACKED),
        (gzip.compress(b" " * 10_000_000, mtime=0), TOO_LARGE),
        (b"\x80\x04plain", None),
        (b"plain", None),
        (b"", None),
        (b'{"id": ' + b"9" * 5_000 + b"}", TOO_LARGE),
        (b'{"id": ' + b"9" * 50 + b"}", None),
        (b'{"id": {"id": 1}}', None),
        (b'{"other": "' + b"[" * 1_000 + b'"}', None),
        (b'{"other": "' + b'\\"[' * 1_000 + b'"}', None),
        (b"[]", None),
    ],
)
def test_a_bad_body_names_nothing_and_is_counted(body: bytes, reason: str | None) -> None:
    rules = of(IN_BODY)
    assert rules.read(publish(body=body)) == NO_NAMES
    assert set(rules.refused) == ({reason} if reason else set())


PLAIN = '{"id": 17, "who": "Zo\xeb"}'


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (PLAIN.encode(), None),
        (codecs.BOM_UTF8 + PLAIN.encode(), None),
        (PLAIN.encode("utf-16"), None),
        (PLAIN.encode("utf-16-le"), None),
        (codecs.BOM_UTF16_BE + PLAIN.encode("utf-16-be"), "utf-16"),
        (PLAIN.encode("latin-1"), "ISO-8859-1"),
        (b'{"id": 17, "price": NaN, "least": -Infinity}', "utf-8"),
        (gzip.compress(PLAIN.encode(), mtime=0), "gzip"),
        (gzip.compress(codecs.BOM_UTF8 + PLAIN.encode(), mtime=0), None),
        (zlib.compress(PLAIN.encode()), "deflate"),
    ],
)
def test_a_body_is_read_as_its_sender_meant_it(body: bytes, encoding: str | None) -> None:
    rules = of(IN_BODY)
    properties = {} if encoding is None else {"content_encoding": encoding}
    found = rules.read(msgspec.structs.replace(publish(body=body), properties=properties))
    assert found.ids == rules.read(publish(body=b'{"id": "17"}')).ids != ()
    assert not rules.refused


def test_what_is_compressed_in_a_way_that_nobody_knows_is_counted() -> None:
    rules = of(IN_BODY)
    record = msgspec.structs.replace(
        publish(body=b"(\xb5/\xfd"), properties={"content_encoding": "zstd"}
    )
    assert rules.read(record) == NO_NAMES
    assert rules.refused == {UNKNOWN: 1}


def test_a_wide_body_is_not_a_deep_one() -> None:
    body = b'{"id": "1", "more": [' + b",".join([b"[]"] * 2_000) + b"]}"
    assert len(body) < MOST_BYTES
    assert of(IN_BODY).read(publish(body=body)).ids


def test_nothing_to_say_gives_the_one_empty_value() -> None:
    rules = Rules(BUILT_IN)
    for record in (publish(), publish({}), publish({"x": "1"}), publish({"x": 1}, b"{}")):
        assert rules.read(record) is NO_NAMES


@pytest.mark.parametrize("headers", [None, [], "text", 1])
def test_headers_that_are_no_table_are_survived(headers: Any) -> None:
    record = Publish(CHANNEL, "", (), (), {"headers": headers, "message_id": "1"}, b"")
    assert Rules(BUILT_IN).read(record).ids


@pytest.mark.parametrize("raw", [{"a": 1}, [], 1, None, True])
def test_properties_that_are_no_text_are_survived(raw: Any) -> None:
    names = ("message_id", "correlation_id", "reply_to", "content_type")
    EVERY.read(Publish(CHANNEL, "", (), (), dict.fromkeys(names, raw), b'{"queue_name":1}'))


def test_a_message_is_found_by_what_people_know() -> None:
    rules = of(ORDER, indexed=("x-order-id",))
    names = rules.read(
        deliver({"x-order-id": 7, "caused_by": "1", "y": "2"}, message_id="m", correlation_id="c")
    )
    assert set(names.called) == {search_key("message_id", "m"), search_key("header.caused_by", "1")}
    assert set(names.found_by) == {
        search_key("correlation_id", "c"),
        search_key("header.x-order-id", "7"),
    }
    assert rules.indexed == {"x-order-id": False, "caused_by": True, "order": True}


def test_headers_that_many_messages_may_share_hold_no_id_of_a_message() -> None:
    shared = {"name": "shared", "kind": "conversation", "child": "$message.header#/order"}
    together = {
        **ORDER,
        "name": "together",
        "child": ["$message.header#/tenant", "$message.header#/caused_by"],
        "parent": ["$message.header#/tenant", "$message.header#/order"],
    }
    deeper = {**ORDER, "name": "deeper", "child": "$message.header#/stack/-1"}
    taken = {**shared, "name": "taken", "child": "$message.header#/b3", "take": "b3"}
    assert of(ORDER, shared).indexed == {"caused_by": True, "order": False}
    assert of(together).indexed == {"tenant": False, "caused_by": False, "order": False}
    assert of(deeper).indexed == {"stack": False, "order": True}
    assert of(taken).indexed == {}
    assert of(ORDER, indexed=("order", "x")).indexed == {
        "order": True,
        "x": False,
        "caused_by": True,
    }
    again = Rules(map(Rule.from_json, [ORDER]), found_by={"order": False, "x": True})
    assert again.indexed == {"order": False, "x": True}
    names = again.read(deliver({"order": "1", "x": "2", "caused_by": "3"}))
    assert names.found_by == (search_key("header.order", "1"),)
    assert names.called == (search_key("header.x", "2"),)


@pytest.mark.parametrize("field", ["payload", "header.", "header", "", "MESSAGE_ID"])
def test_an_unknown_field_cannot_be_searched(field: str) -> None:
    with pytest.raises(ValueError, match="is none of message_id"):
        search_key(field, "1")


def test_keys_are_the_same_in_every_process() -> None:
    assert search_key("message_id", "1").hex() == "d966bcbdef7d985c675f3da26bf454de"
    assert search_key("header.a", "1") != search_key("header.b", "1")


WRONG = [
    ({}, "a rule's name"),
    ({"name": "a b"}, "a rule's name"),
    ({"name": "x" * 65}, "a rule's name"),
    ({"name": 3}, "a rule's name"),
    ({"name": "a"}, "rule 'a': kind: is missing"),
    ({"name": "a", "kind": "parent"}, "rule 'a': child: is missing"),
    ({**ORDER, "kind": "cousin"}, "rule 'order': kind: 'cousin' is none of parent, reply"),
    ({**ORDER, "kind": 1}, "rule 'order': kind"),
    ({**ORDER, "colour": "red"}, "rule 'order': colour: there is no such field"),
    ({**ORDER, "child": "$message.header"}, r"rule 'order': child: '#' .*\(column 16\)"),
    ({**ORDER, "child": "$message.header#/"}, r"rule 'order': child: .*everything.*\(column 17\)"),
    ({**ORDER, "parent": 7}, "rule 'order': parent: is a text"),
    ({**ORDER, "child": []}, "rule 'order': child: names no place"),
    ({**ORDER, "child": ["$message.header#/a"] * 5}, "child: there are at most 4 places"),
    ({**ORDER, "child": ["$message.header#/a"] * 500}, "child: there are at most"),
    ({**ORDER, "parent": ["$message.header#/a"] * 2}, "child has 1 places, parent 2"),
    ({**ORDER, "parent": ORDER["child"]}, "would name itself"),
    ({**ORDER, "child": "$message.property#/routing_key"}, "says where or what kind"),
    ({**ORDER, "kind": "conversation"}, "a conversation has none"),
    ({"name": "a", "kind": "conversation", "child": "$message.property#/app_id"}, "what kind"),
    ({**ORDER, "take": "b4"}, "take: 'b4' is none of b3"),
    ({**ORDER, "same_body": "yes"}, "same_body: is true or false"),
    ({**ORDER, "space": "a b"}, "rule 'order': space"),
    ({**ORDER, "body_begins": "x" * 201}, "body_begins: a text has at most 200"),
    ({**ORDER, "where": {}}, "where: is a list of conditions"),
    ({**ORDER, "where": [{"is": "x"}]}, 'where: a condition has one of "has" and "lacks"'),
    ({**ORDER, "where": ["x"]}, "where: a condition has one"),
    ({**ORDER, "where": [{"has": "x"}]}, r"where: .*\(column 1\)"),
    ({**ORDER, "where": [{"has": "$message.header#/a"}] * 9}, "at most 8 conditions"),
]


@pytest.mark.parametrize(("given", "says"), WRONG)
def test_an_invalid_rule_is_refused_with_its_name_and_field(
    given: dict[str, Any], says: str
) -> None:
    with pytest.raises(RuleError, match=says):
        Rule.from_json(given)


def test_what_is_no_object_is_refused() -> None:
    with pytest.raises(RuleError, match="a rule is an object"):
        Rule.from_json([])  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", BUILT_IN, ids=lambda rule: rule.name)
def test_a_rule_is_read_back_as_it_was_written(rule: Rule) -> None:
    assert Rule.from_json(json.loads(json.dumps(rule.to_json()))) == rule


def test_rules_are_bounded_in_number_and_have_different_names() -> None:
    with pytest.raises(RuleError, match="'order' is there twice"):
        of(ORDER, ORDER)
    with pytest.raises(RuleError, match=f"at most {MOST_RULES}"):
        of(*({**ORDER, "name": f"r{n}"} for n in range(MOST_RULES + 1)))
    with pytest.raises(RuleError, match=f"at most {MOST_INDEXED}"):
        of(indexed=tuple(f"x-{n}" for n in range(MOST_INDEXED + 1)))
    with pytest.raises(RuleError, match="1 to 255 bytes"):
        of(indexed=("x" * 256,))


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("name", "opentelemetry", "that of the links that spans tell of"),
        ("space", "", "is a name, or is left out"),
    ],
)
def test_a_field_that_would_mean_something_else_is_refused(
    field: str, value: str, said: str
) -> None:
    given = {
        "name": "mine",
        "kind": "parent",
        "child": "$message.header#/child",
        "parent": "$message.header#/parent",
        field: value,
    }
    with pytest.raises(RuleError, match=said):
        Rule.from_json(given)


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
@settings(max_examples=30, deadline=None)
def test_keys_of_several_places_are_equal_for_equal_values_alone(
    a: str, b: str, x: str, y: str
) -> None:
    rules = of(
        {
            **ORDER,
            "child": ["$message.header#/a", "$message.header#/b"],
            "parent": ["$message.header#/x", "$message.header#/y"],
        }
    )
    child, parent = keys(rules, publish({"a": a, "b": b})), rules.read(publish({"x": x, "y": y}))
    if child and parent.ids:
        assert (child == [*parent.ids]) == ((a, b) == (x, y))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)
HEADERS = sorted(EVERY.indexed.keys() | {"traceparent", "b3", "sw8", "x-death"})


@given(st.dictionaries(st.sampled_from(HEADERS), JSON, max_size=6), JSON)
@settings(max_examples=25, deadline=None)
def test_any_message_is_read_and_never_names_itself(headers: dict[str, Any], body: Any) -> None:
    rules = EVERY
    as_json = json.dumps(body).encode()
    cloudevent = {"content_type": "application/cloudevents+json", "message_id": "1"}
    names = rules.read(publish(headers, as_json, **cloudevent))
    own = set(names.ids)
    for number, key in names.causes:
        assert rules[number].kind.name == "forward" or key not in own
    for found in (names.ids, names.conversations, names.found_by):
        assert len(set(found)) == len(found)


DOCUMENT = Path(__file__).parents[2] / "docs" / "links.md"


def test_the_example_of_the_document_is_read_behind_the_built_in_rules(tmp_path: Path) -> None:
    (example,) = re.findall(r"```json\n(\[.*?\])\n```", DOCUMENT.read_text(), re.DOTALL)
    path = tmp_path / "rules.json"
    path.write_text(example)
    *before, own = link_rules(path, built_in=True)
    assert tuple(before) == BUILT_IN
    assert own.name == "shipped-for"
    assert link_rules(path, built_in=False) == (own,)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Input data was truncated"),
        ("{}", "Expected `array`, got `object`"),
        ("[1]", "a rule is an object"),
        ('[{"name": "a", "kind": "parent", "child": "$message.header"}]', "rule 'a': child: "),
        (json.dumps([rule.to_json() for rule in BUILT_IN[:1]] * 2), BUILT_IN[0].name),
    ],
)
def test_a_mistake_is_said_in_one_line(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "rules.json"
    path.write_text(text)
    with pytest.raises(SettingsError) as told:
        link_rules(path, built_in=False)
    assert str(told.value).startswith(f"ITC_LINK_RULES: {path}: ")
    assert said in str(told.value)
    assert "\n" not in str(told.value)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        link_rules(tmp_path / "none", built_in=True)


THROUGH_TEXTS = {**ORDER, "child": "$message.payload#/a/b/c", "parent": "$message.payload#/id"}


@pytest.mark.parametrize(
    ("body", "is_named", "refused"),
    [
        ({"a": {"b": {"c": "m1"}}}, True, {}),
        ({"a": json.dumps({"b": {"c": "m1"}})}, True, {}),
        ({"a": json.dumps({"b": json.dumps({"c": "m1"})})}, True, {}),
        ({"a": '{"b": {"c"'}, False, {NOT_JSON: 1}),
        ({"a": "[" * (MOST_DEPTH + 1)}, False, {TOO_DEEP: 1}),
        ({"a": "text"}, False, {}),
    ],
)
def test_a_place_leads_through_texts_that_are_json_within_the_bounds_of_bodies(
    body: dict[str, Any], is_named: bool, refused: dict[str, int]
) -> None:
    rules = Rules([Rule.from_json(THROUGH_TEXTS)])
    names = rules.read(Publish(CHANNEL, "", ("work",), (), {}, json.dumps(body).encode()))
    assert bool(names.causes) is is_named
    assert rules.refused == refused


def test_no_more_than_two_texts_of_a_body_are_read() -> None:
    places = [f"$message.payload#/{name}/id" for name in "abc"]
    rules = Rules([Rule.from_json({**ORDER, "name": p[-4], "child": p}) for p in places])
    body = {name: json.dumps({"id": f"m-{name}"}) for name in "abc"}
    read = rules.read(Publish(CHANNEL, "", ("work",), (), {}, json.dumps(body).encode()))
    assert len(read.causes) == 2


CBOR = cbor2.dumps({"caused": {"by": "m1"}})
PACKED = {**ORDER, "child": "$message.payload#/caused/by", "parent": "$message.payload#/id"}


@pytest.mark.parametrize(
    ("body", "content_type", "is_named", "refused"),
    [
        (msgspec.msgpack.encode({"caused": {"by": "m1"}}), "application/x-msgpack", True, {}),
        (msgspec.msgpack.encode({"caused": {"by": 17}}), "application/msgpack", True, {}),
        (msgspec.msgpack.encode({"caused": json.dumps({"by": 1})}), "a/vnd.x+msgpack", True, {}),
        (zlib.compress(msgspec.msgpack.encode({"caused": {"by": "m1"}})), "a/msgpack", True, {}),
        (msgspec.msgpack.encode({"caused": {"by": "m1"}}), "application/json", False, {}),
        (
            msgspec.msgpack.encode({"caused": {"by": "m1"}})[:-1],
            "a/msgpack",
            False,
            {NOT_PACKED: 1},
        ),
        (b"\xdd\x7f\xff\xff\xff", "a/msgpack", False, {NOT_PACKED: 1}),
        (b"\x91" * 60_000, "a/msgpack", False, {NOT_PACKED: 1}),
        (b"\x91\xd4\x01\x00", "a/msgpack", False, {NOT_PACKED: 1}),  # an extension's value
        (b"\xdd\x00\x00\xff\x00" + b"\x01" * 0xFF00, "a/msgpack", False, {TOO_LARGE: 1}),
        (b"\x91" + b"\xa1a" * 40_000, "a/msgpack", False, {TOO_LARGE: 1}),
        (b"text", "application/msgpack", False, {}),
        (CBOR, "application/cbor", True, {}),
        (b"\xd9\xd9\xf7" + CBOR, "application/cloudevents+cbor", True, {}),  # it says so itself
        (CBOR, "application/octet-stream", False, {}),
        (CBOR[:-1], "application/cbor", False, {NOT_CBOR: 1}),
        (b"\x9b\x3f" + b"\xff" * 7 + CBOR, "application/cbor", False, {NOT_CBOR: 1}),
        (b"\xa1\x61a\x7b\x3f" + b"\xff" * 7, "application/cbor", False, {NOT_CBOR: 1}),
        (b"\x81" * 60_000, "application/cbor", False, {NOT_CBOR: 1}),
        (b"\x9f" * 60_000, "application/cbor", False, {NOT_CBOR: 1}),
        (b"\xa1\x01\x02", "application/cbor", False, {NOT_CBOR: 1}),  # a number as a name
        *(
            (b"\x82" + tag + CBOR, "application/cbor", False, {NOT_CBOR: 1})
            for tag in (
                cbor2.dumps(datetime(2026, 1, 1, tzinfo=UTC)),
                cbor2.dumps(1 << 400_000),
                b"\xc4\x82\x01\x02",  # 2 * 10 ** 1
                b"\xc5\x82\x01\x02",
                b"\xd8\x23\x63a+b",  # a regular expression
                b"\xd8\x1c\x81\x01",  # a list to refer to
                b"\xda\x7f\xff\xff\xff\x01",
            )
        ),
        (b"\x99\xff\x00" + b"\x01" * 0xFF00, "application/cbor", False, {TOO_LARGE: 1}),
        (b"text", "application/cbor", False, {}),
    ],
)
def test_bodies_in_messagepack_and_cbor_are_read_within_bounds(
    body: bytes, content_type: str, is_named: bool, refused: dict[str, int]
) -> None:
    rules = Rules([Rule.from_json(PACKED)])
    properties = {"content_type": content_type}
    properties |= {"content_encoding": "deflate"} if body[:1] == b"x" else {}
    record = Publish(CHANNEL, "", ("work",), (), properties, body)
    assert bool(rules.read(record).causes) is is_named
    assert rules.refused == refused


@pytest.mark.parametrize("content_type", ["application/msgpack", "application/cbor"])
@given(body=st.binary(max_size=300))
def test_whatever_claims_to_be_packed_is_taken(content_type: str, body: bytes) -> None:
    rules = Rules([Rule.from_json(PACKED)])
    rules.read(Publish(CHANNEL, "", ("work",), (), {"content_type": content_type}, body))
