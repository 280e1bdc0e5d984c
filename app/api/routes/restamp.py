"""Restamping: other rules of who acts, for the events that are stored."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response

from app.api.described import answering, json_answer
from app.api.openapi import WITH_BODY, WRITING, answers
from app.api.routes.bodies import json_body, optional_body
from app.api.routes.queries import OfVhost
from app.api.routes.submitting import ACCEPTED, Prefer, submitted
from app.api.schemas.restamp import RestampRequest
from app.api.services import Parts
from app.api.signin.auth import Writer
from app.errors import NotFoundError
from app.jobs.restamps import check_not_archived, restamp_request
from app.stored.capture import RestampedTrace, RestampOutcome
from app.stored.jobs import Json
from app.traces.registry import checked_rules
from model.jobs import OfJob

router = APIRouter(tags=["traces"], prefix="/itc_db/restamp")


@router.put(
    "",
    **answering(
        (RestampedTrace, RestampOutcome, OfJob),
        {**WRITING, **WITH_BODY, **answers(500), **ACCEPTED},
    ),
    openapi_extra=optional_body(RestampRequest),
)
async def restamp_trace(
    user: Writer, parts: Parts, prefer: Prefer, vhost: OfVhost, request: Request
) -> Response:
    """Stamp a virtual host's stored events anew, as a job; without a body by the rules it has.

    Links are kept, unless the messages are to be read again.

    The trace goes on, and pauses while the new stamps take the place of the old, all at once.
    """
    wish = await json_body(request, RestampRequest) or RestampRequest()
    user.must_see(vhost, "trace")
    checked_rules(wish.participant, wish.quiet)
    trace = await parts.store.traces.find(vhost)
    if trace is None:
        raise NotFoundError("no such trace")
    await parts.traces.check_here(vhost)
    await asyncio.to_thread(check_not_archived, parts.archives, vhost)
    policy = wish.participant or trace.policy
    quiet = trace.quiet if wish.quiet is None else wish.quiet
    job = restamp_request(vhost, trace.id, policy, quiet, user.name, links=wish.links)
    return await submitted(job, prefer, parts, _answer)


async def _answer(result: Json) -> Response:
    return json_answer(result, 200)
