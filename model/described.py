"""Members of answers, described once: what they mean, and their JSON.

An answer is a dataclass, a struct or a named tuple; the first paragraph of its docstring describes
it. It shows its fields and its public properties. A field's meaning stands beside its type,
``Annotated[int, "Its publish."]``, a property's in its docstring. The type decides the form:
`Microseconds` as ISO 8601, `Duration` in seconds, an enum's member by its name. Fields for the
program alone are ``Annotated[…, INNER]``. A dataclass's field has another name in JSON by the
``shown_as`` of its metadata. A typed dictionary describes what is JSON already.

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
    is_typeddict,
)

from model.times import Duration, Microseconds, iso_time

Convert: TypeAlias = Callable[[Any], Any]

INNER = object()
"""Marks a field that no answer shows."""

LISTS = (list, tuple, Sequence)
TABLES = (dict, Mapping)
UNIONS = (Union, UnionType)

# value / 1e6, as a method of C's: a conversation takes some thousands of calls.
_seconds: Convert = (1e6).__rtruediv__
_CONVERTED: dict[Any, Convert] = {Microseconds: iso_time, Duration: _seconds}


class Member(NamedTuple):
    """A member of an answer: its name here and in JSON, and its type with what it means."""

    name: str
    shown_as: str
    type: Any


def is_described(kind: Any) -> bool:
    """Tell whether a class is a struct, a dataclass or a named tuple."""
    return isinstance(kind, type) and (
        hasattr(kind, "__struct_fields__")
        or dataclasses.is_dataclass(kind)
        or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
    )


@cache
def members(kind: Any) -> tuple[Member, ...]:
    """The members of a described class: its fields, then its properties."""
    if is_typeddict(kind):
        hints = get_type_hints(kind, include_extras=True)
        return tuple(Member(name, name, hint) for name, hint in hints.items())
    return (*_fields(kind), *_properties(kind))


def _fields(kind: type) -> Iterator[Member]:
    hints = get_type_hints(kind, include_extras=True)
    if dataclasses.is_dataclass(kind):
        names = [
            (field.name, field.metadata.get("shown_as", field.name))
            for field in dataclasses.fields(kind)
        ]
    elif issubclass(kind, tuple):
        names = [(name, name) for name in kind._fields]  # type: ignore[attr-defined]
    else:  # a struct of msgspec's
        names = [*zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)]  # type: ignore[attr-defined]
    for name, shown_as in names:
        if INNER not in get_args(hints[name]):
            yield Member(name, shown_as, hints[name])


def _properties(kind: type) -> Iterator[Member]:
    for name, attribute in inspect.getmembers_static(
        kind, lambda member: isinstance(member, property)
    ):
        if not name.startswith("_"):
            hint = get_type_hints(attribute.fget, include_extras=True)["return"]
            yield Member(name, name, Annotated[hint, paragraph(attribute)])


def paragraph(documented: object) -> str:
    """The first paragraph of a docstring, in one line."""
    return " ".join((inspect.getdoc(documented) or "").partition("\n\n")[0].split())


def json_of(value: Any) -> Any:
    """A described value, or a list of them, as JSON; other values as they are."""
    if isinstance(value, list):
        return [json_of(element) for element in value]
    return _json_of(value) if is_described(type(value)) else value


def json_as(kind: type, value: Any) -> dict[str, Any]:
    """A described value as one of its base classes shows it."""
    return _json_of(value, kind)


def _json_of(value: Any, kind: Any = None) -> dict[str, Any]:
    # By a loop: comprehensions would be frames, and a described type may lie deep.
    names, take, converted = _steps(kind or value.__class__)
    answer = dict(zip(names, take(value), strict=False))  # they are as many
    for name, convert in converted:
        if answer[name] is not None:
            answer[name] = convert(answer[name])
    return answer


@cache
def _steps(
    kind: Any,
) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]], tuple[tuple[str, Convert], ...]]:
    """The members' names, a getter of their values, and the converters of those that need one."""
    shows = members(kind)
    names = tuple(member.name for member in shows)
    take = attrgetter(*names)
    converters = ((member.shown_as, _converter(_without_none(member.type))) for member in shows)
    return (
        tuple(member.shown_as for member in shows),
        take if len(names) > 1 else lambda value: (take(value),),
        tuple((name, convert) for name, convert in converters if convert is not None),
    )


def _without_none(kind: Any) -> Any:
    if get_origin(kind) is Annotated:
        return _without_none(get_args(kind)[0])
    if get_origin(kind) in UNIONS and NoneType in get_args(kind):
        return Union[tuple(option for option in get_args(kind) if option is not NoneType)]  # noqa: UP007  not of two alone
    return kind


@cache
def _converter(kind: Any) -> Convert | None:
    """The function that makes JSON of a value of a type; None where it is JSON already."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _converter(inner[0])
    if origin in UNIONS:
        return _of_union([option for option in inner if option is not NoneType])
    if origin in (*LISTS, *TABLES):
        convert = _converter(inner[-1] if inner[-1] is not ... else inner[0])
        if convert is None:
            return None
        if origin in LISTS:
            return lambda value: [*map(convert, value)]
        return lambda value: {name: convert(element) for name, element in value.items()}
    if kind in _CONVERTED:
        return _CONVERTED[kind]
    if is_described(kind):
        return _json_of
    if isinstance(kind, type) and issubclass(kind, Enum):
        return attrgetter("_name_")  # `name` is a function of Python's
    return None


def _of_union(kinds: Sequence[Any]) -> Convert | None:
    converters = {_converter(option) for option in kinds}
    if converters == {None}:
        return None
    [convert] = filter(None, converters)  # several are not told apart
    return lambda value: None if value is None else convert(value)
