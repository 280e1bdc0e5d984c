"""What was seen as an AsyncAPI document, valid by its official schema and parser."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from playwright._impl._driver import compute_driver_executable

from app.tracker.links import BUILT_IN
from model.words import EventType, Match
from spark_jobs.interchange import asyncapi, traffic
from spark_jobs.interchange.asyncapi import as_json, as_yaml, document_of
from spark_jobs.interchange.traffic import MessageNotes, PeriodShapes, Route

NODE_PACKAGES = Path(__file__).parents[1] / "node" / "node_modules"
SCHEMA = NODE_PACKAGES / "@asyncapi" / "specs" / "schemas" / "3.1.0.json"
FACTS = {"vhost": "/", "since": "2026-01-01", "until": "2026-01-02", "complete": True, "gaps": []}
RULES = [{**rule.to_json(), "origin": "built_in"} for rule in BUILT_IN]


def sent(body: object, key: str = "order.new", who: str = "shop", **more: Any) -> dict[str, Any]:
    """A publish; what is no bytes goes as JSON."""
    said = {"headers": more.pop("headers", {}), **more.pop("properties", {})}
    return {
        "type": EventType.published,
        "match": Match.none,
        "participant_name": who,
        "recorded_at": 1,
        "exchange": "orders",
        "routing_keys": json.dumps([key]),
        "queue": None,
        "properties": json.dumps(said),
        "payload": body if isinstance(body, bytes) else json.dumps(body).encode(),
        "payload_cut": False,
        "quiet": False,
        **more,
    }


def got(body: object, queue: str = "work", who: str = "billing", **more: Any) -> dict[str, Any]:
    more = {"match": Match.routed, **more}
    return sent(body, who=who, **{"type": EventType.received, "queue": queue, **more})


def seen_of(*rows: dict[str, Any]) -> PeriodShapes:
    """As from two tasks, through what they send."""
    whole = PeriodShapes()
    for part in (rows[::2], rows[1::2]):
        one = PeriodShapes()
        for row in part:
            one.add(row)
        whole.merge(PeriodShapes.from_json(json.loads(json.dumps(one.to_json()))))
    return whole


def made(*rows: dict[str, Any], rules: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    document = document_of(seen_of(*rows), FACTS, RULES if rules is None else rules)
    assert faults(document) == []
    assert json.loads(as_json(document)) == document
    assert yaml.safe_load(as_yaml(document)) == document
    return document


def faults(document: dict[str, Any]) -> list[str]:
    """By the schema, and by the document's own ids and references."""
    found = [
        each.message
        for each in Draft7Validator(json.loads(SCHEMA.read_text())).iter_errors(document)
    ]
    return found + faults_of_ids(document)


def faults_of_ids(document: dict[str, Any]) -> list[str]:
    """Ids that AsyncAPI's optimizer takes for a path or an index, and references to nothing."""
    channels, operations = (document.get(room, {}) for room in ("channels", "operations"))
    messages = [channel["messages"] for channel in channels.values()]
    rooms = [channels, operations, *messages, *document.get("components", {}).values()]
    ids = [name for room in rooms for name in room]
    return [
        *(f"a dot in {name}" for name in ids if "." in name),
        *(f"digits alone: {name}" for name in ids if name.isdigit()),
        *(f"nothing at {each}" for each in _references(document) if not _at(document, each)),
    ]


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [each for one in value.values() for each in _references(one)]
    if isinstance(value, list):
        return [each for one in value for each in _references(one)]
    return []


def _at(document: Any, reference: str) -> Any:
    for token in reference.removeprefix("#/").split("/"):
        document = document.get(token, {})
    return document


READ_BY_PARSER = """
const { Parser } = require(process.argv[1]);
new Parser().parse(require("fs").readFileSync(0, "utf8")).then(({ document, diagnostics }) => {
  const names = (all) => all.map((each) => each.id());
  console.log(JSON.stringify({
    diagnostics: diagnostics.map((each) => each.message),
    channels: document && names(document.channels().all()),
    operations: document && names(document.operations().all()),
    messages: document && names(document.components().messages().all()),
  }));
});
"""


