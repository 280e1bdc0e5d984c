"""What an answer shows, described once: its members, what they mean, and its JSON.

An answer is an instance of a class, a dataclass or a struct, whose docstring says in its first
paragraph what it is. It shows its fields and its public properties. What a field means stands
beside its type, ``Annotated[int, "Its publish."]``; a property's docstring says it. The type says
how it is shown: `Microseconds` as ISO 8601, `Duration` in seconds, an enum's member by its name.
What a class keeps for the program alone is ``Annotated[…, INNER]``. A dataclass's field that is
shown by another name says so in its metadata, as ``shown_as``.

`app.api.described` makes schemas of the same.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    NamedTuple,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from model.times import Duration, Microseconds, iso_time

Convert: TypeAlias = Callable[[Any], Any]

INNER = object()
"""Marks a field that no answer shows."""

LISTS = (list, tuple, Sequence)
TABLES = (dict, Mapping)
UNIONS = (Union, UnionType)

_CONVERTED: dict[Any, Convert] = {Microseconds: iso_time, Duration: lambda value: value / 1e6}


class Member(NamedTuple):
    """What an answer shows: its name here and in JSON, and its type with what it means."""

    name: str
    shown_as: str
    type: Any


def is_described(kind: Any) -> bool:
    """Whether a class is a struct or a dataclass."""
    return isinstance(kind, type) and (
        hasattr(kind, "__struct_fields__") or dataclasses.is_dataclass(kind)
    )


@cache
def members(kind: Any) -> tuple[Member, ...]:
    """What a described class shows: its fields, then its properties."""
    return (*_fields(kind), *_properties(kind))


def _fields(kind: type) -> Iterator[Member]:
    hints = get_type_hints(kind, include_extras=True)
    if dataclasses.is_dataclass(kind):
        names = [
            (each.name, each.metadata.get("shown_as", each.name))
            for each in dataclasses.fields(kind)
        ]
    else:  # a struct of msgspec's
        names = [*zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)]  # type: ignore[attr-defined]
    for name, shown_as in names:
        if INNER not in get_args(hints[name]):
            yield Member(name, shown_as, hints[name])


def _properties(kind: type) -> Iterator[Member]:
    for name, attribute in inspect.getmembers_static(kind, lambda it: isinstance(it, property)):
        if not name.startswith("_"):
            hint = get_type_hints(attribute.fget, include_extras=True)["return"]
            yield Member(name, name, Annotated[hint, paragraph(attribute)])


def paragraph(documented: object) -> str:
    """The first paragraph of a docstring, in one line."""
    return " ".join((inspect.getdoc(documented) or "").partition("\n\n")[0].split())


def shown(value: Any) -> Any:
    """A described value as JSON has it; other values, and those within lists, as they are."""
    if isinstance(value, list):
        return [shown(each) for each in value]
    return _shown(value) if is_described(type(value)) else value


def shown_as(kind: type, value: Any) -> dict[str, Any]:
    """A described value as one of its base classes shows it: without the members of its own."""
    return _shown(value, kind)


def _shown(value: Any, kind: Any = None) -> dict[str, Any]:
    # By a loop: comprehensions would be frames, and what is described may lie deep.
    found = {}
    for name, take, convert in _steps(kind or value.__class__):
        found[name] = take(value) if convert is None else convert(take(value))
    return found


@cache
def _steps(kind: Any) -> tuple[tuple[str, Callable[[Any], Any], Convert | None], ...]:
    """How each member is taken and converted."""
    return tuple(
        (each.shown_as, attrgetter(each.name), _converter(each.type)) for each in members(kind)
    )


@cache
def _converter(kind: Any) -> Convert | None:
    """How a value of a type becomes JSON; None where it is JSON."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _converter(inner[0])
    if origin in UNIONS:
        return _of_union([each for each in inner if each is not NoneType])
    if origin in (*LISTS, *TABLES):
        convert = _converter(inner[-1] if inner[-1] is not ... else inner[0])
        if convert is None:
            return None
        if origin in LISTS:
            return lambda value: [*map(convert, value)]
        return lambda value: {name: convert(each) for name, each in value.items()}
    if kind in _CONVERTED:
        return _CONVERTED[kind]
    if is_described(kind):
        return _shown
    if isinstance(kind, type) and issubclass(kind, Enum):
        return attrgetter("name")
    return None


def _of_union(kinds: Sequence[Any]) -> Convert | None:
    """How a value of one of several types, or None, becomes JSON."""
    converters = {_converter(each) for each in kinds}
    if converters == {None}:
        return None
    [convert] = filter(None, converters)  # several are not told apart
    return lambda value: None if value is None else convert(value)
