"""Was it ever here? The whereabouts of a message, by an id, a key or a text."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import Field

from app.api.described import json_answer, returns
from app.api.openapi import READING_ONE, example
from app.api.parameters import LONGEST_TEXT, WITHOUT_NUL, KnownFields, Text
from app.api.routes.queries import Moment
from app.api.services import Parts
from app.api.signin.auth import Reader
from app.api.whereabouts import By, Search, Whereabouts, locate
from app.errors import BadRequestError
from model.described import json_of
from model.sound import Certainty

router = APIRouter(tags=["events"], prefix="/itc_db/where")


class WhereQuery(KnownFields):
    """An id of a message, and where to look for it."""

    id: str = Query(
        min_length=1,
        max_length=LONGEST_TEXT,
        pattern=WITHOUT_NUL,
        description="A message id, a correlation id, a conversation's key, or a text in a message.",
        openapi_examples=example("order-7"),
    )
    by: By | None = Field(
        None, description="As this alone; by default the first of them that a message has."
    )
    vhost: Text | None = Field(None, description="In this virtual host.")
    since: Moment | None = Field(None, description="Of messages recorded at this time or later.")
    until: Moment | None = Field(None, description="Of messages recorded before this time.")


@router.get("", **returns((Whereabouts, Certainty), READING_ONE))
async def get_whereabouts(
    query: Annotated[WhereQuery, Query()], user: Reader, parts: Parts
) -> Response:
    """Was a message ever here, and where is it now: one word, and a sentence."""
    if query.since is not None and query.until is not None and query.since > query.until:
        raise BadRequestError("since is after until")
    search = Search(query.id, query.by, query.vhost, query.since, query.until)
    answer, certainty = await locate(search, user, parts)
    return json_answer(json_of(answer) | json_of(certainty))
