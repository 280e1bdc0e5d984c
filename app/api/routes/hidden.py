"""Hidden ways: where causes came to their publishers by no way through the broker."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.api.described import answering, json_answer
from app.api.openapi import READING_ONE
from app.api.routes.queries import OfVhost
from app.api.routes.traces import Limit, trace_id_of
from app.api.services import Parts
from app.api.signin.auth import Reader
from app.stored.causality import HiddenLink, HiddenWays

router = APIRouter(tags=["traces"], prefix="/itc_db/hidden")


@router.get("", **answering(list[HiddenLink], READING_ONE))
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
    return json_answer(await parts.store.hidden.newest(trace_id, before=before, limit=limit))


@router.get("/ways", **answering(HiddenWays, READING_ONE))
async def list_hidden_ways(user: Reader, parts: Parts, vhost: OfVhost) -> Response:
    """The same by rule and participants: an outbox, an HTTP call, a shared database is one way."""
    trace_id = await trace_id_of(vhost, user, parts)
    return json_answer(await parts.store.hidden.ways(trace_id, vhost))
