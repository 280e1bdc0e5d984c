"""A period for other tools: as an event log, as spans, as AsyncAPI: write, download, remove."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from pydantic import WithJsonSchema

from app.api.described import answering, json_answer
from app.api.openapi import LOCATION, READING, READING_ONE, WRITING, answers, example, link
from app.api.parameters import Name
from app.api.routes.downloads import Download
from app.api.routes.queries import Moment, OfVhost
from app.api.routes.submitting import ACCEPTED, Prefer, submitted
from app.api.routes.traces import Vhost, trace_id_of
from app.api.services import Parts, Services
from app.api.signin.auth import Reader, Writer
from app.errors import ConflictError, NotFoundError
from app.jobs.manager import UNFINISHED
from app.jobs.periods import KIND, PeriodFile, checked_name
from app.stored.jobs import Json
from app.tracker.links import merged
from model.interchange import (
    ConversationCounts,
    DocumentCounts,
    PeriodSummary,
    SentCounts,
    SpanCounts,
)
from model.jobs import Served
from model.times import microseconds_of
from model.words import Along, Via

router = APIRouter(tags=["periods"])

ONE_FILE = "/itc_db/periods/{vhost}/{file}"

_PERIOD = 3_600_000_000  # µs, looked at by default

File = Annotated[
    Name,
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^[A-Za-z0-9_-][A-Za-z0-9._-]*"
            r"\.(ocel\.json|otlp\.json|asyncapi\.(json|yaml))$",
            "minLength": 1,
            "maxLength": 200,
        }
    ),
    Path(
        description="The file's name: 1 to 200 letters, digits, `.`, `_`, `-`, not beginning with "
        "a dot, ending in `.ocel.json`, `.otlp.json`, `.asyncapi.json` or `.asyncapi.yaml`. With "
        "`.manifest.json` behind it, a download is of its manifest.",
        openapi_examples=example("orders.ocel.json"),
    ),
]
Since = Annotated[Moment | None, Query(description="What began from then on.")]
Until = Annotated[Moment | None, Query(description="What began before.")]
AlongWhat = Annotated[
    Along,
    Query(description="What belongs together: by messages and links, or by shared keys too."),
]
_JOB = link("get_job", job_id="$response.body#/job")


@router.put(
    ONE_FILE,
    **answering(
        [
            (PeriodSummary, Served, ConversationCounts),
            (PeriodSummary, Served, SpanCounts),
            (PeriodSummary, Served, DocumentCounts),
        ],
        WRITING | answers(500, 507) | ACCEPTED,
        status=201,
        headers=LOCATION,
        links=_JOB,
    ),
)
async def make_period(
    vhost: Vhost,
    file: File,
    user: Writer,
    parts: Parts,
    prefer: Prefer,
    since: Since = None,
    until: Until = None,
    via: AlongWhat = "links",
) -> Response:
    """Write a period as a file for other tools, as a job; by default the last hour."""
    trace_id = await trace_id_of(vhost, user, parts)
    user.must_read(vhost)
    checked_name(file)
    rules = merged(parts.link_rules, await parts.store.link_rules.own(trace_id))
    shown: list[Json] = [{**each.rule.to_json(), "origin": each.origin.value} for each in rules]
    request = parts.periods.request(vhost, file, _period(since, until), Via(via), user.name, shown)
    if parts.jobs.doing(request) is None:
        await asyncio.to_thread(parts.periods.check_room, vhost, file)
    return await submitted(request, prefer, parts, _answer)


@router.put(
    "/itc_db/spans",
    **answering(
        (PeriodSummary, Served, SentCounts),
        WRITING | answers(500) | ACCEPTED,
        status=201,
        links=_JOB,
    ),
)
async def send_spans(
    user: Writer,
    parts: Parts,
    prefer: Prefer,
    vhost: OfVhost,
    since: Since = None,
    until: Until = None,
    via: AlongWhat = "links",
) -> Response:
    """Send a period's spans to the collector of `ITC_OTLP_EXPORT_URL`, as a job."""
    await trace_id_of(vhost, user, parts)
    user.must_read(vhost)
    request = parts.periods.sending(vhost, _period(since, until), Via(via), user.name)
    return await submitted(request, prefer, parts, _answer)


@router.get("/itc_db/periods", **answering(list[PeriodFile], READING))
async def list_periods(user: Reader, parts: Parts) -> Response:
    """Every file of a period, the one made last first."""
    found = await asyncio.to_thread(parts.periods.list)
    return json_answer([each for each in found if user.sees(each.vhost)])


@router.get(
    ONE_FILE,
    response_class=Download,
    responses={
        **READING_ONE,
        **answers(409, 412, 416),
        200: {"description": "The file, or its manifest.", "content": {"*/*": {}}},
        206: {
            "description": "The part of it that the header `Range` asks for.",
            "content": {"*/*": {}},
        },
        304: {"description": "The client has it already, by its `If-None-Match` or so."},
    },
)
async def download_period(vhost: Vhost, file: File, user: Reader, parts: Parts) -> Response:
    """Download such a file, or its manifest."""
    user.must_see(vhost, "file")
    try:
        found = await asyncio.to_thread(parts.periods.get, vhost, file)
    except NotFoundError:
        if await _is_being_made(vhost, file, parts):
            raise ConflictError(f"{file.removesuffix('.manifest.json')} is being made") from None
        raise
    user.must_read(vhost)
    return Download(found.path, media_type=found.media_type, filename=found.path.name)


@router.delete(ONE_FILE, status_code=204, responses=WRITING)
async def delete_period(vhost: Vhost, file: File, user: Writer, parts: Parts) -> None:
    """Remove such a file and its manifest."""
    user.must_see(vhost, "file")
    await asyncio.to_thread(parts.periods.delete, vhost, file)


def _period(since: Moment | None, until: Moment | None) -> tuple[int, int]:
    end = time.time_ns() // 1_000 if until is None else microseconds_of(until)
    return max(0, end - _PERIOD if since is None else microseconds_of(since)), end


async def _is_being_made(vhost: str, file: str, parts: Services) -> bool:
    name = file.removesuffix(".manifest.json")
    unfinished = await parts.jobs.jobs([vhost], states=UNFINISHED)
    return any(job.kind == KIND and job.request.get("file") == name for job in unfinished)


async def _answer(result: Json) -> Response:
    where = {"location": result["location"]} if result["location"] else {}
    return json_answer(result, 201, where)
