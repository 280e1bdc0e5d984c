"""A rule: the places by which messages name each other, and its form in JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from app.tracker.links.expressions import Expression, ExpressionError, Source
from app.tracker.links.takes import TAKES
from model.words import WITHOUT_RULE, LinkKind

# The name of the links that OpenTelemetry's spans tell of; no rule reads them from messages.
SPANS_RULE = "opentelemetry"

MOST_PARTS = 4
MOST_CONDITIONS = 8
MOST_PLACES = 32  # that one condition looks at
LONGEST_TEXT = 200

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}").fullmatch
_CONTENT_TYPE = (Expression(Source.property, ("content_type",)),)


class RuleError(ValueError):
    """An invalid rule. The message names the rule, the field, and the position in it."""


class Condition(msgspec.Struct, frozen=True):
    """The condition that one of these places holds something, or that none does.

    ``false``, 0 and empty values count as nothing; with ``begins`` only a text counts that begins
    with it.
    """

    places: tuple[Expression, ...]
    holds: bool = True
    begins: str = ""

    @property
    def is_of_content_type(self) -> bool:
        """Tell whether the content type alone decides."""
        return self.places == _CONTENT_TYPE

    def is_met(self, find: Callable[[Expression], Any]) -> bool:
        """Tell whether a message meets it; ``find`` gives a place's value."""
        for place in self.places:
            raw = find(place)
            if raw and (not self.begins or (type(raw) is str and raw.startswith(self.begins))):
                return self.holds
        return not self.holds


def needs_bodies(
    places: Iterable[Expression],
    conditions: Iterable[Condition],
    body_begins: str,
    *,
    same_body: bool,
) -> bool:
    """Tell whether these places and conditions, or comparing bodies, need a message's body."""
    places = (*places, *(place for condition in conditions for place in condition.places))
    return same_body or bool(body_begins) or any(place.source is Source.payload for place in places)


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """The rule by which one message names another, or a conversation.

    ``child`` are the places in the message that names, ``parent`` those in the one that is named:
    their values must be equal. A conversation has no parent: messages with the same values belong
    to it.

    Rules with the same ``space`` mean the same ids. ``take`` extracts the id of a value (`takes`).
    ``where`` and ``parent_where`` are conditions on the child and the parent; with ``same_body``
    their bodies must be equal. ``body_begins``: only bodies that begin so are read.

    ``sure``: a message with the value has a cause. False where everybody has the value and few have
    a cause, as a routing key that may or may not be somebody's ``reply_to``: then an unknown cause
    is none that is missing. ``alone``: several messages may have the same id, so it names a message
    only while no other has it. ``joint``: all messages that have it led there together.
    """

    name: str
    kind: LinkKind
    child: tuple[Expression, ...]
    parent: tuple[Expression, ...] = ()
    space: str = ""
    take: str | None = None
    where: tuple[Condition, ...] = ()
    parent_where: tuple[Condition, ...] = ()
    same_body: bool = False
    body_begins: str = ""
    sure: bool = True
    alone: bool = False
    joint: bool = False

    def __post_init__(self) -> None:
        """Check all that types do not; raises `RuleError`."""
        _check_texts(self)
        _check_paths(self)

    @property
    def shared_space(self) -> str:
        """The space that its keys are made in."""
        return self.space or self.name

    @property
    def looks_into_bodies(self) -> bool:
        """Tell whether it needs messages' bodies."""
        conditions = (*self.where, *self.parent_where)
        return needs_bodies(
            (*self.child, *self.parent), conditions, self.body_begins, same_body=self.same_body
        )

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Rule:
        """Read a rule as `to_json` writes it; one place may stand without a list around it.

        :raises RuleError: says which rule, which field and what is wrong with it.
        """
        if not isinstance(fields, Mapping):
            raise RuleError("a rule is an object with name, kind, child and parent")
        name = fields.get("name")
        if not isinstance(name, str) or not _NAME(name):
            raise RuleError(
                "a rule's name is of 1 to 64 letters, digits, '.', '_' and '-', "
                f"not {str(name)[:80]!r}"
            )
        unknown = set(fields) - {*_FIELDS}
        if unknown:
            raise _wrong(name, str(min(unknown, key=str))[:80], "there is no such field")
        absent = [field for field in ("kind", "child") if field not in fields]
        if absent:
            raise _wrong(name, absent[0], "is missing")
        return cls(**{field: _FIELDS[field](name, field, fields[field]) for field in fields})

    def to_json(self) -> dict[str, Any]:
        """The rule as JSON values, without defaults."""
        usual = {field.name: field.default for field in msgspec.structs.fields(self)}
        values = {field: getattr(self, field) for field in _FIELDS}
        return {field: _to_json(value) for field, value in values.items() if value != usual[field]}


def _wrong(name: str, field: str, reason: object) -> RuleError:
    return RuleError(f"rule {name!r}: {field}: {reason}")


