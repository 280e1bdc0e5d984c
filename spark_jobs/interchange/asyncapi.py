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

from spark_jobs.interchange.seen import BROKER_NAMES, MessageNotes, PeriodShapes, Route
from spark_jobs.interchange.shapes import JAVASCRIPT_NAMES, Json

VERSION = "3.1.0"
AMQP_BINDING = "0.3.0"
LONGEST_ID = 100
MOST_CHANNELS = 1_000
MOST_OPERATIONS = 2_000

_PLACE = re.compile(r"\$message\.(header|payload)#((?:/[^/]+)+)")
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


def document_of(seen: PeriodShapes, facts: Json, rules: Sequence[Json]) -> Json:
    """The document.

    ``facts`` say which virtual host and period it is, and what may be missing; ``rules`` are those
    of links, as the service shows them, of which some say where a correlation id is.
    """
    paths = _most(seen.paths.items(), MOST_OPERATIONS)
    channels = _ids(sorted({_channel(path) for path in paths}), _channel_name)
    messages = _ids(sorted({path.type for path in paths}), lambda kind: kind or "message")
    return {
        "asyncapi": VERSION,
        "info": _info(seen, facts, sum(paths.values())),
        "channels": {
            each: _channel_object(place, facts["vhost"], paths, messages)
            for place, each in channels.items()
        },
        "operations": _operations(paths, channels, messages),
        "components": {
            "messages": {
                each: _message(kind, seen.messages[kind], rules) for kind, each in messages.items()
            }
        },
    }


def _most(paths: Iterable[tuple[Route, int]], most: int) -> dict[Route, int]:
    """The commonest ways, whose channels and operations are few enough."""
    kept: dict[Route, int] = {}
    channels: set[tuple[bool, str, str]] = set()
    operations: set[tuple[tuple[bool, str, str], str]] = set()
    for path, count in sorted(paths, key=lambda item: (-item[1], item[0])):
        channel = _channel(path)
        operation = (channel, path.participant)
        if channel not in channels and len(channels) >= MOST_CHANNELS:
            continue
        if operation not in operations and len(operations) >= most:
            continue
        channels.add(channel)
        operations.add(operation)
        kept[path] = count
    return kept


def _info(seen: PeriodShapes, facts: Json, counted: int) -> Json:
    complete = "" if facts["complete"] else " The record has gaps there: see x-gaps."
    return {
        "title": f"Virtual host {facts['vhost']}",
        "version": f"{facts['since']}/{facts['until']}",
        "description": (
            f"What was seen from {facts['since']} to before {facts['until']}, in {seen.events}"
            f" events; nobody has promised it.{complete}"
        ),
        **{f"x-{name}": value for name, value in facts.items()},
        "x-events": seen.events,
        "x-left-out": seen.events - counted,
    }


def _channel(path: Route) -> tuple[bool, str, str]:
    return path.is_send, path.place, path.key


def _channel_name(channel: tuple[bool, str, str]) -> str:
    is_send, place, key = channel
    if not is_send:
        return f"queue.{place}"
    return f"{place}.{key}" if place and key else place or key or "default"


def _ids(things: Sequence[Any], name: Any) -> dict[Any, str]:
    """An id for each, of characters that a reference may have."""
    taken = {*JAVASCRIPT_NAMES}
    ids = {}
    for thing in things:
        base = _UNSAFE.sub("_", name(thing))[:LONGEST_ID] or "_"
        each, number = base, 1
        while each in taken:
            number += 1
            each = f"{base}-{number}"
        taken.add(each)
        ids[thing] = each
    return ids


def _channel_object(
    channel: tuple[bool, str, str], vhost: str, paths: Iterable[Route], messages: Mapping[str, str]
) -> Json:
    is_send, place, key = channel
    kinds = sorted({messages[path.type] for path in paths if _channel(path) == channel})
    address = key if is_send else place
    is_temporary = address in BROKER_NAMES
    binding: Json = {"is": "queue", "queue": {"name": place, "vhost": vhost}}
    if is_temporary and not is_send:
        binding["queue"] = {"exclusive": True, "vhost": vhost}
    if is_send:
        binding = {"is": "routingKey", "exchange": {"name": place, "vhost": vhost}}
    return {
        # In an address, braces would be parameters.
        "address": None if is_temporary or {"{", "}"} & {*address} else address,
        "messages": {each: {"$ref": f"#/components/messages/{each}"} for each in kinds},
        "bindings": {"amqp": {**binding, "bindingVersion": AMQP_BINDING}},
    }


