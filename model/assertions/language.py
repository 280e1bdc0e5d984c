"""The language of assertions: YAML or JSON of one shape, checked when it is read.

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

What is read is values that know their line and column: a file is taken apart into these by
`app.assertion_files`, and JSON here, so that both are checked by the same code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from model.assertions.assertion import (
    Acknowledged,
    After,
    Assertion,
    AtMost,
    Basis,
    InvalidAssertionError,
    LeadsTo,
    NeverConcurrent,
    TypePattern,
    What,
)

Json: TypeAlias = dict[str, Any]

MOST_BYTES = 256 * 1024
MOST_ASSERTIONS = 500
LONGEST_NAME, LONGEST_TYPE = 100, 300
DEEPEST = 4
"""How deep values may be nested."""
TOO_DEEP = "expected a name or a number, not something nested"
LONGEST_ERROR = 500
MOST_EFFECTS = 1_000_000_000
# What YAML takes for a text, unless it is one of the words.
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
"""The longest time that something may take (µs)."""
_KEYS = ("conversation", "message_id", "correlation_id", "routing_key")
_NAMED_KEYS = ("header.", "body.")


class TextPlace(NamedTuple):
    """The place of something in a text, from 1; None where that is not known."""

    line: int | None = None
    column: int | None = None

    def error(self, what: str) -> InvalidAssertionError:
        """The error there, which may quote as much as somebody wrote."""
        short = what if len(what) <= LONGEST_ERROR else f"{what[:LONGEST_ERROR]} …"
        return InvalidAssertionError(short, self.line, self.column)


@dataclass(frozen=True, slots=True)
class Value:
    """A value with its place: a text, a number, a list of values, or of pairs (key, value)."""

    at: TextPlace
    value: Any


def from_json(value: Any) -> Assertion:
    """One assertion from JSON, as `to_json` gives it; raises `InvalidAssertionError`."""
    return _one(_of_json(value))


def to_json(assertion: Assertion) -> Json:
    """An assertion as JSON, with the keys of the language."""
    return {"name": assertion.name, **_WRITTEN[type(assertion.what)](assertion.what)}


def to_yaml(assertions: list[Assertion]) -> str:
    """A file of assertions, one line for each thing that is said."""
    return "assertions:\n" + "".join(map(yaml_item, assertions))


def yaml_item(assertion: Assertion) -> str:
    """An assertion as an item of the list in a file."""
    first, *more = (f"{key}: {_scalar(value)}" for key, value in to_json(assertion).items())
    return "\n".join([f"  - {first}", *(f"    {line}" for line in more)]) + "\n"


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
    nowhere = TextPlace()
    if depth > DEEPEST:
        raise nowhere.error(TOO_DEEP)
    if isinstance(value, list | tuple):
        return Value(nowhere, [_of_json(each, depth + 1) for each in value])
    if isinstance(value, Mapping):
        pairs = value.items()
        return Value(
            nowhere, [(_of_json(str(k), depth + 1), _of_json(v, depth + 1)) for k, v in pairs]
        )
    if value is None or (isinstance(value, int | str) and not isinstance(value, bool)):
        return Value(nowhere, value)
    return Value(nowhere, json.dumps(value))


def _is_mapping(value: Value) -> bool:
    its = value.value
    return isinstance(its, list) and all(isinstance(each, tuple) for each in its)


def assertions_in(file: Value) -> list[Assertion]:
    """The assertions of a file that was taken apart; raises `InvalidAssertionError`."""
    listed = file
    if _is_mapping(file) and file.value:
        [*pairs] = file.value
        for key, _ in pairs:
            if key.value != "assertions":
                raise key.at.error(f"expected `assertions:`, not `{key.value}`")
        if len(pairs) > 1:
            raise pairs[1][0].at.error("`assertions` stands there twice")
        listed = pairs[0][1]
    if not isinstance(listed.value, list) or (listed.value and _is_mapping(listed)):
        raise listed.at.error("expected a list of assertions")
    if not listed.value:
        raise listed.at.error("there are no assertions in it")
    if len(listed.value) > MOST_ASSERTIONS:
        raise listed.at.error(f"there are more than {MOST_ASSERTIONS} assertions")
    found: dict[str, Assertion] = {}
    for each in listed.value:
        assertion = _one(each)
        if assertion.name in found:
            raise each.at.error(f"there are two assertions of the name {assertion.name}")
        found[assertion.name] = assertion
    return [*found.values()]


def _one(value: Value) -> Assertion:
    if not _is_mapping(value):
        raise value.at.error("expected an assertion: a name, and what should hold")
    fields: dict[str, Value] = {}
    for key, its in value.value:
        if key.value in fields:
            raise key.at.error(f"`{key.value}` stands there twice")
        fields[key.value] = its
    kinds = [kind for kind in _KINDS if kind.sign in fields]
    if len(kinds) != 1:
        signs = ", ".join(kind.sign for kind in _KINDS)
        raise value.at.error(f"expected one of {signs}" + (", not several" if kinds else ""))
    (kind,) = kinds
    known = {"name", *kind.needed, *kind.optional}
    for key, _ in value.value:
        if key.value not in known:
            raise key.at.error(
                f"`{key.value}` is not known here; expected {', '.join(sorted(known))}"
            )
    for each in ("name", *kind.needed):
        if each not in fields:
            raise value.at.error(f"`{each}` is missing")
    return Assertion(_name(fields["name"]), kind.read(fields))


def _name(value: Value) -> str:
    text = value.value
    if not isinstance(text, str) or not _NAME.fullmatch(text) or len(text) > LONGEST_NAME:
        raise value.at.error(
            f"a name has 1 to {LONGEST_NAME} letters, digits, dots, underscores and hyphens"
        )
    return text


def _type(value: Value) -> TypePattern:
    text = str(value.value) if isinstance(value.value, int) else value.value
    if not isinstance(text, str) or not 0 < len(text) <= LONGEST_TYPE:
        raise value.at.error(f"expected a message type, a text of 1 to {LONGEST_TYPE} characters")
    return TypePattern(text)


def _duration(value: Value) -> int:
    found = _DURATION.fullmatch(str(value.value).strip())
    if found is None:
        raise value.at.error(f"expected a time such as 500ms, 30s, 5min, 2h, not {value.value!r}")
    # So many digits may stand there that the number is infinite.
    took = round(min(float(found[1]) * _MICROSECONDS[found[2]], LONGEST + 1))
    if not 0 < took <= LONGEST:
        raise value.at.error(
            f"a time is more than nothing, and at most {LONGEST // 86_400_000_000}d"
        )
    return took


def _evidence(value: Value) -> Basis:
    try:
        return Basis(str(value.value))
    except ValueError:
        raise value.at.error(
            f"evidence: expected {' or '.join(Basis)}, not {value.value!r}"
        ) from None


def _count(value: Value) -> int:
    count = value.value
    if not isinstance(count, int) or not 0 <= count <= MOST_EFFECTS:
        raise value.at.error("expected a number of messages, 0 or more")
    return count


def _key(value: Value) -> str:
    key = value.value
    if isinstance(key, str) and (
        key in _KEYS or any(key.startswith(begin) and key != begin for begin in _NAMED_KEYS)
    ):
        return key
    raise value.at.error(f"per: expected {', '.join(_KEYS)}, header.NAME or body.NAME")


def _two_types(value: Value) -> tuple[TypePattern, TypePattern]:
    if not isinstance(value.value, list) or len(value.value) != 2 or _is_mapping(value):
        raise value.at.error("never_concurrent: expected a list of two message types")
    first, second = value.value
    return _type(first), _type(second)


class _Kind(NamedTuple):
    """A kind of assertion: the key that tells it, what else it has, and what reads it."""

    sign: str
    needed: tuple[str, ...]
    optional: tuple[str, ...]
    read: Callable[[dict[str, Value]], What]


def _read_leads_to(of: dict[str, Value]) -> LeadsTo:
    within = _duration(of["within"]) if "within" in of else None
    return LeadsTo(_type(of["every"]), _type(of["leads_to"]), within)


def _read_after(of: dict[str, Value]) -> After:
    evidence = _evidence(of["evidence"]) if "evidence" in of else Basis.caused
    return After(_type(of["every"]), _type(of["after"]), evidence)


def _read_never_concurrent(of: dict[str, Value]) -> NeverConcurrent:
    per = _key(of["per"]) if "per" in of else "conversation"
    return NeverConcurrent(_two_types(of["never_concurrent"]), per)


def _read_at_most(of: dict[str, Value]) -> AtMost:
    return AtMost(_type(of["no"]), _count(of["causes_more_than"]))


def _read_acknowledged(of: dict[str, Value]) -> Acknowledged:
    return Acknowledged(_type(of["every"]), _duration(of["acknowledged_within"]))


_KINDS = (
    _Kind("leads_to", ("every", "leads_to"), ("within",), _read_leads_to),
    _Kind("after", ("every", "after"), ("evidence",), _read_after),
    _Kind("never_concurrent", ("never_concurrent",), ("per",), _read_never_concurrent),
    _Kind("causes_more_than", ("no", "causes_more_than"), (), _read_at_most),
    _Kind("acknowledged_within", ("every", "acknowledged_within"), (), _read_acknowledged),
)


def _write_leads_to(what: LeadsTo) -> Iterator[tuple[str, Any]]:
    yield "every", str(what.every)
    yield "leads_to", str(what.leads_to)
    if what.within is not None:
        yield "within", duration_text(what.within)


def _write_after(what: After) -> Iterator[tuple[str, Any]]:
    yield "every", str(what.every)
    yield "after", str(what.after)
    if what.evidence is not Basis.caused:
        yield "evidence", what.evidence.value


def _write_never_concurrent(what: NeverConcurrent) -> Iterator[tuple[str, Any]]:
    yield "never_concurrent", [str(each) for each in what.types]
    yield "per", what.per


def _write_at_most(what: AtMost) -> Iterator[tuple[str, Any]]:
    yield "no", str(what.no)
    yield "causes_more_than", what.causes_more_than


def _write_acknowledged(what: Acknowledged) -> Iterator[tuple[str, Any]]:
    yield "every", str(what.every)
    yield "acknowledged_within", duration_text(what.within)


_WRITTEN: dict[type, Callable[[Any], Json]] = {
    LeadsTo: lambda what: dict(_write_leads_to(what)),
    After: lambda what: dict(_write_after(what)),
    NeverConcurrent: lambda what: dict(_write_never_concurrent(what)),
    AtMost: lambda what: dict(_write_at_most(what)),
    Acknowledged: lambda what: dict(_write_acknowledged(what)),
}
