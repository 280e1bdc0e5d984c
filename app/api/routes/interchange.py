"""A period for other tools: as an event log, as spans, as AsyncAPI: write, download, remove."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from app.api.described import answering, json_answer
from app.api.openapi import LOCATION, READING, WRITING, answers, example
from app.api.parameters import Name
from app.api.routes.downloads import Download, called, downloading
from app.api.routes.queries import Moment, OfVhost, period_of
from app.api.routes.submitting import MAKING, OF_JOB, Asking
from app.api.routes.traces import Vhost, trace_id_of
from app.api.services import Parts
from app.api.signin.auth import Reader, Writer
from app.errors import ConflictError, NotFoundError
from app.jobs.exports import PERIOD, PeriodFile
from app.jobs.manager import UNFINISHED
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
from model.words import Along, Via

router = APIRouter(tags=["periods"])

ONE_FILE = "/itc_db/periods/{vhost}/{file}"

File = Annotated[
    Name,
    called(r"^[A-Za-z0-9_-][A-Za-z0-9._-]*\.(ocel\.json|otlp\.json|asyncapi\.(json|yaml))$"),
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
    Along, Query(description="What belongs together: by messages and links, or by shared keys too.")
]


@router.put(
    ONE_FILE,
    **answering(
        [
            (PeriodSummary, Served, ConversationCounts),
            (PeriodSummary, Served, SpanCounts),
            (PeriodSummary, Served, DocumentCounts),
        ],
        MAKING | answers(507),
        status=201,
        headers=LOCATION,
        links=OF_JOB,
    ),
)
async def make_period(
    vhost: Vhost,
    file: File,
    asker: Asking,
    since: Since = None,
    until: Until = None,
    via: AlongWhat = "links",
) -> Response:
    """Write a period as a file for other tools, as a job; by default the last hour."""
    parts, user, periods = asker.parts, asker.user, asker.parts.folders.periods
    trace_id = await trace_id_of(vhost, user, parts)
    user.must_read(vhost)
    periods.checked(file)
    rules = merged(parts.link_rules, await parts.store.link_rules.own(trace_id))
    shown: list[Json] = [{**each.rule.to_json(), "origin": each.origin.value} for each in rules]
    request = periods.request(vhost, file, period_of(since, until), Via(via), user.name, shown)
    if parts.jobs.doing(request) is None:
        await asyncio.to_thread(periods.check_room, vhost, file)
    return await asker.submit(request)


@router.put(
    "/itc_db/spans",
    **answering((PeriodSummary, Served, SentCounts), MAKING, status=201, links=OF_JOB),
)
async def send_spans(
    asker: Asking,
    vhost: OfVhost,
    since: Since = None,
    until: Until = None,
    via: AlongWhat = "links",
) -> Response:
    """Send a period's spans to the collector of `ITC_OTLP_EXPORT_URL`, as a job."""
    user = asker.user
    await trace_id_of(vhost, user, asker.parts)
    user.must_read(vhost)
    periods = asker.parts.folders.periods
    return await asker.submit(periods.sending(vhost, period_of(since, until), Via(via), user.name))


@router.get("/itc_db/periods", **answering(list[PeriodFile], READING))
async def list_periods(user: Reader, parts: Parts) -> Response:
    """Every file of a period, the one made last first."""
    found = await asyncio.to_thread(parts.folders.periods.list)
    return json_answer([each for each in found if user.sees(each.vhost)])


@router.get(ONE_FILE, **downloading("The file, or its manifest."))
async def download_period(vhost: Vhost, file: File, user: Reader, parts: Parts) -> Response:
    """Download such a file, or its manifest."""
    user.must_see(vhost)
    try:
        found = await asyncio.to_thread(parts.folders.periods.find, vhost, file)
    except NotFoundError:
        if await _is_being_made(vhost, file, parts):
            raise ConflictError(f"{file.removesuffix('.manifest.json')} is being made") from None
        raise
    user.must_read(vhost)
    return Download(found.path, media_type=found.media_type, filename=found.path.name)


@router.delete(ONE_FILE, status_code=204, responses=WRITING)
async def delete_period(vhost: Vhost, file: File, user: Writer, parts: Parts) -> None:
    """Remove such a file and its manifest."""
    user.must_see(vhost)
    await asyncio.to_thread(parts.folders.periods.delete, vhost, file)


async def _is_being_made(vhost: str, file: str, parts: Parts) -> bool:
    name = file.removesuffix(".manifest.json")
    unfinished = await parts.jobs.jobs([vhost], states=UNFINISHED)
    return any(job.kind == PERIOD and job.request.get("file") == name for job in unfinished)
