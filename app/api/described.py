"""Answers, described once: from a struct come the JSON, the OpenAPI schema and the documents.

An answer is a struct (msgspec's, or a dataclass) whose docstring says what it is. What a field
means stands beside its type, where the name does not say it: ``Annotated[int, "Its publish."]``. A
text that is one of an enum's names says so: ``Annotated[str, LinkKind]``.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from starlette.responses import Response

from model.times import Duration, Time, iso_time

Schema: TypeAlias = dict[str, Any]

REFERENCE = "#/components/schemas/"

_PLAIN: dict[Any, Schema] = {
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    Time: {"type": "string", "format": "date-time"},
    Duration: {"type": "number"},
    Any: {},
}

_described: dict[str, type] = {}


class Member(NamedTuple):
    """A field of an answer: as JSON calls it, its type, what it means, and whether it may lack."""

    name: str
    type: Any
    meaning: str
    required: bool


def shown(value: object) -> object:
    """A time or a duration as JSON has it, for what encodes an answer."""
    if isinstance(value, Time):
        return iso_time(value)
    if isinstance(value, Duration):
        return value / 1_000_000
    raise TypeError(f"an answer holds a {type(value).__name__}")


encode_json = msgspec.json.Encoder(decimal_format="number", enc_hook=shown).encode


def json_answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON answer, encoded without a model."""
    return Response(encode_json(value), status, headers, media_type="application/json")


def merged(answer: msgspec.Struct, more: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an answer, and more beside them."""
    names = msgspec.structs.fields(answer)
    return {each.encode_name: getattr(answer, each.name) for each in names} | {**more}


def answering(
    kind: Any, errors: Mapping[int | str, Any], *, status: int = 200, **more: Any
) -> dict[str, Any]:
    """A route's arguments: the kind of its answer, and its errors.

    ``more`` goes into what OpenAPI says of the answer, as its ``headers``.
    """
    schema = schema_of(kind)
    described = describe(kind)
    answer = {
        "description": described,
        "content": {"application/json": {"schema": schema}},
        **more,
    }
    return {"response_model": None, "responses": {status: answer, **errors}}


def describe(kind: Any) -> str:
    """Say in a sentence what an answer is, or each of a list."""
    if get_origin(kind) in (list, Sequence):
        return f"Each: {describe(get_args(kind)[0])}"
    if get_origin(kind) in (Union, UnionType):
        return describe(get_args(kind)[0])
    return " ".join((inspect.getdoc(kind) or "").partition("\n\n")[0].split())


def components() -> dict[str, Schema]:
    """The schemas of all answers that routes give, by name."""
    found: dict[str, Schema] = {}
    while new := _described.keys() - found.keys():
        for name in new:
            found[name] = _object(_described[name])
    return dict(sorted(found.items()))


@cache
def members(kind: type) -> tuple[Member, ...]:
    """The fields of a described kind, in their order."""
    return tuple(_members(kind))


def _members(kind: type) -> Iterator[Member]:
    hints = get_type_hints(kind, include_extras=True)
    for name, encoded, required in _names(kind):
        hint = hints[name]
        said = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        meaning = " ".join(each for each in said if isinstance(each, str))
        yield Member(encoded, hint, meaning, required)


def _names(kind: type) -> Iterator[tuple[str, str, bool]]:
    """Each field: its name here, its name in JSON, whether it is always there."""
    if dataclasses.is_dataclass(kind):
        yield from ((each.name, each.name, True) for each in dataclasses.fields(kind))
        return
    for each in msgspec.structs.fields(kind):
        yield each.name, each.encode_name, each.default is not msgspec.UNSET


def _object(kind: type) -> Schema:
    properties: dict[str, Schema] = {}
    required: list[str] = []
    for member in members(kind):
        properties[member.name] = schema_of(member.type)
        required += [member.name] if member.required else []
    schema: Schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return schema | {"title": kind.__name__, "description": describe(kind)}


def schema_of(kind: Any) -> Schema:
    """The JSON schema of a type; a struct's is a reference to its component."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _annotated(*inner)
    if origin in (Union, UnionType):
        return {"anyOf": [schema_of(each) for each in inner if each is not msgspec.UnsetType]}
    if origin is Literal:
        return {"type": "string", "enum": [*inner]} if len(inner) > 1 else _constant(inner[0])
    if origin in (list, tuple, Sequence):
        return {"type": "array", "items": schema_of(inner[0])}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": schema_of(inner[1])}
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    if issubclass(kind, Enum):
        return {"type": "string", "enum": [*kind.__members__]}
    other = _described.setdefault(kind.__name__, kind)
    if other is not kind:
        raise TypeError(f"two answers are called {kind.__name__}: {kind}, {other}")
    return {"$ref": REFERENCE + kind.__name__}


def _annotated(kind: Any, *said: Any) -> Schema:
    schema = schema_of(kind)
    for each in said:
        if isinstance(each, str):
            schema["description"] = each
        elif isinstance(each, type) and issubclass(each, Enum):
            schema["enum"] = [*each.__members__]
    return schema


def _constant(value: str) -> Schema:
    return {"type": "string", "const": value}