def parsed(text: bytes) -> dict[str, Any]:
    """A document as AsyncAPI's own parser reads it, from which a warning is a fault, too."""
    node, _ = compute_driver_executable()  # the Node that Playwright brings
    ran = subprocess.run(
        [node, "-e", READ_BY_PARSER, str(NODE_PACKAGES / "@asyncapi" / "parser")],
        input=text,
        capture_output=True,
        check=True,
        timeout=120,
    )
    read: dict[str, Any] = json.loads(ran.stdout)
    assert read.pop("diagnostics") == []
    return read


# What a key of an object means something else for: JavaScript's own, YAML's, JSON Schema's.
MEANT_OTHERWISE = [
    *("__proto__", "constructor", "prototype", "hasOwnProperty", "toString", "valueOf"),
    *("isPrototypeOf", "toLocaleString", "propertyIsEnumerable", "__defineGetter__"),
    *("__defineSetter__", "__lookupGetter__", "__lookupSetter__", "<<", "$ref", "", "length"),
]


@pytest.mark.parametrize("write", [as_json, as_yaml])
def test_the_official_parser_takes_any_name(write: Callable[[dict[str, Any]], bytes]) -> None:
    rows = [
        make({name: {name: 1}}, who=name, headers={name: name}, properties={"type": name}, **place)
        for name in MEANT_OTHERWISE
        for make, place in (
            (sent, {"exchange": name, "key": name}),
            (got, {"queue": name or "q"}),
        )
    ]
    document = made(*rows)
    read = parsed(write(document))
    assert {*read["channels"]} == {*document["channels"]}
    assert {*read["operations"]} == {*document["operations"]}
    assert {*read["messages"]} == {*document["components"]["messages"]}
    assert len(read["operations"]) == 2 * len(MEANT_OTHERWISE)


def test_names_that_the_broker_makes_up_are_one_channel_without_an_address() -> None:
    replies = [f"amq.rabbitmq.reply-to.g1h{k}" for k in range(3)]
    queues = [f"amq.gen-{k}" for k in range(3)]
    requests = [sent({}, exchange="", key=key) for key in (*replies, *queues, "amq.general")]
    document = made(*requests, *[got({}, queue=queue) for queue in queues])
    addresses = {name: each["address"] for name, each in document["channels"].items()}
    assert addresses == {
        "amq_rabbitmq_reply-to": None,
        "amq_gen": None,
        "amq_general": "amq.general",
        "queue_amq_gen": None,
    }
    assert "name" not in document["channels"]["queue_amq_gen"]["bindings"]["amqp"]["queue"]
    counts = {each["x-count"] for each in document["operations"].values()}
    assert (counts, len(document["components"]["messages"])) == ({1, 3}, 4)


def test_the_schema_refuses_what_is_wrong() -> None:
    assert faults({"asyncapi": "3.1.0"})
    document = made(sent({"id": 1}))
    document["operations"]["shop_send_orders_order_new"]["action"] = "publish"
    assert faults(document)


def test_channels_operations_and_messages_are_those_that_were_seen() -> None:
    body = {"id": 1, "at": "2026-01-01T10:00:00Z"}
    document = made(sent(body), sent(body | {"note": "x"}), got(body), sent(body, who="web"))
    assert {*document["channels"]} == {"orders_order_new", "queue_work"}
    channel = document["channels"]["orders_order_new"]
    assert (channel["address"], channel["bindings"]["amqp"]["exchange"]["name"]) == (
        "order.new",
        "orders",
    )
    assert {
        each["x-participant"]: (each["action"], each["x-count"])
        for each in document["operations"].values()
    } == {
        "shop": ("send", 2),
        "web": ("send", 1),
        "billing": ("receive", 1),
    }
    [message] = document["components"]["messages"].values()
    assert message["name"] == "orders/order.new"
    assert message["payload"] == {
        "type": "object",
        "properties": {
            "at": {"type": "string", "format": "date-time"},
            "id": {"type": "integer"},
            "note": {"type": "string"},
        },
        "required": ["at", "id"],
    }
    assert message["x-samples"] == {"messages": 3, "json": 3}
    assert "headers" not in message


def test_an_empty_period_is_a_valid_document() -> None:
    document = made()
    assert (document["channels"], document["info"]["x-events"]) == ({}, 0)


