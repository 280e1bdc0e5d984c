"""Upkeep: restamping stored events by other rules, and archives of the oldest ones."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.api.described import answer_of, returns
from app.api.openapi import WITH_BODY, example
from app.api.routes.bodies import RestampRequest, body_of, json_body
from app.api.routes.queries import Moment, OfVhost
from app.api.routes.submitting import JOB_ANSWERS, Asker, JobAsker
from app.api.routes.traces import trace_id_of, trace_of
from app.errors import BadRequestError
from app.jobs.restamp import check_not_archived, restamp_request
from app.stored.capture import RestampedTrace, RestampOutcome
from app.traces.registry import checked_rules
from model.archives import ArchiveSummary
from model.jobs import OfJob
from model.times import DAY, now

router = APIRouter(tags=["traces"], prefix="/itc_db/restamp")
archives = APIRouter(tags=["archive"], prefix="/itc_db/archive")


@router.put(
    "",
    **returns((RestampedTrace, RestampOutcome, OfJob), JOB_ANSWERS | WITH_BODY),
    openapi_extra=body_of(RestampRequest, required=False),
)
async def restamp_trace(asker: JobAsker, vhost: OfVhost) -> Response:
    """Stamp a virtual host's stored events again, as a job; without a body, by its present rules.

    Links are kept unless the messages are read again. The trace goes on, and pauses while the new
    stamps replace the old ones, all at once.
    """
    wish = await json_body(asker.request, RestampRequest) or RestampRequest()
    return await submit_restamp(asker, vhost, wish)


async def submit_restamp(asker: Asker, vhost: str, wish: RestampRequest) -> Response:
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


_SUMMARY = (ArchiveSummary, OfJob)

BeforeTime = Annotated[Moment | None, Query(description="What was recorded before this time.")]
KeepDays = Annotated[
    float | None,
    Query(
        gt=0,
        le=36_600,
        description="What is older than this many days.",
        openapi_examples=example(30),
    ),
]


@archives.put(
    "",
    **returns(
        _SUMMARY,
        JOB_ANSWERS | {200: answer_of(_SUMMARY, description="There was nothing more to archive.")},
        status=201,
    ),
)
async def archive_events(
    asker: JobAsker, vhost: OfVhost, before: BeforeTime = None, keep_days: KeepDays = None
) -> Response:
    """Archive a virtual host's oldest events, as a job; they stay in the database until pruned."""
    await trace_id_of(vhost, asker.user, asker.parts)
    request = asker.parts.folders.archives.request(
        vhost, _end_of(before, keep_days), asker.user.name
    )
    return await asker.submit(request, is_new=lambda result: result["events"])


def _end_of(moment: Moment | None, keep_days: float | None) -> int:
    if (moment is None) == (keep_days is None):
        raise BadRequestError("say what to archive with either before or keep_days")
    if moment is not None:
        return moment
    return now() - int((keep_days or 0) * DAY)