def _operations(
    paths: Mapping[Route, int], channels: Mapping[Any, str], messages: Mapping[str, str]
) -> Json:
    grouped: defaultdict[tuple[str, bool, str], dict[str, int]] = defaultdict(dict)
    for path, count in paths.items():
        who = path.participant, path.is_send, channels[_channel(path)]
        grouped[who][messages[path.type]] = count
    ids = _ids(sorted(grouped), lambda one: f"{one[0]}.{_action(one[1])}.{one[2]}")
    return {
        each: {
            "action": _action(who[1]),
            "channel": {"$ref": f"#/channels/{who[2]}"},
            "title": f"{who[0]} {_action(who[1])}s",
            "messages": [
                {"$ref": f"#/channels/{who[2]}/messages/{one}"} for one in sorted(grouped[who])
            ],
            "x-participant": who[0],
            "x-count": sum(grouped[who].values()),
        }
        for who, each in ids.items()
    }


def _action(is_send: bool) -> str:
    return "send" if is_send else "receive"


def _message(kind: str, notes: MessageNotes, rules: Sequence[Json]) -> Json:
    message: Json = {"name": kind, "title": kind}
    if notes.content_types:
        message["contentType"] = min(
            notes.content_types, key=lambda each: (-notes.content_types[each], each)
        )
    # A schema stands for all: where some bodies are no JSON, there is none.
    if notes.as_json and notes.as_json == notes.sampled:
        message["payload"] = notes.payload.schema()
    if notes.headers.fields or notes.headers.others:
        message["headers"] = notes.headers.schema()
    if found := _correlation(notes, rules):
        message["correlationId"] = found
    return {
        **message,
        "x-count": notes.count,
        "x-samples": {"messages": notes.sampled, "json": notes.as_json},
    }


def _correlation(notes: MessageNotes, rules: Sequence[Json]) -> Json | None:
    """Find where the id is that a message shares with its conversation, if all samples have it."""
    own = [rule for rule in rules if rule.get("origin", "own") != "built_in"]
    if found := _by_rule(notes, own):
        return found
    if notes.correlated and notes.correlated == notes.count:
        return {
            "description": "AMQP's property correlation_id, which all these messages have.",
            "location": "$message.header#/correlation_id",
        }
    return _by_rule(notes, [rule for rule in rules if rule not in own])


def _by_rule(notes: MessageNotes, rules: Sequence[Json]) -> Json | None:
    # Rules that take a part of a value are about tracing: these come last.
    for rule in sorted(rules, key=lambda each: bool(each.get("take"))):
        places = rule["child"] if isinstance(rule["child"], list) else [rule["child"]]
        found = _PLACE.fullmatch(places[0]) if rule["kind"] == "conversation" else None
        if found is None or len(places) > 1:
            continue
        tokens = tuple(
            token.replace("~1", "/").replace("~0", "~") for token in found[2][1:].split("/")
        )
        is_body = found[1] == "payload"
        shape = notes.payload if is_body else notes.headers
        looked_at = notes.as_json == notes.sampled if is_body else True
        if shape.count and looked_at and shape.holds(tokens):
            return {
                "description": f"By the rule of links {rule['name']}.",
                "location": places[0],
            }
    return None


def as_json(document: Json) -> bytes:
    """The document as JSON."""
    return json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"


def as_yaml(document: Json) -> bytes:
    """The document as YAML, with all texts in double quotes: none is a number to any reader."""
    written: bytes = yaml.dump(  # type: ignore[no-untyped-call]  # it has no types
        document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, encoding="utf-8", width=10**9
    )
    return written


class _Dumper(yaml.SafeDumper):
    yaml_representers = {  # noqa: RUF012 - the library's own, with one more
        **yaml.SafeDumper.yaml_representers,
        str: lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'),
    }

    def ignore_aliases(self, data: Any) -> bool:
        """Always: a document of ours repeats nothing by reference."""
        return True
