"""Holds an answer to what OpenAPI says of it."""

from __future__ import annotations

from typing import Any

import jsonschema

from app.api.described import components, schema_of


def conforms(answer: object, kind: Any) -> None:
    """Raise unless an answer has just the members of a described kind."""
    schema = schema_of(kind)
    described = {"components": {"schemas": components(schema)}}
    jsonschema.validate(answer, {**schema, **described, "unevaluatedProperties": False})