def test_gaps_are_said() -> None:
    document = document_of(PeriodShapes(), {**FACTS, "complete": False, "gaps": [{"id": 1}]}, [])
    assert faults(document) == []
    assert document["info"]["x-gaps"] == [{"id": 1}]
    assert "gaps" in document["info"]["description"]


@pytest.mark.parametrize(
    ("row", "samples"),
    [
        (sent(b"\xff\xfe"), (1, 0)),
        (sent(b"hello"), (1, 0)),
        (sent(b"17"), (1, 0)),
        (sent(b"17", properties={"content_type": "application/json"}), (1, 1)),
        (sent(b"{}", properties={"content_type": "text/plain"}), (1, 0)),
        (sent(b'{"a": NaN}'), (1, 0)),
        (sent(b'{"a": 1', payload_cut=True), (1, 0)),
        (sent(b"[" * 100_000), (1, 0)),
        (sent(b'{"a": "' + b"x" * 1_000_000 + b'"}'), (1, 0)),
        (sent(b'{"a": 1' + b"0" * 10_000 + b"}"), (1, 0)),
        (sent(b""), (1, 0)),
        (sent(b"", payload=None), (1, 0)),
    ],
)
def test_what_is_no_json_has_no_schema(row: dict[str, Any], samples: tuple[int, int]) -> None:
    [message] = made(row)["components"]["messages"].values()
    assert tuple(message["x-samples"].values()) == samples
    assert ("payload" in message) is bool(samples[1])


def test_where_some_bodies_are_no_json_no_schema_is_claimed() -> None:
    [message] = made(sent({"a": 1}), sent(b"hello"))["components"]["messages"].values()
    assert "payload" not in message


def test_ten_thousand_header_fields_are_data() -> None:
    row = sent({}, headers={f"field {k}": "x" for k in range(10_000)})
    [message] = made(row, row)["components"]["messages"].values()
    assert message["headers"] == {"type": "object", "additionalProperties": {"type": "string"}}


def correlation(*rows: dict[str, Any], **more: Any) -> str | None:
    [message] = made(*rows, **more)["components"]["messages"].values()
    found: dict[str, str] = message.get("correlationId", {})
    return found.get("location")


def test_a_correlation_id_is_where_a_rule_or_the_property_says_so() -> None:
    own = {"name": "by-order", "kind": "conversation", "child": ["$message.payload#/order/id"]}
    parent = {"name": "p", "kind": "parent", "child": "$message.header#/p", "parent": "x"}
    body = {"order": {"id": 7}}
    both = {"properties": {"correlation_id": "c"}, "headers": {"p": "1"}}
    assert correlation(sent(body), rules=[own]) == "$message.payload#/order/id"
    assert correlation(sent(body, **both), rules=[own]) == "$message.payload#/order/id"
    assert correlation(sent(body), sent({}), rules=[own]) is None
    assert correlation(sent(body), sent(b"no"), rules=[own]) is None
    assert correlation(sent({}, **both), rules=[parent]) == "$message.header#/correlation_id"
    assert correlation(sent({}, **both), sent({}), rules=[parent]) is None
    tracing = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    assert correlation(sent({}, headers=tracing)) == "$message.header#/traceparent"
    named = {**tracing, "conversation-id": "7"}
    assert correlation(sent({}, headers=named)) == "$message.header#/conversation-id"


def test_a_message_is_looked_at_where_it_was_published() -> None:
    body = {"a": 1}
    [message] = made(sent(body), got({"b": 1}), got(body))["components"]["messages"].values()
    assert (message["x-count"], [*message["payload"]["properties"]]) == (1, ["a"])
    [message] = made(got(body, match=Match.unmatched))["components"]["messages"].values()
    assert message["x-count"] == 1


def test_a_dead_letter_is_of_the_type_that_it_was_published_as() -> None:
    died = {"queue": "work", "reason": "rejected", "count": 1, "exchange": "orders"}
    dead = got(
        {},
        "dead",
        match=Match.dead_lettered,
        exchange="dlx",
        headers={"x-death": [{**died, "routing-keys": ["order.new"]}]},
    )
    document = made(sent({}), dead)
    assert [each["name"] for each in document["components"]["messages"].values()] == [
        "orders/order.new"
    ]
    assert "queue_dead" in document["channels"]


