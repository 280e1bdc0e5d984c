"""An AsyncAPI 3 document of what was seen in a period; without I/O.

A channel is an exchange with a routing key, or a queue; an operation is what one participant sends
to or receives from one channel; a message is a message type, with what its samples look like.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from spark_jobs.interchange.shapes import JAVASCRIPT_NAMES, Json
from spark_jobs.interchange.traffic import BROKER_NAMES, MessageNotes, PeriodShapes, Route

VERSION = "3.1.0"
AMQP_BINDING = "0.3.0"
LONGEST_ID = 100
MOST_CHANNELS = 1_000
MOST_OPERATIONS = 2_000

_LOCATION = re.compile(r"\$message\.(header|payload)#((?:/[^/]+)+)")
# AsyncAPI allows dots in ids, but its optimizer takes them for steps of a path, and an id of digits
# alone for a place in an array.
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


def document_of(shapes: PeriodShapes, facts: Json, rules: Sequence[Json]) -> Json:
    """The document.

    ``facts`` say which virtual host and period it is, and what may be missing; ``rules`` are those
    of links, as the service shows them, of which some say where a correlation id is.
    """
    routes = _commonest(shapes.paths.items(), MOST_OPERATIONS)
    channels = _ids(sorted({_channel(route) for route in routes}), _channel_name)
    messages = _ids(sorted({route.type for route in routes}), lambda kind: kind or "message")
    return {
        "asyncapi": VERSION,
        "info": _info(shapes, facts, sum(routes.values())),
        "channels": {
            channel_id: _channel_object(channel, facts["vhost"], routes, messages)
            for channel, channel_id in channels.items()
        },
        "operations": _operations(routes, channels, messages),
        "components": {
            "messages": {
                message_id: _message(kind, shapes.messages[kind], rules)
                for kind, message_id in messages.items()
            }
        },
    }


def _commonest(routes: Iterable[tuple[Route, int]], limit: int) -> dict[Route, int]:
    """The commonest ways, whose channels and operations are few enough."""
    routes_kept: dict[Route, int] = {}
    channels: set[tuple[bool, str, str]] = set()
    operations: set[tuple[tuple[bool, str, str], str]] = set()
    for route, count in sorted(routes, key=lambda item: (-item[1], item[0])):
        channel = _channel(route)
        operation = (channel, route.participant)
        if channel not in channels and len(channels) >= MOST_CHANNELS:
            continue
        if operation not in operations and len(operations) >= limit:
            continue
        channels.add(channel)
        operations.add(operation)
        routes_kept[route] = count
    return routes_kept


def _info(shapes: PeriodShapes, facts: Json, count: int) -> Json:
    complete = "" if facts["complete"] else " The record has gaps there: see x-gaps."
    return {
        "title": f"Virtual host {facts['vhost']}",
        "version": f"{facts['since']}/{facts['until']}",
        "description": (
            f"What was seen from {facts['since']} to before {facts['until']}, in {shapes.events}"
            f" events; nobody has promised it.{complete}"
        ),
        **{f"x-{name}": value for name, value in facts.items()},
        "x-events": shapes.events,
        "x-left-out": shapes.events - count,
    }


def _channel(route: Route) -> tuple[bool, str, str]:
    return route.is_send, route.address, route.key


def _channel_name(channel: tuple[bool, str, str]) -> str:
    is_send, name, key = channel
    if not is_send:
        return f"queue_{name}"
    return f"{name}_{key}" if name and key else name or key or "default"


def _ids(keys: Sequence[Any], name: Any) -> dict[Any, str]:
    """A distinct id for each, of letters, digits, ``_`` and ``-``, but not of digits alone."""
    ids_used = {*JAVASCRIPT_NAMES}
    ids = {}
    for key in keys:
        base = _UNSAFE.sub("_", name(key))[:LONGEST_ID] or "_"
        base = f"_{base}" if base.isdigit() else base
        candidate, number = base, 1
        while candidate in ids_used:
            number += 1
            candidate = f"{base}-{number}"
        ids_used.add(candidate)
        ids[key] = candidate
    return ids


def _channel_object(
    channel: tuple[bool, str, str], vhost: str, routes: Iterable[Route], messages: Mapping[str, str]
) -> Json:
    is_send, address_name, key = channel
    kinds = sorted({messages[route.type] for route in routes if _channel(route) == channel})
    address = key if is_send else address_name
    is_temporary = address in BROKER_NAMES
    binding: Json = {"is": "queue", "queue": {"name": address_name, "vhost": vhost}}
    if is_temporary and not is_send:
        binding["queue"] = {"exclusive": True, "vhost": vhost}
    if is_send:
        binding = {"is": "routingKey", "exchange": {"name": address_name, "vhost": vhost}}
    return {
        # In an address, braces would be parameters.
        "address": None if is_temporary or {"{", "}"} & {*address} else address,
        "messages": {
            message_id: {"$ref": f"#/components/messages/{message_id}"} for message_id in kinds
        },
        "bindings": {"amqp": {**binding, "bindingVersion": AMQP_BINDING}},
    }


def _operations(
    routes: Mapping[Route, int], channels: Mapping[Any, str], messages: Mapping[str, str]
) -> Json:
    grouped: defaultdict[tuple[str, bool, str], dict[str, int]] = defaultdict(dict)
    for route, count in routes.items():
        operation = route.participant, route.is_send, channels[_channel(route)]
        grouped[operation][messages[route.type]] = count
    ids = _ids(sorted(grouped), lambda key: f"{key[0]}_{_action(key[1])}_{key[2]}")
    return {
        operation_id: {
            "action": _action(operation[1]),
            "channel": {"$ref": f"#/channels/{operation[2]}"},
            "title": f"{operation[0]} {_action(operation[1])}s",
            "messages": [
                {"$ref": f"#/channels/{operation[2]}/messages/{message_id}"}
                for message_id in sorted(grouped[operation])
            ],
            "x-participant": operation[0],
            "x-count": sum(grouped[operation].values()),
        }
        for operation, operation_id in ids.items()
    }


def _action(is_send: bool) -> str:
    return "send" if is_send else "receive"


def _message(kind: str, notes: MessageNotes, rules: Sequence[Json]) -> Json:
    message: Json = {"name": kind, "title": kind}
    if notes.content_types:
        message["contentType"] = min(
            notes.content_types,
            key=lambda content_type: (-notes.content_types[content_type], content_type),
        )
    # A schema stands for all: where some bodies are no JSON, there is none.
    if notes.as_json and notes.as_json == notes.sampled:
        message["payload"] = notes.payload.schema()
    if notes.headers.fields or notes.headers.unnamed:
        message["headers"] = notes.headers.schema()
    if correlation := _correlation(notes, rules):
        message["correlationId"] = correlation
    return {
        **message,
        "x-count": notes.count,
        "x-samples": {"messages": notes.sampled, "json": notes.as_json},
    }


def _correlation(notes: MessageNotes, rules: Sequence[Json]) -> Json | None:
    """Find where the id is that a message shares with its conversation, if all samples have it."""
    own_rules = [rule for rule in rules if rule.get("origin", "own") != "built_in"]
    if location := _by_rule(notes, own_rules):
        return location
    if notes.correlated and notes.correlated == notes.count:
        return {
            "description": "AMQP's property correlation_id, which all these messages have.",
            "location": "$message.header#/correlation_id",
        }
    return _by_rule(notes, [rule for rule in rules if rule not in own_rules])


def _by_rule(notes: MessageNotes, rules: Sequence[Json]) -> Json | None:
    # Rules that take a part of a value are about tracing: these come last.
    for rule in sorted(rules, key=lambda rule: bool(rule.get("take"))):
        paths = rule["child"] if isinstance(rule["child"], list) else [rule["child"]]
        match = _LOCATION.fullmatch(paths[0]) if rule["kind"] == "conversation" else None
        if match is None or len(paths) > 1:
            continue
        tokens = tuple(
            token.replace("~1", "/").replace("~0", "~") for token in match[2][1:].split("/")
        )
        is_body = match[1] == "payload"
        shape = notes.payload if is_body else notes.headers
        looked_at = notes.as_json == notes.sampled if is_body else True
        if shape.count and looked_at and shape.holds(tokens):
            return {
                "description": f"By the rule of links {rule['name']}.",
                "location": paths[0],
            }
    return None


def as_json(document: Json) -> bytes:
    """The document as JSON."""
    return json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"


def as_yaml(document: Json) -> bytes:
    """The document as YAML, with all texts in double quotes: none is a number to any reader."""
    text: bytes = yaml.dump(  # type: ignore[no-untyped-call]  # it has no types
        document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, encoding="utf-8", width=10**9
    )
    return text


class _Dumper(yaml.SafeDumper):
    yaml_representers = {  # noqa: RUF012 - the library's own, with one more
        **yaml.SafeDumper.yaml_representers,
        str: lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'),
    }

    def ignore_aliases(self, data: Any) -> bool:
        """Always: a document of ours repeats nothing by reference."""
        return True
