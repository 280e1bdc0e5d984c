"""The language of assertions: YAML or JSON of one shape, checked as it is read.

    assertions:
      - name: invoice-in-time
        every: order.new
        leads_to: invoice
        within: 30s
      - name: ship-approved
        every: ship
        after: approve
      - name: no-refund-race
        never_concurrent: [refund, capture]
        per: body.order
      - name: no-storm
        no: "*"
        causes_more_than: 100
      - name: orders-handled
        every: order.new
        acknowledged_within: 30s

Files (`app.assertion_files`) and JSON both become values that know their line and column, which the
same code checks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from model.assertions.assertion import (
    Acknowledged,
    Assertion,
    AtMost,
    Basis,
    InvalidAssertionError,
    LeadsTo,
    NeverConcurrent,
    Precedence,
    TypePattern,
)

Json: TypeAlias = dict[str, Any]

MOST_BYTES = 256 * 1024
MOST_ASSERTIONS = 500
LONGEST_NAME, LONGEST_TYPE = 100, 300
DEEPEST = 4  # nesting of values
TOO_DEEP = "expected a name or a number, not something nested"
LONGEST_ERROR = 500
MOST_EFFECTS = 1_000_000_000
# Texts in YAML without quotes, but for its words.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*|[0-9]+(?:ms|s|min|h|d)")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n", "~"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|min|h|d)")
_MICROSECONDS = {
    "ms": 1_000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
LONGEST = 366 * _MICROSECONDS["d"]
"""The longest duration (µs)."""
_KEYS = ("conversation", "message_id", "correlation_id", "routing_key")
_NAMED_KEYS = ("header.", "body.")


class TextPosition(NamedTuple):
    """A position in a text, from 1; None where it is unknown."""

    line: int | None = None
    column: int | None = None

    def error(self, message: str) -> InvalidAssertionError:
        """The error at this position, shortened: it may quote anything."""
        short = message if len(message) <= LONGEST_ERROR else f"{message[:LONGEST_ERROR]} …"
        return InvalidAssertionError(short, self.line, self.column)


@dataclass(frozen=True, slots=True)
class Value:
    """A value with its place: a text, a number, a list of values, or of pairs (key, value)."""

    position: TextPosition
    value: Any


def from_json(value: Any) -> Assertion:
    """One assertion from JSON, as `to_json` gives it; raises `InvalidAssertionError`."""
    return _assertion(_of_json(value))


def to_json(assertion: Assertion) -> Json:
    """An assertion as JSON, with the keys of the language."""
    condition = assertion.requirement
    answer: Json = {"name": assertion.name}
    for part in _PARTS[type(condition)]:
        value = getattr(condition, part.field)
        if value is not None and value is not Basis.caused:  # that is the default
            answer[part.key] = part.write(value)
    return answer


def yaml_item(assertion: Assertion) -> str:
    """An assertion as an item of the list in a file."""
    first, *rest = (f"{key}: {_scalar(value)}" for key, value in to_json(assertion).items())
    return "\n".join([f"  - {first}", *(f"    {line}" for line in rest)]) + "\n"


def _scalar(value: Any) -> str:
    """A value that YAML reads as just that; JSON's strings are among its quoted ones."""
    is_plain = isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS
    return value if is_plain else json.dumps(value, ensure_ascii=False)


def duration_text(microseconds: int) -> str:
    """A duration as the language has it, in the largest unit that takes no fraction."""
    for unit, size in reversed(_MICROSECONDS.items()):
        if microseconds % size == 0:
            return f"{microseconds // size}{unit}"
    return f"{microseconds / 1_000}ms"


def _of_json(value: Any, depth: int = 0) -> Value:
    nowhere = TextPosition()
    if depth > DEEPEST:
        raise nowhere.error(TOO_DEEP)
    if isinstance(value, list | tuple):
        return Value(nowhere, [_of_json(element, depth + 1) for element in value])
    if isinstance(value, Mapping):
        pairs = value.items()
        return Value(
            nowhere, [(_of_json(str(k), depth + 1), _of_json(v, depth + 1)) for k, v in pairs]
        )
    if value is None or (isinstance(value, int | str) and not isinstance(value, bool)):
        return Value(nowhere, value)
    return Value(nowhere, json.dumps(value))


def _is_mapping(value: Value) -> bool:
    elements = value.value
    return isinstance(elements, list) and all(isinstance(element, tuple) for element in elements)


def assertions_in(file: Value) -> list[Assertion]:
    """The assertions of a parsed file; raises `InvalidAssertionError`."""
    listed = file
    if _is_mapping(file) and file.value:
        [*pairs] = file.value
        for key, _ in pairs:
            if key.value != "assertions":
                raise key.position.error(f"expected `assertions:`, not `{key.value}`")
        if len(pairs) > 1:
            raise pairs[1][0].position.error("`assertions` stands there twice")
        listed = pairs[0][1]
    if not isinstance(listed.value, list) or (listed.value and _is_mapping(listed)):
        raise listed.position.error("expected a list of assertions")
    if not listed.value:
        raise listed.position.error("there are no assertions in it")
    if len(listed.value) > MOST_ASSERTIONS:
        raise listed.position.error(f"there are more than {MOST_ASSERTIONS} assertions")
    assertions: dict[str, Assertion] = {}
    for element in listed.value:
        assertion = _assertion(element)
        if assertion.name in assertions:
            raise element.position.error(f"there are two assertions of the name {assertion.name}")
        assertions[assertion.name] = assertion
    return [*assertions.values()]


