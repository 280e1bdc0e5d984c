"""Hidden ways: where causes came to their publishers by no way through the broker."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.api.openapi import READING_ONE
from app.api.routes.queries import OfVhost
from app.api.routes.traces import Limit, trace_id_of
from app.api.schemas.hidden import HiddenLink, HiddenWays
from app.api.services import Parts
from app.api.signin.auth import Reader
from app.api.views import hidden_link_view, hidden_way_view, json_answer

router = APIRouter(tags=["traces"], prefix="/itc_db/hidden")


@router.get("", response_model=list[HiddenLink], responses=READING_ONE)
async def list_hidden_links(
    user: Reader,
    parts: Parts,
    vhost: OfVhost,
    before: Annotated[
        int | None, Query(ge=1, le=2**63 - 1, description="Only of publishes before this event.")
    ] = None,
    limit: Limit = 100,
) -> Response:
    """Publishes that name a cause which came to them by no way through the broker, newest first.

    `limit` counts the publishes; one that names several causes has several links.
    """
    trace_id = await trace_id_of(vhost, user, parts)
    found = await parts.store.hidden.newest(trace_id, before=before, limit=limit)
    return json_answer([hidden_link_view(link) for link in found])


@router.get("/ways", response_model=HiddenWays, responses=READING_ONE)
async def list_hidden_ways(user: Reader, parts: Parts, vhost: OfVhost) -> Response:
    """The same by rule and participants: an outbox, an HTTP call, a shared database is one way."""
    found = await parts.store.hidden.ways(await trace_id_of(vhost, user, parts))
    return json_answer(
        {
            "vhost": vhost,
            "links": found.links,
            "truncated": found.truncated,
            "ways": [hidden_way_view(way) for way in found.ways],
        }
    )
