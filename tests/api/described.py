"""Holds an answer to what OpenAPI says of it."""

from __future__ import annotations

from typing import Any

import jsonschema

from app.api.described import components, schema_of


def conforms(answer: object, kind: Any) -> None:
    """Raise unless an answer is of a described kind, with each field and no other."""
    schema = schema_of(kind)
    closed = {
        name: each | {"additionalProperties": each.get("additionalProperties", False)}
        for name, each in components().items()
    }
    jsonschema.validate(answer, schema | {"components": {"schemas": closed}})