def _check_texts(rule: Rule) -> None:
    if not _NAME(rule.name):
        raise RuleError(f"{rule.name[:80]!r} is no name of a rule")
    if rule.name == SPANS_RULE:
        raise _wrong(rule.name, "name", "is that of the links that spans tell of")
    if rule.name in WITHOUT_RULE:
        raise _wrong(rule.name, "name", "is that of something that the broker does")
    if rule.space and not _NAME(rule.space):
        raise _wrong(rule.name, "space", "letters, digits, '.', '_' and '-', 64 at most")
    if rule.take is not None and rule.take not in TAKES:
        names = ", ".join(sorted(TAKES))
        raise _wrong(rule.name, "take", f"{rule.take[:80]!r} is none of {names}")
    texts = [("body_begins", rule.body_begins)]
    texts += [("where", condition.begins) for condition in rule.where + rule.parent_where]
    for field, text in texts:
        if len(text) > LONGEST_TEXT:
            raise _wrong(rule.name, field, f"a text has at most {LONGEST_TEXT} characters")


def _check_paths(rule: Rule) -> None:
    for field, places in (("child", rule.child), ("parent", rule.parent)):
        if len(places) > MOST_PARTS:
            raise _wrong(rule.name, field, f"there are at most {MOST_PARTS} places")
        if places and not any(place.says_which for place in places):
            if field == "parent" and any(place.says_which for place in rule.child):
                continue
            raise _wrong(
                rule.name, field, f"{places[0]} says where or what kind, not which message"
            )
    if not rule.child:
        raise _wrong(rule.name, "child", "names no place")
    if rule.take is not None and (len(rule.child) > 1 or rule.same_body):
        raise _wrong(rule.name, "take", "is of one place alone")
    if rule.kind is LinkKind.conversation:
        if rule.parent or rule.parent_where or rule.same_body:
            raise _wrong(rule.name, "parent", "a conversation has none, and no same body")
    elif len(rule.parent) != len(rule.child):
        raise _wrong(
            rule.name, "parent", f"child has {len(rule.child)} places, parent {len(rule.parent)}"
        )
    elif rule.kind is not LinkKind.forward and (rule.child, rule.where) == (
        rule.parent,
        rule.parent_where,
    ):
        raise _wrong(rule.name, "parent", "is the child's place: every message would name itself")
    for field, conditions in (("where", rule.where), ("parent_where", rule.parent_where)):
        if len(conditions) > MOST_CONDITIONS:
            raise _wrong(rule.name, field, f"there are at most {MOST_CONDITIONS} conditions")
        if any(not 0 < len(condition.places) <= MOST_PLACES for condition in conditions):
            raise _wrong(rule.name, field, f"a condition has 1 to {MOST_PLACES} places")


def _kind(name: str, field: str, value: Any) -> LinkKind:
    if not isinstance(value, str) or value not in LinkKind.__members__:
        kinds = ", ".join(LinkKind.__members__)
        raise _wrong(name, field, f"{str(value)[:80]!r} is none of {kinds}")
    return LinkKind[value]


def _text(name: str, field: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(name, field, "is a text")
    return value


def _space(name: str, field: str, value: Any) -> str:
    if value == "":
        raise _wrong(name, field, "is a name, or is left out")
    return _text(name, field, value)


def _flag(name: str, field: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong(name, field, "is true or false")
    return value


def _paths(name: str, field: str, value: Any) -> tuple[Expression, ...]:
    texts = value if isinstance(value, list) else [value]
    if not texts:
        raise _wrong(name, field, "names no place")
    if len(texts) > MOST_PLACES:
        raise _wrong(name, field, f"there are at most {MOST_PLACES} places")
    try:
        return tuple(Expression.parse(_text(name, field, text)) for text in texts)
    except ExpressionError as error:
        raise _wrong(name, field, error) from error


def _conditions(name: str, field: str, value: Any) -> tuple[Condition, ...]:
    if not isinstance(value, list):
        raise _wrong(name, field, 'is a list of conditions such as {"has": "$message.header#/id"}')
    if len(value) > MOST_CONDITIONS:
        raise _wrong(name, field, f"there are at most {MOST_CONDITIONS} conditions")
    return tuple(_condition(name, field, condition) for condition in value)


def _condition(name: str, field: str, value: Any) -> Condition:
    tests = set(value) - {"begins"} if isinstance(value, dict) else set()
    if tests not in ({"has"}, {"lacks"}):
        raise _wrong(name, field, 'a condition has one of "has" and "lacks", and maybe "begins"')
    (test,) = tests
    begins = _text(name, field, value.get("begins", ""))
    return Condition(_paths(name, field, value[test]), test == "has", begins)


def _to_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_to_json(part) for part in value]
    if isinstance(value, LinkKind):
        return value.name
    if isinstance(value, Condition):
        begins = {"begins": value.begins} if value.begins else {}
        return {"has" if value.holds else "lacks": _to_json(value.places), **begins}
    return str(value) if isinstance(value, Expression) else value


# In the order in which they are written.
_FIELDS: dict[str, Callable[[str, str, Any], Any]] = {
    "name": _text,
    "kind": _kind,
    "child": _paths,
    "parent": _paths,
    "where": _conditions,
    "parent_where": _conditions,
    "space": _space,
    "take": _text,
    "body_begins": _text,
    "same_body": _flag,
    "sure": _flag,
    "alone": _flag,
    "joint": _flag,
}
