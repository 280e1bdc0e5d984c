"""Chains: make an export, download it, remove it; which exports and formats there are."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Request, Response
from pydantic import WithJsonSchema
from starlette.responses import FileResponse

from app.api.auth import Reader, User, Writer
from app.api.events import visible_event
from app.api.openapi import READING, READING_ONE, WRITING, answers, link
from app.api.paths import Name
from app.api.problems import FailedJobError
from app.api.schemas import ChainSummary, Format, Job, iso_time
from app.api.schemas import Export as ExportModel
from app.api.services import Parts, Services
from app.api.views import job_view, json_answer
from app.errors import BadRequestError, ConflictError, NotFoundError
from app.job import ENDED, JobState
from app.job import Job as JobRecord
from app.jobs.exports import Export, checked_name, format_rows
from app.jobs.requests import JobRequest
from app.store import NOTHING_LARGE

router = APIRouter(tags=["chains"])

ONE_CHAIN = "/itc_db/undefined/{from}/{to}/{file}"

From = Annotated[int, Path(alias="from", ge=1, le=2**63 - 1, description="One event's id.")]
To = Annotated[int, Path(ge=1, le=2**63 - 1, description="The other's.")]
# The names that `checked_name` lets through, for those who read the OpenAPI document.
_EXTENSIONS = "|".join(re.escape(row["extension"]) for row in format_rows())
_NAME = rf"^([A-Za-z0-9_-]+|[A-Za-z0-9_-][A-Za-z0-9._-]*({_EXTENSIONS}))$"

File = Annotated[
    Name,
    WithJsonSchema({"type": "string", "pattern": _NAME, "minLength": 1, "maxLength": 200}),
    Path(
        description="The export's name: 1 to 200 letters, digits, `.`, `_`, `-`, not beginning "
        "with a dot. Its extension picks the format, `.jsonl` where there is none.",
        openapi_examples={"default": {"value": "order.jsonl"}},
    ),
]
Prefer = Annotated[
    str | None,
    Header(
        description="`respond-async` answers at once with the job, `wait=N` after N seconds.",
        openapi_examples={"default": {"value": "respond-async"}},
    ),
]

_ASYNC = re.compile(r"(?:^|,)\s*respond-async\s*(?:,|;|$)", re.IGNORECASE)
_WAIT = re.compile(r"(?:^|,)\s*wait\s*=\s*([0-9]{1,9})\s*(?:,|;|$)", re.IGNORECASE)


@router.put(
    ONE_CHAIN,
    status_code=201,
    response_model=ChainSummary,
    responses={
        **WRITING,
        **answers(500),
        200: {"model": ChainSummary, "description": "The events are concurrent: no chain."},
        201: {"links": link("get_job", job_id="$response.body#/job")},
        202: {
            "model": Job,
            "description": "It takes longer than the client waits for.",
            "links": link("get_job", job_id="$response.body#/id")
            | link("follow_job", job_id="$response.body#/id")
            | link("cancel_job", job_id="$response.body#/id"),
        },
    },
)
async def make_export(
    from_: From,
    to: To,
    file: File,
    user: Writer,
    parts: Parts,
    request: Request,
    prefer: Prefer = None,
) -> Response:
    """Run the chain job and write the export.

    The same request while one runs joins it. A client that goes away leaves the job running.
    """
    wanted = await _chain_request(from_, to, file, user, parts)
    patience = _patience(prefer, parts.settings.wait_seconds_max)
    job = await parts.jobs.submit(wanted)
    if patience != 0:
        job = await _waited(parts, job, patience)
    return _chain_answer(job, applied=patience is not None)


async def _chain_request(from_: int, to: int, file: str, user: User, parts: Services) -> JobRequest:
    """The job, once nothing speaks against it; raises what does."""
    checked_name(file)
    one = await visible_event(parts.store, from_, user, NOTHING_LARGE)
    other = await visible_event(parts.store, to, user, NOTHING_LARGE)
    if one.vhost != other.vhost:
        raise BadRequestError("these events are of two virtual hosts: no chain leads across")
    return parts.exports.request(one.vhost, from_, to, file, user.name)


def _patience(prefer: str | None, most: float) -> float | None:
    """Seconds that the client waits for the end of the job; None: as long as it takes."""
    if prefer is None:
        return None
    if waiting := _WAIT.search(prefer):
        return min(float(waiting[1]), most)
    return 0.0 if _ASYNC.search(prefer) else None


async def _waited(parts: Services, job: JobRecord, seconds: float | None) -> JobRecord:
    """The job at its end, or as it stands after the time or when the service stops."""
    waiting = asyncio.ensure_future(parts.jobs.wait(job.id, seconds))
    stopping = asyncio.ensure_future(parts.stopping.wait())
    try:
        await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return waiting.result() if waiting.done() else await parts.jobs.job(job.id)
    finally:
        waiting.cancel()
        stopping.cancel()


def _chain_answer(job: JobRecord, applied: bool) -> Response:
    headers = {"preference-applied": "respond-async"} if applied else {}
    if job.state not in ENDED:
        location = f"/itc_db/jobs/{job.id}"
        return json_answer(job_view(job), 202, {**headers, "location": location})
    if job.state is JobState.cancelled:
        raise ConflictError(f"job {job.id} was cancelled")
    if job.result is None:
        raise FailedJobError(job.error or "the job failed")
    if job.result["file"] is None:
        return json_answer(job.result)
    return json_answer(job.result, 201, {"location": job.result["location"]})


@router.get(
    ONE_CHAIN,
    response_class=FileResponse,
    responses={
        **READING_ONE,
        **answers(409),
        200: {"description": "The export, in its format.", "content": {"*/*": {}}},
    },
)
async def download_export(from_: From, to: To, file: File, user: Reader, parts: Parts) -> Response:
    """Download an export."""
    export = await _visible_export(from_, to, file, user, parts)
    return FileResponse(export.path, media_type=export.format.media_type, filename=export.file)


@router.delete(ONE_CHAIN, status_code=204, responses=WRITING)
async def delete_export(from_: From, to: To, file: File, user: Writer, parts: Parts) -> None:
    """Remove an export."""
    await _visible_export(from_, to, file, user, parts)
    await asyncio.to_thread(parts.exports.delete, from_, to, file)


async def _visible_export(from_: int, to: int, file: str, user: User, parts: Services) -> Export:
    """An export that the user may see; `ConflictError` while it is being made."""
    try:
        export = await asyncio.to_thread(parts.exports.get, from_, to, file)
    except NotFoundError:
        wanted = await _chain_request(from_, to, file, user, parts)
        if parts.jobs.doing(wanted) is not None:
            raise ConflictError(f"{file} is being made") from None
        raise
    user.must_see(export.vhost, "export")
    return export


@router.get("/itc_db/exports", response_model=list[ExportModel], responses=READING)
async def list_exports(user: Reader, parts: Parts) -> Response:
    """Every export of virtual hosts that the user sees, newest first."""
    exports = await asyncio.to_thread(parts.exports.list)
    return json_answer([_export_view(one) for one in exports if user.sees(one.vhost)])


def _export_view(export: Export) -> dict[str, Any]:
    return {
        "from": export.from_id,
        "to": export.to_id,
        "file": export.file,
        "location": export.location,
        "vhost": export.vhost,
        "bytes": export.bytes,
        "created_at": iso_time(export.created_at),
        "events": export.events,
    }


@router.get("/itc_db/formats", response_model=list[Format], responses=READING)
async def list_formats(user: Reader) -> Response:
    """The formats that an export can have."""
    return json_answer(format_rows())
