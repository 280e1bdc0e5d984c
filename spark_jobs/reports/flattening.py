"""What stands in a message, place by place: the values by which a rule of links could read it.

A place is written as AsyncAPI's runtime expression, as rules are; a value is what rules take for
one: text, a whole number, a byte array of an AMQP table. A list of these has its elements' values,
its last two under places of their own as well, since stacks are read from their end. Everything is
bounded, and what is beyond a bound is counted. Nothing here does I/O.
"""

from __future__ import annotations

import binascii
import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, TypeAlias

Field: TypeAlias = tuple[str, str]  # the place, and its value

MOST_FIELDS = 200  # of one message
MOST_DEPTH = 6
MOST_ELEMENTS = 4  # of a list of tables, the first
MOST_VALUES = 64  # in a list of values; a rule refuses more
LONGEST_VALUE = 2_048  # bytes, as for a rule
LONGEST_PLACE = 512  # characters, as for a rule

FIELDS_LEFT, DEPTH_LEFT, LONG_LEFT = "fields", "depth", "long values"
NOT_JSON, NOT_WHOLE = "bodies not JSON", "bodies too large"

HEADER, PAYLOAD, PROPERTY = "$message.header#", "$message.payload#", "$message.property#"
PROPERTIES = ("message_id", "correlation_id")
# Headers that the broker writes or reads: they tell of its work, and repeat for many messages.
OF_BROKER = frozenset({"CC", "BCC", "x-death", "x-delivery-count", "x-delay", "x-match"})
OF_BROKER_BEGIN = ("x-first-death-", "x-last-death-", "x-received-from", "x-shovel")
NOTHING = frozenset(
    {"", "00000000-0000-0000-0000-000000000000", "null", "None", "nil", "undefined", "NaN"}
)


def fields_of(properties: Any, body: bytes, left: Counter[str]) -> Iterator[Field]:
    """The places of a message that hold values, with each value.

    Args:
        properties: as the store's JSON has them, the headers among them.
        body: as far as it is whole and not too large; otherwise empty.
        left: counts what is beyond the bounds.
    """
    if not isinstance(properties, dict):
        return
    room = MOST_FIELDS
    for field in _all(properties, body, left):
        if not room:
            left[FIELDS_LEFT] += 1
            return
        room -= 1
        yield field


def _all(properties: dict[str, Any], body: bytes, left: Counter[str]) -> Iterator[Field]:
    for name in PROPERTIES:
        if name in properties:
            yield from _walk(f"{PROPERTY}/{name}", properties[name], MOST_DEPTH, left, True)
    # The body first: a table of ten thousand headers must not hide it.
    if body[:1] in (b"{", b"[") or body[:64].lstrip()[:1] in (b"{", b"["):
        try:
            tree = json.loads(body)
        except (ValueError, RecursionError):
            left[NOT_JSON] += 1
        else:
            yield from _walk(PAYLOAD, tree, 0, left, False)
    elif body:
        left[NOT_JSON] += 1
    headers = properties.get("headers")
    for name, value in headers.items() if isinstance(headers, dict) else ():
        if name and name not in OF_BROKER and not name.startswith(OF_BROKER_BEGIN):
            yield from _walk(f"{HEADER}/{_escaped(name)}", value, 1, left, True)


def _walk(place: str, tree: Any, depth: int, left: Counter[str], of_table: bool) -> Iterator[Field]:
    value = value_of(tree, of_table, left)
    if value is not None:
        if len(place) <= LONGEST_PLACE:
            yield place, value
    elif isinstance(tree, (dict, list)) and tree:
        if depth >= MOST_DEPTH:
            left[DEPTH_LEFT] += 1
        elif isinstance(tree, dict):
            for name, below in tree.items():
                if name:
                    yield from _walk(f"{place}/{_escaped(name)}", below, depth + 1, left, of_table)
        else:
            yield from _elements(place, tree, depth, left, of_table)


def _elements(
    place: str, tree: list[Any], depth: int, left: Counter[str], of_table: bool
) -> Iterator[Field]:
    """A list's values, or what stands in its first tables."""
    values = [value_of(each, of_table, left) for each in tree[: MOST_VALUES + 1]]
    known = [value for value in values if value is not None]
    if known and depth and len(tree) <= MOST_VALUES:  # the whole body is no place
        for value in known:
            yield place, value
        for back in (-1, -2):
            if len(values) >= -back and (last := values[back]) is not None:
                yield f"{place}/{back}", last
    for index, (known_as, each) in enumerate(zip(values, tree[:MOST_ELEMENTS], strict=False)):
        if known_as is None or not depth:
            yield from _walk(f"{place}/{index}", each, depth + 1, left, of_table)


def value_of(raw: Any, of_table: bool, left: Counter[str]) -> str | None:
    """A value as text, as rules compare it; None if it is none.

    ``of_table``: it is of an AMQP table, where ``{"base64": …}`` is a byte array.
    """
    value: str
    if type(raw) is str:
        value = raw
    elif type(raw) is int:
        value = str(raw) if raw.bit_length() <= 64 else ""
    elif of_table and type(raw) is dict and len(raw) == 1 and type(raw.get("base64")) is str:
        try:
            value = binascii.a2b_base64(raw["base64"]).decode("utf-8", "surrogateescape")
        except ValueError:
            return None
    else:
        return None
    if len(value) > LONGEST_VALUE:
        left[LONG_LEFT] += 1
        return None
    return None if value in NOTHING else value


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,]\d+)?)?)?\s?(Z|[+-]\d\d:?\d\d)?")
_EPOCH = re.compile(r"\d{10}|\d{13}|\d{16}|\d{19}")
# A number that says a time within this of when its event was recorded is taken for one.
NEAR = 86_400_000_000  # µs


def is_time(value: str, recorded_at: int) -> bool:
    """Whether a value is a date or a time: written out, or an epoch's number of about then (µs)."""
    if _EPOCH.fullmatch(value):
        moment: int = int(value) * 1_000_000 // 10 ** (len(value) - 10)
        return abs(moment - recorded_at) < NEAR
    return bool(_ISO.fullmatch(value)) or _is_clock(value, recorded_at)


def _is_clock(value: str, recorded_at: int) -> bool:
    """Whether a text begins with the day on which it was recorded, as logs write it."""
    if len(value) > 40 or not value[:1].isdigit():
        return False
    day = datetime.fromtimestamp(recorded_at / 1e6, UTC)
    return value.startswith((f"{day:%Y/%m/%d }", f"{day:%d/%m/%Y }", f"{day:%Y%m%dT}"))
