"""The OpenAPI document, made true: our error shape, the two ways to sign in, no 422."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import FastAPI, Response
from fastapi.openapi.utils import get_openapi

from app.api.described import answer_of, components


class ErrorAnswer(msgspec.Struct, frozen=True):
    """An error."""

    error: Annotated[str, "A word for programs."]
    reason: Annotated[str, "A sentence for people."]


_DESCRIPTIONS = {
    400: "An invalid name, id or combination of parameters.",
    401: "No credentials, wrong ones, or too few rights.",
    403: "A browser sends this on behalf of another origin's page.",
    404: "No such thing, or not visible to this user.",
    408: "The request's body takes too long to arrive.",
    409: "A valid request, but not now.",
    412: "The request's conditions do not hold for the file as it is.",
    413: "The request's body is too large.",
    415: "A content type or compression that is not supported here.",
    416: "The range starts after the file's end.",
    429: "Slow down.",
    500: "The job failed; the reason is the job's own.",
    501: "Jobs need packages that are not installed; the reason says which.",
    503: "The broker, its management API or the database is unavailable.",
    507: "Exports have reached their size limit: delete some.",
}


def _header(description: str) -> dict[str, Any]:
    return {"description": description, "schema": {"type": "string"}}


# By status, for answers that may carry one.
_HEADERS = {
    401: {
        "www-authenticate": _header("`Basic`, or `Bearer` for a script; not with too few rights.")
    },
    429: {"retry-after": _header("Seconds, after failed sign-ins.")},
}

# The header with the address of a result, for a route's ``responses``.
LOCATION = {"location": _header("Where it is.")}
CERTAINTY = {
    "itc-certainty": _header(
        "Of a plain array, as a dictionary of RFC 9651: what a page has as `complete`, `sound` and "
        "the `since` and `until` of its `period`; `after` answers without it."
    )
}

_OPEN_PATHS = ("/health/", "/openapi.json", "/itc_db/sign-in")


def answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {
        status: answer_of(
            ErrorAnswer, description=_DESCRIPTIONS[status], headers=_HEADERS.get(status, {})
        )
        for status in statuses
    }


READING = answers(400, 401, 429, 503)
READING_ONE = answers(400, 401, 404, 429, 503)
WRITING = answers(400, 401, 403, 404, 409, 429, 503)
WITH_BODY = answers(408, 413)


def json_body_of(schema: dict[str, Any], *, required: bool = True) -> dict[str, Any]:
    """A route's ``openapi_extra`` that describes its body."""
    content = {"application/json": {"schema": schema}}
    return {"requestBody": {"required": required, "content": content}}


def put_route(new: str, old: str, body: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a route that sets one thing: the sentences for 201 and 204, and its body."""
    outcomes = {201: {"description": new}, 204: {"description": old}}
    return {
        "status_code": 201,
        "response_class": Response,
        "responses": {**WRITING, **WITH_BODY, **outcomes},
        "openapi_extra": body,
    }


def put(is_new: bool) -> Response:
    return Response(status_code=201 if is_new else 204)


def install(app: FastAPI) -> None:
    """Let ``/openapi.json`` give the document of this module."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]  # FastAPI's own way to replace it


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title="rabbitmq-itc",
        version="1",
        summary="Did this message cause that one, and through which events?",
        description="Names in a path are percent-encoded: the virtual host `/` is `%2F`.",
        routes=app.routes,
    )
    for path, operations in document["paths"].items():
        for operation in operations.values():
            _correct_answers(operation["responses"])
            if path.startswith(_OPEN_PATHS):
                operation["security"] = []
    document["components"]["schemas"] = components(document)  # the framework's say nothing
    document["components"]["securitySchemes"] = {
        "basic": {"type": "http", "scheme": "basic", "description": "A user of the broker."},
        "bearer": {"type": "http", "scheme": "bearer", "description": "A token of the broker's."},
    }
    document["security"] = [{"basic": []}, {"bearer": []}]
    return document


def _correct_answers(answers: dict[str, Any]) -> None:
    answers.pop("422", None)  # such input is answered with 400
    for answer in answers.values():
        if answer["description"] == "Successful Response":  # without a body
            answer["description"] = "Done."
        for content in answer.get("content", {}).values():
            if "itemSchema" in content:
                content.pop("schema", None)  # the framework's guess for a stream


def example(value: object) -> dict[str, Any]:
    return {"default": {"value": value}}


def link(operation: str, **parameters: str) -> dict[str, Any]:
    """A link from an answer to another operation, with parameters taken from the answer."""
    return {operation: {"operationId": operation, "parameters": parameters}}