def test_names_that_no_reference_may_have_are_kept_apart() -> None:
    keys = ("a/b", "a b", "a_b", "a.b", "", "{x}", "é", "yes", "a\u2028")
    rows = [sent({}, key=key) for key in keys]
    document = made(*rows, got({}, queue="no", who=": - #"))
    addresses = {channel["address"] for channel in document["channels"].values()}
    assert len(document["channels"]) == 10
    assert addresses >= {"a/b", "a b", "a_b", "a.b", None}


PARTS = st.sampled_from([*"ab._-2/é", "queue", "send", "a" * 100])
NAMES = st.lists(PARTS, max_size=4).map("".join)
ROUTES = st.builds(Route, st.just(True), NAMES, NAMES, NAMES, NAMES) | st.builds(
    Route, st.just(False), NAMES, st.just(""), NAMES, NAMES
)


@given(st.sets(ROUTES, max_size=12))
@example({Route(True, "", key, "shop", key) for key in ("a.b", "a_b", "a_b-2", "a-b", "a/b")})
@example({Route(True, name, key, "shop", "") for name, key in (("a.b", "c"), ("a", "b.c"))})
@example({Route(False, "b", "", "a", ""), Route(True, "", "queue_b", "a", "")})
@example({Route(True, "", "b", "a.send", ""), Route(True, "send", "b", "a", "")})
@example({Route(True, "", key, "7", key) for key in ("7", "_7", "1" * 100 + ".", "٣")})
def test_ids_are_distinct_whatever_the_names_are(routes: set[Route]) -> None:
    shapes = PeriodShapes()
    shapes.paths.update(routes)
    shapes.messages = {route.type: MessageNotes() for route in routes}
    document = document_of(shapes, FACTS, [])
    assert faults_of_ids(document) == []
    operations = document["operations"].values()
    assert len(document["channels"]) == len({route[:3] for route in routes})
    assert len(operations) == len({route[:4] for route in routes})
    assert len(document["components"]["messages"]) == len(shapes.messages)
    assert sum(operation["x-count"] for operation in operations) == len(routes)


def test_names_that_mean_something_to_readers_of_json_are_said_by_a_pattern() -> None:
    odd = {"$ref": "#/nowhere", "__proto__": {"constructor": 1}, "id": 2}
    document = made(sent(odd, headers=odd), got(odd, headers=odd), rules=[])

    def fields(value: object) -> set[str]:
        if isinstance(value, list):
            return set().union(*map(fields, value))
        return set(value).union(*map(fields, value.values())) if isinstance(value, dict) else set()

    [message] = document["components"]["messages"].values()
    for schema in (message["payload"], message["headers"]):
        assert fields(schema).isdisjoint({"$ref", "__proto__", "constructor"})
        assert Draft7Validator(schema).is_valid(odd)
        assert not Draft7Validator(schema).is_valid({**odd, "$ref": 1})
        assert not Draft7Validator(schema).is_valid({"id": 2})


def test_what_is_beyond_bounds_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "MOST_TYPES", 3)
    monkeypatch.setattr(asyncapi, "MOST_CHANNELS", 2)
    monkeypatch.setattr(asyncapi, "MOST_OPERATIONS", 2)
    rows = [sent({}, key=f"order.{k}") for k in range(10)]
    document = made(*rows, *rows[:2])
    assert len(document["channels"]) == len(document["operations"]) == 2
    assert (document["info"]["x-events"], document["info"]["x-left-out"]) == (12, 9)


def test_no_more_than_samples_are_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "MOST_SAMPLES", 5)
    [message] = made(*[sent({"a": k}) for k in range(40)])["components"]["messages"].values()
    assert (message["x-count"], message["x-samples"]["messages"]) == (40, 10)


def test_half_a_character_in_a_name_is_written_as_its_escape() -> None:
    document = document_of(seen_of(sent({"\ud800": 1})), FACTS, [])
    for written in (json.loads(as_json(document)), yaml.safe_load(as_yaml(document))):
        assert faults(written) == []
        [message] = written["components"]["messages"].values()
        assert [*message["payload"]["properties"]] == ["\\ud800"]
