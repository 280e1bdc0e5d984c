"""Answers over HTTP: their JSON, and what OpenAPI says of them, from `model.described`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from types import NoneType
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin

import msgspec
from starlette.responses import Response

from model.described import LISTS, TABLES, UNIONS, json_of, members, paragraph
from model.times import Duration, IsoTime, Microseconds

Schema: TypeAlias = dict[str, Any]

REFERENCE = "#/components/schemas/"
_REFERRED = re.compile(re.escape(REFERENCE) + r"(\w+)")

_PLAIN: dict[Any, Schema] = {
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    Microseconds: {"type": "string", "format": "date-time"},
    Duration: {"type": "number"},
    IsoTime: {"type": "string", "format": "date-time"},
    Any: {},
}

_described: dict[str, type] = {}

encode_json = msgspec.json.Encoder(decimal_format="number").encode


def json_answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON answer, encoded without a model; ``value`` is described, or JSON already."""
    return Response(encode_json(json_of(value)), status, headers, media_type="application/json")


def returns(
    kind: Any, errors: Mapping[int | str, Any], *, status: int = 200, **parts: Any
) -> dict[str, Any]:
    """A route's arguments for its answer and its errors.

    A tuple of kinds is an answer with the members of each, a list is one of several kinds.
    ``parts`` is as for `answer_of`.
    """
    answers = {status: answer_of(kind, **parts), **errors}
    return {"response_model": None, "status_code": status, "responses": answers}


def answer_of(kind: Any, **parts: Any) -> dict[str, Any]:
    """The description of an answer for OpenAPI; ``parts`` goes into it, as its ``headers``."""
    content = {"application/json": {"schema": schema_of(kind)}}
    return {"description": describe(kind), "content": content, **parts}


def describe(kind: Any) -> str:
    if isinstance(kind, tuple | list):
        return describe(kind[0])
    if get_origin(kind) in LISTS:
        return f"Each: {describe(get_args(kind)[0])}"
    if get_origin(kind) in UNIONS:
        return describe(get_args(kind)[0])
    return paragraph(kind)


def components(document: Any) -> dict[str, Schema]:
    schemas: dict[str, Schema] = {}
    queue = [document]
    while queue:
        names = {*_REFERRED.findall(str(queue.pop()))} & _described.keys() - schemas.keys()
        schemas |= {name: _object(_described[name]) for name in names}
        queue += [schemas[name] for name in names]
    return dict(sorted(schemas.items()))


def _object(kind: type) -> Schema:
    properties = {member.shown_as: schema_of(member.type) for member in members(kind)}
    optional = getattr(kind, "__optional_keys__", ())
    return {
        "type": "object",
        "title": kind.__name__,
        "description": paragraph(kind),
        "properties": properties,
        "required": [name for name in properties if name not in optional],
    }


def schema_of(kind: Any) -> Schema:
    """The JSON schema of a type; a described class has a reference to its component."""
    if isinstance(kind, list):
        return {"anyOf": [schema_of(choice) for choice in kind]}
    if isinstance(kind, tuple):
        return {"allOf": [schema_of(choice) for choice in kind]}
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _with_description(*inner)
    if origin in UNIONS:
        return {"anyOf": [schema_of(choice) for choice in inner]}
    if origin is Literal:
        return {"type": "string", **({"enum": [*inner]} if inner[1:] else {"const": inner[0]})}
    if origin in LISTS:
        return {"type": "array", "items": schema_of(inner[0])}
    if origin in TABLES:
        return {"type": "object", "additionalProperties": schema_of(inner[1])}
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    if issubclass(kind, Enum):
        return {"type": "string", "enum": [*kind.__members__]}
    namesake = _described.setdefault(kind.__name__, kind)
    if namesake is not kind:
        raise TypeError(f"two answers are called {kind.__name__}: {kind}, {namesake}")
    return {"$ref": REFERENCE + kind.__name__}


def _with_description(kind: Any, *notes: Any) -> Schema:
    schema = schema_of(kind)
    description = " ".join(note for note in notes if isinstance(note, str))
    return schema | {"description": description} if description else schema
