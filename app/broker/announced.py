"""The broker's word on connections: on its event exchange, and in its management API.

On the event exchange a client's own properties are Erlang terms as text, one for each property:
``{<<"connection_name">>,longstr,<<"orders-0">>}`` (3.10.8, 4.3.6). Clients choose their contents,
and their length. So only known properties are read, from the beginning of a text, with bounds:
nothing inside another value can pass for a property.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from app.stored.capture import ClosedConnection, NewConnection
from app.tracker.clients import client_name, shown_name
from model.texts import storable

CREATED, CLOSED = "connection.created", "connection.closed"

# The part of a client's properties that is read; a client may send 128 KiB of them.
MOST_PROPERTIES = 64
LONGEST_PROPERTY = 4_096
# Most characters of a name of a connection, a virtual host or a user, and of a kept value:
# PostgreSQL finds connections by two such names in a row of some 2,700 bytes.
LONGEST_TEXT = 320

# Properties in which clients give their process id.
_PROCESS = ("process_id", "ProcessId", "pid")
# Properties that name a program, its process or its library. The others are none of our business.
PROPERTIES = frozenset(
    {
        *("connection_name", "endpoint_name", "application", "service", "client_id"),
        *("container_id", "InputQueue", "ProcessName", "product", "platform", *_PROCESS),
    }
)

_STRING = r'"(?:[^"\\]|\\.)*"'
_STRINGS = rf"{_STRING}(?:\s+{_STRING})*"
_BINARY = rf"<<\s*(?:{_STRINGS}(?:/utf8)?|\d{{1,3}}(?:\s*,\s*\d{{1,3}})*)?\s*>>"
# A property, its key and value: text, or a number.
_PROPERTY = re.compile(
    rf"\{{\s*({_BINARY}|[a-z]\w*)\s*,\s*\w+\s*,\s*({_BINARY}|{_STRINGS}|-?\d{{1,20}})\s*\}}",
    re.DOTALL,
)
# MQTT before 3.12: a map of one entry.
_VARIABLE = re.compile(rf"#\{{\s*<<\"client_id\">>\s*=>\s*({_BINARY})\s*\}}", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:x\{([0-9a-fA-F]{1,6})\}|x([0-9a-fA-F]{2})|([0-7]{1,3})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b"}
_ESCAPED |= {"d": "\x7f", "s": " ", "0": "\0"}


def announcement(
    routing_key: str, headers: Mapping[str, Any]
) -> NewConnection | ClosedConnection | None:
    """The announcement in a message of the event exchange; None if it announces no connection."""
    # The broker publishes its events itself: a dead letter comes from somebody's queue.
    if "x-death" in headers:
        return None
    if routing_key == CREATED:
        return connection_of(headers)
    return _read_closing(headers) if routing_key == CLOSED else None


def connection_of(headers: Mapping[str, Any]) -> NewConnection | None:
    """A connection as it is announced, or as the management API lists it; None if fields are
    missing.
    """
    node, name = _text(headers, "node"), _text(headers, "name")
    opened_at = _time(headers.get("connected_at", headers.get("timestamp_in_ms")))
    if not node or not name or opened_at is None:
        return None
    properties = properties_of(headers)
    own_name = _text(headers, "user_provided_name") or properties.get("connection_name")
    process = next((properties[key] for key in _PROCESS if key in properties), None)
    return NewConnection(
        node,
        name,
        _text(headers, "vhost"),
        _text(headers, "user"),
        client_name(own_name, properties),
        shown_name(process) if process else None,
        opened_at,
        _text(headers, "pid") or None,
    )


def properties_of(headers: Mapping[str, Any]) -> dict[str, str]:
    """The client's own properties, of those in `PROPERTIES`."""
    properties = _properties(headers.get("client_properties"))
    properties |= _variables(headers.get("variable_map"))
    return properties | _select({"container_id": headers.get("container_id")})


def _read_closing(headers: Mapping[str, Any]) -> ClosedConnection | None:
    node, name, pid = (_text(headers, key) for key in ("node", "name", "pid"))
    closed_at = _time(headers.get("timestamp_in_ms"))
    if not node or not name or not pid or closed_at is None:
        return None
    return ClosedConnection(node, name, pid, closed_at)


def _time(value: Any) -> int | None:
    """A time in µs, from one in ms; None if it is invalid, or too large for a database."""
    return value * 1_000 if type(value) is int and 0 <= value < 2**53 else None


def _text(values: Mapping[str, Any], key: str) -> str:
    value = values.get(key)
    return _cut_text(value) if isinstance(value, str) else ""


def _cut_text(text: str) -> str:
    """A text cut and cleaned as the firehose's texts are, so that equal ones stay equal."""
    return storable(text[:LONGEST_TEXT])[:LONGEST_TEXT]


def _select(properties: Mapping[Any, Any]) -> dict[str, str]:
    """The properties in `PROPERTIES` that are text or a number."""
    return {
        key: _cut_text(str(value))
        for key, value in properties.items()
        if key in PROPERTIES and type(value) in (str, int) and value != ""
    }


def _properties(terms: Any) -> dict[str, str]:
    """A client's properties, from a list of terms; from a table where a broker sends one."""
    if isinstance(terms, dict):
        return _select(terms)
    if not isinstance(terms, list):
        return {}
    return _select(dict(_read(terms[:MOST_PROPERTIES])))


def _read(terms: list[Any]) -> Iterator[tuple[str, str]]:
    for term in terms:
        if not isinstance(term, str) or len(term) > LONGEST_PROPERTY:
            continue
        if match := _PROPERTY.fullmatch(term):
            yield _value(match[1]), _value(match[2])


def _variables(term: Any) -> dict[str, str]:
    if isinstance(term, dict):
        return _select(term)
    if not isinstance(term, str) or len(term) > LONGEST_PROPERTY:
        return {}
    match = _VARIABLE.fullmatch(term)
    return _select({"client_id": _value(match[1])}) if match else {}


def _value(term: str) -> str:
    """The text of a binary, a string, an atom or a number."""
    if not term.startswith("<<"):
        return _unquote(term) if term.startswith('"') else term
    inside = term[2:-2].strip()
    if inside.startswith('"'):
        return _unquote(inside.removesuffix("/utf8"))
    octets = [int(octet) for octet in inside.split(",")] if inside else []
    return storable(bytes(octet & 0xFF for octet in octets))


def _unquote(literals: str) -> str:
    """The text of string literals; Erlang breaks a long one into several."""
    return "".join(_ESCAPE.sub(_unescape, part[1:-1]) for part in re.findall(_STRING, literals))


def _unescape(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    if code or match[3]:
        number = int(code, 16) if code else int(match[3], 8)
        return chr(number) if number <= 0x10FFFF else "\ufffd"
    return _ESCAPED.get(match[4], match[4])