def _assertion(value: Value) -> Assertion:
    if not _is_mapping(value):
        raise value.position.error("expected an assertion: a name, and what should hold")
    fields: dict[str, Value] = {}
    for key, field in value.value:
        if key.value in fields:
            raise key.position.error(f"`{key.value}` stands there twice")
        fields[key.value] = field
    kinds = [key for key in _KINDS if key in fields]
    if len(kinds) != 1:
        signs = ", ".join(_KINDS)
        raise value.position.error(f"expected one of {signs}" + (", not several" if kinds else ""))
    make, parts = _KINDS[kinds[0]]
    keys = {"name", *(part.key for part in parts)}
    for key, _ in value.value:
        if key.value not in keys:
            raise key.position.error(
                f"`{key.value}` is not known here; expected {', '.join(sorted(keys))}"
            )
    for name in ("name", *(part.key for part in parts if not part.is_optional)):
        if name not in fields:
            raise value.position.error(f"`{name}` is missing")
    values = {part.field: part.read(fields[part.key]) for part in parts if part.key in fields}
    return Assertion(_name(fields["name"]), make(**values))


def _name(value: Value) -> str:
    text = value.value
    if not isinstance(text, str) or not _NAME.fullmatch(text) or len(text) > LONGEST_NAME:
        raise value.position.error(
            f"a name has 1 to {LONGEST_NAME} letters, digits, dots, underscores and hyphens"
        )
    return text


def _type(value: Value) -> TypePattern:
    text = str(value.value) if isinstance(value.value, int) else value.value
    if not isinstance(text, str) or not 0 < len(text) <= LONGEST_TYPE:
        raise value.position.error(
            f"expected a message type, a text of 1 to {LONGEST_TYPE} characters"
        )
    return TypePattern(text)


def _duration(value: Value) -> int:
    match = _DURATION.fullmatch(str(value.value).strip())
    if match is None:
        raise value.position.error(
            f"expected a time such as 500ms, 30s, 5min, 2h, not {value.value!r}"
        )
    # With enough digits the number is infinite.
    took = round(min(float(match[1]) * _MICROSECONDS[match[2]], LONGEST + 1))
    if not 0 < took <= LONGEST:
        raise value.position.error(
            f"a time is more than nothing, and at most {LONGEST // 86_400_000_000}d"
        )
    return took


def _evidence(value: Value) -> Basis:
    try:
        return Basis(str(value.value))
    except ValueError:
        raise value.position.error(
            f"evidence: expected {' or '.join(Basis)}, not {value.value!r}"
        ) from None


def _count(value: Value) -> int:
    count = value.value
    if not isinstance(count, int) or not 0 <= count <= MOST_EFFECTS:
        raise value.position.error("expected a number of messages, 0 or more")
    return count


def _key(value: Value) -> str:
    key = value.value
    if isinstance(key, str) and (
        key in _KEYS or any(key.startswith(begin) and key != begin for begin in _NAMED_KEYS)
    ):
        return key
    raise value.position.error(f"per: expected {', '.join(_KEYS)}, header.NAME or body.NAME")


def _two_types(value: Value) -> tuple[TypePattern, TypePattern]:
    if not isinstance(value.value, list) or len(value.value) != 2 or _is_mapping(value):
        raise value.position.error("never_concurrent: expected a list of two message types")
    first, second = value.value
    return _type(first), _type(second)


class _AssertionKey(NamedTuple):
    """A key of the language: the field it is of, and what reads and writes its value."""

    key: str
    field: str
    read: Callable[[Value], Any]
    write: Callable[[Any], Any] = str
    is_optional: bool = False


_SUBJECT = _AssertionKey("every", "subject", _type)
# By the key that tells a kind of assertion: its class, and its keys in the order of a file.
_KINDS: dict[str, tuple[type[Any], tuple[_AssertionKey, ...]]] = {
    "leads_to": (
        LeadsTo,
        (
            _SUBJECT,
            _AssertionKey("leads_to", "leads_to", _type),
            _AssertionKey("within", "limit", _duration, duration_text, is_optional=True),
        ),
    ),
    "after": (
        Precedence,
        (
            _SUBJECT,
            _AssertionKey("after", "precursor", _type),
            _AssertionKey("evidence", "evidence", _evidence, is_optional=True),
        ),
    ),
    "never_concurrent": (
        NeverConcurrent,
        (
            _AssertionKey(
                "never_concurrent", "types", _two_types, lambda types: [*map(str, types)]
            ),
            _AssertionKey("per", "key", _key, is_optional=True),
        ),
    ),
    "causes_more_than": (
        AtMost,
        (
            _AssertionKey("no", "subject", _type),
            _AssertionKey("causes_more_than", "causes_more_than", _count, int),
        ),
    ),
    "acknowledged_within": (
        Acknowledged,
        (_SUBJECT, _AssertionKey("acknowledged_within", "limit", _duration, duration_text)),
    ),
}
_PARTS = dict(_KINDS.values())
