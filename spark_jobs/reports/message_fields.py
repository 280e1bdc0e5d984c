"""The fields of a message, flat: paths and the values by which a rule of links could read it.

A path is AsyncAPI's runtime expression, as in rules; a value is text, a whole number or a byte
array of an AMQP table. A list of these has its elements' values, and its last two under paths of
their own, since stacks are read from their end. Everything is bounded, and values beyond a bound
are counted. Nothing here does I/O.
"""

from __future__ import annotations

import binascii
import re
from collections import Counter
from datetime import UTC, datetime
from typing import Any, TypeAlias

from model.bodies import parse
from model.texts import storable

Field: TypeAlias = tuple[str, str]  # the path, and its value

MOST_FIELDS = 200  # of one message
MOST_DEPTH = 6
MOST_ELEMENTS = 4  # of a list of tables, the first
MOST_VALUES = 64  # in a list of values; a rule refuses more
LONGEST_VALUE = 2_048  # bytes, as for a rule
LONGEST_PATH = 512  # characters, as for a rule

FIELDS_LEFT, DEPTH_LEFT, LONG_LEFT = "fields", "depth", "long values"
NOT_JSON, NOT_WHOLE = "bodies not JSON", "bodies too large"

HEADER, PAYLOAD, PROPERTY = "$message.header#", "$message.payload#", "$message.property#"
PROPERTIES = ("message_id", "correlation_id")
# Headers that the broker writes or reads: they tell of its work, and repeat for many messages.
OF_BROKER = frozenset({"CC", "BCC", "x-death", "x-delivery-count", "x-delay", "x-match"})
OF_BROKER_BEGIN = ("x-first-death-", "x-last-death-", "x-received-from", "x-shovel")
EMPTY_VALUES = frozenset(
    {"", "00000000-0000-0000-0000-000000000000", "null", "None", "nil", "undefined", "NaN"}
)


def fields_of(properties: Any, body: bytes, skipped: Counter[str]) -> list[Field]:
    """The paths of a message that hold values, with each value.

    Args:
        properties: as the store's JSON has them, the headers among them.
        body: as far as it is whole and not too large; otherwise empty.
        skipped: counts values beyond the bounds.
    """
    fields: list[Field] = []
    if not isinstance(properties, dict):
        return fields
    for name in PROPERTIES:
        if name in properties:
            _walk(f"{PROPERTY}/{name}", properties[name], MOST_DEPTH, (fields, skipped, True))
    # The body first: a table of ten thousand headers must not hide it.
    tree = parse(body, Counter())
    if tree is not None:
        _walk(PAYLOAD, tree, 0, (fields, skipped, False))
    elif body:
        skipped[NOT_JSON] += 1
    headers = properties.get("headers")
    for name, value in headers.items() if isinstance(headers, dict) else ():
        if len(fields) >= MOST_FIELDS:
            break
        if name and name not in OF_BROKER and not name.startswith(OF_BROKER_BEGIN):
            _walk(_child_path(HEADER, name), value, 1, (fields, skipped, True))
    if len(fields) >= MOST_FIELDS:
        skipped[FIELDS_LEFT] += 1
        del fields[MOST_FIELDS:]
    return fields


# Fields found, counts of those left out, and whether they are of an AMQP table.
_Walked: TypeAlias = tuple[list[Field], Counter[str], bool]


def _walk(path: str, tree: Any, depth: int, walked: _Walked) -> None:
    fields, skipped, of_table = walked
    if type(tree) is str and tree[:1] in ("{", "[") and not of_table:  # JSON in a text
        tree = parse(tree.encode("utf-8", "surrogatepass"), Counter()) or tree
    value = value_of(tree, of_table, skipped)
    if value is not None:
        if len(path) <= LONGEST_PATH:
            fields.append((path, value))
    elif isinstance(tree, (dict, list)) and tree:
        if depth >= MOST_DEPTH:
            skipped[DEPTH_LEFT] += 1
        elif isinstance(tree, list):
            _elements(path, tree, depth, walked)
        else:
            for name, child in tree.items():
                if len(fields) >= MOST_FIELDS:
                    break
                if name:
                    _walk(_child_path(path, name), child, depth + 1, walked)


def _elements(path: str, tree: list[Any], depth: int, walked: _Walked) -> None:
    """A list's values, or what stands in its first tables."""
    fields, skipped, of_table = walked
    values = [value_of(element, of_table, skipped) for element in tree[: MOST_VALUES + 1]]
    if depth and len(tree) <= MOST_VALUES:  # the whole body is no field
        present = [(path, value) for value in values if value is not None]
        fields += present
        for back in (-1, -2) if present else ():
            if len(values) >= -back and (last := values[back]) is not None:
                fields.append((f"{path}/{back}", last))
    for index, (text, element) in enumerate(zip(values, tree[:MOST_ELEMENTS], strict=False)):
        if text is None or not depth:
            _walk(f"{path}/{index}", element, depth + 1, walked)


# Messages have the same paths again and again.
_paths: dict[tuple[str, str], str] = {}
_MOST_PATHS = 10_000


def _child_path(parent: str, name: str) -> str:
    """The path of a field."""
    path = _paths.get((parent, name))
    if path is None:
        if len(_paths) >= _MOST_PATHS:
            _paths.clear()
        escaped = storable(name).replace("~", "~0").replace("/", "~1")
        path = _paths[parent, name] = f"{parent}/{escaped}"
    return path


def value_of(raw: Any, of_table: bool, skipped: Counter[str]) -> str | None:
    """A value as text that tells it from others, as rules do; None for a value of no use.

    ``of_table``: it is of an AMQP table, where ``{"base64": …}`` is a byte array.
    """
    value: str | bytes
    if type(raw) is str:
        value = raw
    elif type(raw) is int:
        value = str(raw) if raw.bit_length() <= 64 else ""
    elif of_table and (octets := bytes_in(raw)) is not None:
        value = octets
    else:
        return None
    if len(value) > LONGEST_VALUE:
        skipped[LONG_LEFT] += 1
        return None
    value = storable(value)
    return None if value in EMPTY_VALUES else value


def bytes_in(raw: Any) -> bytes | None:
    """The bytes of a byte array of an AMQP table, which the store has as ``{"base64": …}``."""
    if type(raw) is not dict or len(raw) != 1 or type(raw.get("base64")) is not str:
        return None
    try:
        return binascii.a2b_base64(raw["base64"])
    except ValueError:
        return None


_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,]\d+)?)?)?\s?(Z|[+-]\d\d:?\d\d)?")
_EPOCH = re.compile(r"\d{10}|\d{13}|\d{16}|\d{19}")
# A number that says a time within this of when its event was recorded is taken for one.
NEAR_TIME = 86_400_000_000  # µs


def is_time(value: str, recorded_at: int) -> bool:
    """Tell whether a value is a date or a time: written out, or an epoch's number near it (µs)."""
    if _EPOCH.fullmatch(value):
        moment: int = int(value) * 1_000_000 // 10 ** (len(value) - 10)
        return abs(moment - recorded_at) < NEAR_TIME
    return bool(_ISO.fullmatch(value)) or _is_clock(value, recorded_at)


def _is_clock(value: str, recorded_at: int) -> bool:
    """Tell whether a text begins with the day on which it was recorded, as logs write it."""
    if len(value) > 40 or not value[:1].isdigit():
        return False
    day = datetime.fromtimestamp(recorded_at / 1e6, UTC)
    return value.startswith((f"{day:%Y/%m/%d }", f"{day:%d/%m/%Y }", f"{day:%Y%m%dT}"))
