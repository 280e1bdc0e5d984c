"""Archives: have a virtual host's oldest events archived, so that they may be pruned."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.api.described import answer_of, answering, json_answer
from app.api.openapi import READING_ONE, example
from app.api.routes.queries import Moment, OfVhost
from app.api.routes.submitting import MAKING, Asking
from app.api.routes.traces import trace_id_of
from app.api.services import Parts
from app.api.signin.auth import Reader
from app.errors import BadRequestError
from app.jobs.archives import ArchiveState
from model.archives import ArchiveSummary
from model.jobs import OfJob
from model.times import DAY, now

router = APIRouter(tags=["archive"], prefix="/itc_db/archive")

_SUMMARY = (ArchiveSummary, OfJob)

Before = Annotated[Moment | None, Query(description="What was recorded before this time.")]
KeepDays = Annotated[
    float | None,
    Query(
        gt=0,
        le=36_600,
        description="What is older than this many days.",
        openapi_examples=example(30),
    ),
]


@router.put(
    "",
    **answering(
        _SUMMARY,
        MAKING | {200: answer_of(_SUMMARY, description="There was nothing more to archive.")},
        status=201,
    ),
)
async def archive_events(
    asker: Asking, vhost: OfVhost, before: Before = None, keep_days: KeepDays = None
) -> Response:
    """Archive a virtual host's oldest events, as a job; they stay stored until they are pruned."""
    await trace_id_of(vhost, asker.user, asker.parts)
    archives = asker.parts.folders.archives
    request = archives.request(vhost, _bound(before, keep_days), asker.user.name)
    return await asker.submit(request, is_new=lambda result: result["events"])


def _bound(before: Moment | None, keep_days: float | None) -> int:
    if (before is None) == (keep_days is None):
        raise BadRequestError("say what to archive: with either before or keep_days")
    if before is not None:
        return before
    return now() - int((keep_days or 0) * DAY)


@router.get("", **answering(ArchiveState, READING_ONE))
async def get_archive(user: Reader, parts: Parts, vhost: OfVhost) -> Response:
    """Tell what of a virtual host is archived."""
    user.must_see(vhost)
    return json_answer(await asyncio.to_thread(parts.folders.archives.get, vhost))
