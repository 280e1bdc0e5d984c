"""Rules of redaction: list, set, remove."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Path, Request, Response
from pydantic import ConfigDict, Field

from app.api.described import json_answer, returns
from app.api.openapi import READING_ONE, WRITING, example, put, put_route
from app.api.parameters import KnownFields, Name
from app.api.routes.bodies import body_of, named_rule
from app.api.routes.queries import OfVhost
from app.api.routes.traces import Vhost, trace_id_of
from app.api.services import Parts
from app.api.signin.auth import Reader, Writer
from app.tracker.redaction import MOST_PLACES, Keep, Redaction

router = APIRouter(tags=["traces"], prefix="/itc_db/redactions")

ONE_RULE = "/{vhost}/{name}"
PlaceText = Annotated[
    str, Field(pattern=r"^\$message\.(header|payload|property)#/[^/\u0000].*", max_length=512)
]
RedactionName = Annotated[
    Name, Path(description="A rule's name.", openapi_examples=example("card"))
]


class RedactionRequest(KnownFields):
    """A rule: the places in messages whose values are replaced, and what is kept of them."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"places": ["$message.payload#/card"], "keep": "nothing"}],
        }
    )

    places: Annotated[list[PlaceText], Field(min_length=1, max_length=MOST_PLACES)] | PlaceText
    keep: Keep = "digest"


class ListedRedaction(msgspec.Struct, frozen=True):
    """A rule of redaction of a virtual host."""

    name: str
    places: Annotated[list[str], "The places in messages whose values are replaced."]
    keep: Annotated[Keep, "What is kept of a value: a keyed `digest`, or `nothing`."]


@router.get("", **returns(list[ListedRedaction], READING_ONE))
async def list_redactions(user: Reader, parts: Parts, vhost: OfVhost) -> Response:
    """List a virtual host's rules of redaction, in order."""
    trace_id = await trace_id_of(vhost, user, parts)
    rules = (await parts.store.redactions.of_trace(trace_id)).rules
    return json_answer([ListedRedaction(**rule.to_json()) for rule in rules])


@router.put(
    ONE_RULE,
    **put_route("It is new.", "It takes the place of its namesake.", body_of(RedactionRequest)),
)
async def set_redaction(
    vhost: Vhost, name: RedactionName, user: Writer, parts: Parts, request: Request
) -> Response:
    """Set a rule of redaction, for all that is stored some seconds from now on."""
    trace_id = await trace_id_of(vhost, user, parts)
    reason = "the body is a rule: an object with places, and perhaps keep"
    rule = await named_rule(request, name, Redaction.from_json, reason)
    has_key = parts.settings.redaction_key is not None
    return put(await parts.store.redactions.put(trace_id, rule, has_key=has_key))


@router.delete(ONE_RULE, status_code=204, responses=WRITING)
async def remove_redaction(vhost: Vhost, name: RedactionName, user: Writer, parts: Parts) -> None:
    """Remove a rule of redaction. What was stored by it stays as it is."""
    trace_id = await trace_id_of(vhost, user, parts)
    await parts.store.redactions.remove(trace_id, name)
