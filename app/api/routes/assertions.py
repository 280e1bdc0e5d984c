"""Assertions of a virtual host: look, set, remove; and what did not hold."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field

from app.api.certainty import ListCertainty, certainty_of_list
from app.api.described import json_answer, returns
from app.api.openapi import READING_ONE, WITH_BODY, WRITING, example, json_body_of
from app.api.parameters import KnownFields, Name, Text, Word
from app.api.routes.queries import Moment, filter_of
from app.api.routes.traces import Vhost, trace_id_of
from app.api.services import Parts
from app.api.signin.auth import Reader, Writer
from app.assertion_files import read
from app.errors import BadRequestError
from app.stored.assertions import (
    HeldAssertion,
    ViolationFilter,
    ViolationKind,
    ViolationPage,
)
from model.assertions.assertion import Assertion, InvalidAssertionError
from model.assertions.language import to_json
from model.described import json_of

router = APIRouter(tags=["assertions"])

PATH = "/itc_db/assertions"
OF_VHOST = f"{PATH}/{{vhost}}"
ONE_ASSERTION = f"{PATH}/{{vhost}}/{{name}}"

AssertionName = Annotated[
    Name, Path(description="An assertion's name.", openapi_examples=example("invoice-in-time"))
]


class ViolationsQuery(KnownFields):
    """The violations to list, and how many."""

    vhost: Text | None = Field(None, description="Of this virtual host.")
    assertion: Text | None = Field(None, description="Of the assertion of this name.")
    kind: Word[ViolationKind] | None = Field(None, description="Of this kind.")
    since: Moment | None = Field(None, description="Found at this time or later.")
    until: Moment | None = Field(None, description="Found before this time.")
    limit: Annotated[int, Field(ge=1, le=1_000)] = Field(100, description="Most in `items`.")
    before: Annotated[int, Field(ge=1, le=2**63 - 1)] | None = Field(
        None, description="Only those before this id: the `next` of the answer before."
    )


@router.get("/itc_db/violations", **returns((ViolationPage, ListCertainty), READING_ONE))
async def list_violations(
    query: Annotated[ViolationsQuery, Query()], user: Reader, parts: Parts
) -> Response:
    """List violations of assertions, newest first."""
    criteria = filter_of(ViolationFilter, query, vhosts=user.vhosts_to_list(query.vhost))
    violations = await parts.store.violations.list(
        criteria, before_id=query.before, limit=query.limit + 1
    )
    items = [
        violation if user.content.cover(violation.vhost) else violation.without_content()
        for violation in violations[: query.limit]
    ]
    page = ViolationPage(items, len(violations) > query.limit)
    certainty = await certainty_of_list(criteria, parts)
    return json_answer(json_of(page) | json_of(certainty))


@router.get(PATH, **returns(list[HeldAssertion], READING_ONE))
async def list_assertions(
    user: Reader,
    parts: Parts,
    vhost: Annotated[Text | None, Query(description="Of this virtual host.")] = None,
) -> Response:
    """List assertions, by virtual host and in the order of the file, with their results."""
    return json_answer([*await parts.store.assertions.list(user.vhosts_to_list(vhost))])


_EXAMPLE = {"every": "order.new", "leads_to": "invoice", "within": "30s"}
# A file may be YAML as well, which has no schema here; errors name the line.
FILE = json_body_of(
    {
        "type": "object",
        "properties": {"assertions": {"type": "array", "items": {"type": "object"}, "minItems": 1}},
        "required": ["assertions"],
        "additionalProperties": False,
        "examples": [{"assertions": [{"name": "invoice-in-time", **_EXAMPLE}]}],
    }
)


@router.put(OF_VHOST, status_code=204, responses={**WRITING, **WITH_BODY}, openapi_extra=FILE)
async def set_assertions(vhost: Vhost, user: Writer, parts: Parts, request: Request) -> None:
    """Watch a virtual host by these assertions, and by no others."""
    trace_id = await trace_id_of(vhost, user, parts)
    assertions = await assertions_in(await request.body())
    texts = {
        assertion.name: msgspec.json.encode(to_json(assertion)).decode() for assertion in assertions
    }
    await parts.store.assertions.set(trace_id, texts, user.name)


@router.delete(ONE_ASSERTION, status_code=204, responses=WRITING)
async def remove_assertion(vhost: Vhost, name: AssertionName, user: Writer, parts: Parts) -> None:
    """Remove one assertion; its violations stay."""
    trace_id = await trace_id_of(vhost, user, parts)
    await parts.store.assertions.remove(trace_id, name)


async def assertions_in(body: bytes) -> list[Assertion]:
    """The assertions of a file, in their order; raises `BadRequestError`."""
    try:
        return await read(body)
    except InvalidAssertionError as error:
        raise BadRequestError(str(error)) from None
