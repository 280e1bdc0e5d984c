"""Request bodies: JSON, whatever the client calls it."""

from __future__ import annotations

from typing import Any, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

M = TypeVar("M", bound=BaseModel)


async def json_body(request: Request, model: type[M]) -> M | None:
    """The body as ``model``, None if it is empty.

    The content type is ignored, as in the management API: ``curl -d`` names a wrong one.
    """
    body = await request.body()
    if not body.strip():
        return None
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        raise RequestValidationError(
            [{**fault, "loc": ("body", *fault["loc"])} for fault in faults]
        ) from None


def body_of(model: type[BaseModel], *, required: bool = True) -> dict[str, Any]:
    content = {"application/json": {"schema": model.model_json_schema()}}
    return {"requestBody": {"required": required, "content": content}}
