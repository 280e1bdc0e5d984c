"""Holds an answer to what OpenAPI says of it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import httpx2
import jsonschema

from app.api.described import components, schema_of


def conforms(answer: object, kind: Any) -> None:
    """Raise unless an answer has just the members of a described kind."""
    schema = schema_of(kind)
    described = {"components": {"schemas": components(schema)}}
    jsonschema.validate(answer, {**schema, **described, "unevaluatedProperties": False})


def described(answer: httpx2.Response, kind: Any) -> SimpleNamespace:
    """An answer's members as attributes; raise unless they are just those of a described kind."""
    conforms(answer.json(), kind)
    found: SimpleNamespace = json.loads(
        answer.text, object_hook=lambda members: SimpleNamespace(**members)
    )
    return found
