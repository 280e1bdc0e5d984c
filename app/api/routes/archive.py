"""Archives: have a virtual host's oldest events archived, so that they may be pruned."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.api.described import answer_of, answering, json_answer
from app.api.openapi import READING_ONE, WRITING, answers, example
from app.api.routes.queries import Moment, OfVhost
from app.api.routes.submitting import ACCEPTED, Prefer, submitted
from app.api.services import Parts, Services
from app.api.signin.auth import Reader, Writer
from app.errors import BadRequestError, NotFoundError
from app.jobs.archives import ArchiveState
from app.stored.jobs import Json
from app.stored.reading import EventFilter
from model.archives import ArchiveSummary
from model.event import NOTHING_LARGE
from model.jobs import OfJob
from model.times import microseconds_of

router = APIRouter(tags=["archive"], prefix="/itc_db/archive")

_SUMMARY = (ArchiveSummary, OfJob)
_DAY = 86_400_000_000  # µs

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
        WRITING
        | answers(500)
        | ACCEPTED
        | {200: answer_of(_SUMMARY, description="There was nothing more to archive.")},
        status=201,
    ),
)
async def archive_events(
    user: Writer,
    parts: Parts,
    prefer: Prefer,
    vhost: OfVhost,
    before: Before = None,
    keep_days: KeepDays = None,
) -> Response:
    """Archive a virtual host's oldest events, as a job; they stay stored until they are pruned."""
    user.must_see(vhost, "trace")
    if await parts.store.traces.find(vhost) is None:
        raise NotFoundError("no such trace")
    request = parts.archives.request(vhost, _bound(before, keep_days), user.name)
    return await submitted(request, prefer, parts, _answer)


def _bound(before: Moment | None, keep_days: float | None) -> int:
    if (before is None) == (keep_days is None):
        raise BadRequestError("say what to archive: with either before or keep_days")
    if before is not None:
        return microseconds_of(before)
    return time.time_ns() // 1_000 - int((keep_days or 0) * _DAY)


async def _answer(result: Json) -> Response:
    return json_answer(result, 201 if result["events"] else 200)


@router.get("", **answering(ArchiveState, READING_ONE))
async def get_archive(user: Reader, parts: Parts, vhost: OfVhost) -> Response:
    """Tell what of a virtual host is archived."""
    user.must_see(vhost, "archive")
    return json_answer(await asyncio.to_thread(parts.archives.get, vhost))


async def archived_through(vhost: str, parts: Services) -> int:
    """The id up to which a virtual host's events are archived, checked against the stored ones.

    Raises `NotFoundError` if nothing is archived, `ConflictError` if the archive is damaged or
    belongs to another store.
    """
    archived = await asyncio.to_thread(parts.archives.get, vhost)
    rows = await parts.store.events.list(
        EventFilter(vhost=vhost), before=archived.through + 1, limit=1, large=NOTHING_LARGE
    )
    newest = (rows[0].id, rows[0].recorded_at) if rows else None
    return await asyncio.to_thread(parts.archives.prunable, vhost, newest)
