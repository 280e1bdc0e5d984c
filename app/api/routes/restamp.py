"""Restamping: other rules of who acts, for the events that are stored."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Response

from app.api.described import answering
from app.api.openapi import WITH_BODY
from app.api.routes.bodies import RestampRequest, body_of, json_body
from app.api.routes.queries import OfVhost
from app.api.routes.submitting import MAKING, Asker, Asking
from app.api.routes.traces import trace_of
from app.jobs.restamps import check_not_archived, restamp_request
from app.stored.capture import RestampedTrace, RestampOutcome
from app.traces.registry import checked_rules
from model.jobs import OfJob

router = APIRouter(tags=["traces"], prefix="/itc_db/restamp")


@router.put(
    "",
    **answering((RestampedTrace, RestampOutcome, OfJob), MAKING | WITH_BODY),
    openapi_extra=body_of(RestampRequest, required=False),
)
async def restamp_trace(asker: Asking, vhost: OfVhost) -> Response:
    """Stamp a virtual host's stored events anew, as a job; without a body by the rules it has.

    Links are kept, unless the messages are to be read again.

    The trace goes on, and pauses while the new stamps take the place of the old, all at once.
    """
    wish = await json_body(asker.request, RestampRequest) or RestampRequest()
    return await restamped(asker, vhost, wish)


async def restamped(asker: Asker, vhost: str, wish: RestampRequest) -> Response:
    """Submit the job that restamps a virtual host's trace."""
    user, parts = asker.user, asker.parts
    user.must_see(vhost)
    checked_rules(wish.participant, wish.quiet)
    trace = await trace_of(vhost, user, parts)
    await parts.traces.check_here(vhost)
    await asyncio.to_thread(check_not_archived, parts.folders.archives, vhost)
    policy = wish.participant or trace.policy
    quiet = trace.quiet if wish.quiet is None else wish.quiet
    job = restamp_request(vhost, trace.id, policy, quiet, user.name, links=wish.links)
    return await asker.submit(job, is_new=lambda result: False)
