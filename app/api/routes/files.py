"""Files: exports of chains, and periods for other tools: make, download, remove them; a list."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from app.api.certainty import certainty_between
from app.api.crossings import arrivals_in
from app.api.described import answer_of, json_answer, returns
from app.api.events import relate
from app.api.openapi import LOCATION, READING, WITH_BODY, WRITING, answers, example
from app.api.parameters import Name, Word
from app.api.routes.bodies import PathWords, body_of, check_words, json_body
from app.api.routes.chain import VIA_MEANING
from app.api.routes.downloads import Download, download_route, name_schema
from app.api.routes.events import OtherId, doubtful_between, visible_event
from app.api.routes.queries import AlongVia, Moment, OfVhost, period_of
from app.api.routes.submitting import JOB_ANSWERS, OF_JOB, JobAsker
from app.api.routes.traces import Vhost, trace_id_of
from app.api.services import Parts, sent_spans
from app.api.signin.auth import Reader, User, Writer
from app.errors import BadRequestError, ConflictError, NotFoundError
from app.jobs.exports import PERIOD, Export, PeriodFile
from app.jobs.folders import ManifestedFile
from app.jobs.manager import UNFINISHED
from app.stored.exporting import SentSpans
from app.stored.jobs import JobRequest, Json
from app.tracker.links import merge_rules
from itc import Relation, compare
from model.described import json_of
from model.event import CLOCK_ALONE, NOTHING_LARGE
from model.exports import CONCURRENT, FORMATS, ChainPlan, ChainSummary, Format
from model.interchange import (
    ConversationCounts,
    DocumentCounts,
    PeriodSummary,
    SentCounts,
    SpanCounts,
)
from model.jobs import Served
from model.words import Via

router = APIRouter(tags=["chains"])
periods = APIRouter(tags=["periods"])

_SUMMARY = (ChainSummary, Served)

ONE_CHAIN = "/itc_db/{vhost}/{from}/{to}/{file}"

InVhost = Annotated[
    Name,
    Path(
        description="`undefined`, or the virtual host that both events are of.",
        openapi_examples=example("undefined"),
    ),
]

FromId = Annotated[
    int,
    Path(
        alias="from", ge=1, le=2**63 - 1, description="One event's id.", openapi_examples=example(1)
    ),
]
# The names that `checked_name` accepts, for readers of the OpenAPI document.
_EXTENSIONS = "|".join(re.escape(chain_format.extension) for chain_format in FORMATS.values())
_NAME = rf"^([A-Za-z0-9_-]+|[A-Za-z0-9_-][A-Za-z0-9._-]*({_EXTENSIONS}))$"

File = Annotated[
    Name,
    name_schema(_NAME),
    Path(
        description="The export's name: 1 to 200 letters, digits, `.`, `_`, `-`, not beginning "
        "with a dot. Its extension picks the format, `.jsonl` where there is none.",
        openapi_examples=example("order.jsonl"),
    ),
]

AlongWay = Annotated[Word[Via], Query(description=VIA_MEANING)]


@router.put(
    ONE_CHAIN,
    **returns(
        _SUMMARY,
        JOB_ANSWERS
        | WITH_BODY
        | answers(507)
        | {200: answer_of(_SUMMARY, description="There is no chain between the events.")},
        status=201,
        headers=LOCATION,
        links=OF_JOB,
    ),
    openapi_extra=body_of(PathWords, required=False),
)
async def make_export(
    vhost: InVhost, from_: FromId, to: OtherId, file: File, asker: JobAsker, via: AlongWay = Via.any
) -> Response:
    """Run the chain job and write the export.

    The same request while one runs joins it. If the client goes away the job keeps running. Where
    the events are concurrent there is no chain to look for, and Spark is not started.
    """
    user, parts = asker.user, asker.parts
    check_words(await json_body(asker.request, PathWords), asker.request)
    request = await _chain_request(from_, to, file, user, parts, via)
    _check_vhost(vhost, request.vhost)
    user.must_read(request.vhost)
    summary = await _immediate_summary(from_, to, file, via, parts)
    result = None if summary is None else json_of(summary)
    if result is None:
        await asker.check_room(request, parts.folders.exports, (from_, to), file)
    return await asker.submit(request, is_new=lambda result: result["file"], early_result=result)


async def _immediate_summary(
    start: int, end: int, file: str, via: Via, parts: Parts
) -> ChainSummary | None:
    """The result of the job for stored concurrent events; None for any others."""
    began_at = time.monotonic()
    try:
        first, second = await parts.store.events.get_all((start, end), CLOCK_ALONE)
    except NotFoundError:  # archived
        return None
    if compare(first.stamp, second.stamp) is not Relation.concurrent:
        return None
    trace_id = first.trace_id
    if via is not Via.any and await parts.store.spans.late_between(trace_id, start, end):
        return None  # a link that no clock has may lead from one to the other
    certainty = await certainty_between(trace_id, start, end, parts)
    doubtful = await doubtful_between(first, second, Relation.concurrent, parts)
    answer = relate(first, second, Relation.concurrent, None, certainty, doubtful)
    seconds = round(time.monotonic() - began_at, 3)
    return ChainSummary(
        vhost=first.vhost,
        from_id=start,
        to_id=end,
        via=via,
        relation=Relation.concurrent,
        answer=answer.answer,
        sentence=answer.sentence,
        format=parts.folders.exports.check_format(file).name,
        plan=ChainPlan("none", CONCURRENT),
        gaps=certainty.gaps,
        soundness=certainty.soundness,
        seconds={"queued": 0.0, "start": 0.0, "plan": seconds, "total": seconds},
    )


async def _chain_request(
    start: int, end: int, file: str, user: User, parts: Parts, via: Via
) -> JobRequest:
    """The job's request, checked; raises the error of an invalid one."""
    parts.folders.exports.check_format(file)
    vhost = await _vhost_of(start, user, parts)
    if vhost != await _vhost_of(end, user, parts):
        raise BadRequestError(
            "these events are of two virtual hosts: no chain leads from one to the other"
        )
    return parts.folders.exports.request(vhost, start, end, file, user.name, via=via)


def _check_vhost(place: str, vhost: str) -> None:
    if place not in ("undefined", vhost):
        raise BadRequestError(f"these events are of the virtual host {vhost!r}, not of {place!r}")


async def _vhost_of(event_id: int, user: User, parts: Parts) -> str:
    try:
        return (await visible_event(parts.store.events, event_id, user, NOTHING_LARGE)).vhost
    except NotFoundError:
        vhost = await asyncio.to_thread(parts.folders.archives.vhost_of, event_id)
        if vhost is None or not user.sees(vhost):
            raise
        return vhost


@router.get(ONE_CHAIN, **download_route("The export, in its format."))
async def download_export(
    vhost: InVhost, from_: FromId, to: OtherId, file: File, user: Reader, parts: Parts
) -> Response:
    """Download an export."""
    export = await _visible_export(vhost, from_, to, file, user, parts)
    user.must_read(export.vhost)
    return Download(export.path, media_type=export.media_type, filename=file)


@router.delete(ONE_CHAIN, status_code=204, responses=WRITING)
async def delete_export(
    vhost: InVhost, from_: FromId, to: OtherId, file: File, user: Writer, parts: Parts
) -> None:
    """Remove an export."""
    await _visible_export(vhost, from_, to, file, user, parts)
    await asyncio.to_thread(parts.folders.exports.delete, (from_, to), file)


async def _visible_export(
    place: str, start: int, end: int, file: str, user: User, parts: Parts
) -> ManifestedFile:
    """An export that the user may see; `ConflictError` while it is being made."""
    try:
        export = await asyncio.to_thread(parts.folders.exports.find, (start, end), file)
    except NotFoundError:
        for via in Via:
            request = await _chain_request(start, end, file, user, parts, via)
            if parts.jobs.find_live(request) is not None:
                raise ConflictError(f"{file} is being made") from None
        raise
    user.must_see(export.vhost, "export")
    _check_vhost(place, export.vhost)
    return export


@router.get("/itc_db/exports", **returns(list[Export], READING))
async def list_exports(user: Reader, parts: Parts) -> Response:
    """List the exports of virtual hosts that the user sees, newest first."""
    exports = await asyncio.to_thread(parts.folders.exports.list)
    return json_answer([export for export in exports if user.sees(export.vhost)])


@router.get("/itc_db/formats", **returns(list[Format], READING))
async def list_formats(user: Reader) -> Response:
    """List the formats of exports."""
    return json_answer([*FORMATS.values()])


ONE_FILE = "/itc_db/periods/{vhost}/{file}"

PeriodName = Annotated[
    Name,
    name_schema(r"^[A-Za-z0-9_-][A-Za-z0-9._-]*\.(ocel\.json|otlp\.json|asyncapi\.(json|yaml))$"),
    Path(
        description="The file's name: 1 to 200 letters, digits, `.`, `_`, `-`, not beginning with "
        "a dot, ending in `.ocel.json`, `.otlp.json`, `.asyncapi.json` or `.asyncapi.yaml`. With "
        "`.manifest.json` behind it, a download is of its manifest.",
        openapi_examples=example("orders.ocel.json"),
    ),
]
BegunSince = Annotated[Moment | None, Query(description="What began from then on.")]
BegunUntil = Annotated[Moment | None, Query(description="What began before.")]


@periods.put(
    ONE_FILE,
    **returns(
        [
            (PeriodSummary, Served, ConversationCounts),
            (PeriodSummary, Served, SpanCounts),
            (PeriodSummary, Served, DocumentCounts),
        ],
        JOB_ANSWERS | answers(507),
        status=201,
        headers=LOCATION,
        links=OF_JOB,
    ),
)
async def make_period(
    vhost: Vhost,
    file: PeriodName,
    asker: JobAsker,
    since: BegunSince = None,
    until: BegunUntil = None,
    via: AlongVia = "links",
) -> Response:
    """Write a period as a file for other tools, as a job; by default the last hour."""
    parts, user, folder = asker.parts, asker.user, asker.parts.folders.periods
    trace_id = await trace_id_of(vhost, user, parts)
    user.must_read(vhost)
    folder.check_format(file)
    rules = merge_rules(parts.link_rules, await parts.store.link_rules.list_own(trace_id))
    listed_rules: list[Json] = [
        {**rule.rule.to_json(), "origin": rule.origin.value} for rule in rules
    ]
    period, is_spans = period_of(since, until), file.endswith("otlp.json")
    arrivals = await arrivals_in(vhost, period, user, parts) if is_spans else {}
    request = folder.request(vhost, file, period, Via(via), user.name, listed_rules, arrivals)
    await asker.check_room(request, folder, vhost, file)
    return await asker.submit(request)


@periods.put(
    "/itc_db/spans",
    **returns((PeriodSummary, Served, SentCounts), JOB_ANSWERS, status=201, links=OF_JOB),
)
async def send_spans(
    asker: JobAsker,
    vhost: OfVhost,
    since: BegunSince = None,
    until: BegunUntil = None,
) -> Response:
    """Send a period's spans to the collector of `ITC_OTLP_EXPORT_URL`, as a job."""
    user = asker.user
    await trace_id_of(vhost, user, asker.parts)
    user.must_read(vhost)
    period, folder = period_of(since, until), asker.parts.folders.periods
    arrivals = await arrivals_in(vhost, period, user, asker.parts)
    return await asker.submit(folder.send_request(vhost, period, user.name, arrivals))


@periods.get("/itc_db/spans", **returns(list[SentSpans], READING))
async def list_sent_spans(user: Reader, parts: Parts) -> Response:
    """List how far each virtual host's spans are sent, by `ITC_OTLP_EXPORT_RULES`."""
    return json_answer([state for state in await sent_spans(parts) if user.sees(state.vhost)])


@periods.get("/itc_db/periods", **returns(list[PeriodFile], READING))
async def list_periods(user: Reader, parts: Parts) -> Response:
    """List the files of periods, newest first."""
    files = await asyncio.to_thread(parts.folders.periods.list)
    return json_answer([period_file for period_file in files if user.sees(period_file.vhost)])


@periods.get(ONE_FILE, **download_route("The file, or its manifest."))
async def download_period(vhost: Vhost, file: PeriodName, user: Reader, parts: Parts) -> Response:
    """Download a period's file, or its manifest."""
    user.must_see(vhost)
    try:
        document = await asyncio.to_thread(parts.folders.periods.find, vhost, file)
    except NotFoundError:
        if await _is_being_made(vhost, file, parts):
            raise ConflictError(f"{file.removesuffix('.manifest.json')} is being made") from None
        raise
    user.must_read(vhost)
    return Download(document.path, media_type=document.media_type, filename=document.path.name)


@periods.delete(ONE_FILE, status_code=204, responses=WRITING)
async def delete_period(vhost: Vhost, file: PeriodName, user: Writer, parts: Parts) -> None:
    """Remove a period's file and its manifest."""
    user.must_see(vhost)
    await asyncio.to_thread(parts.folders.periods.delete, vhost, file)


async def _is_being_made(vhost: str, file: str, parts: Parts) -> bool:
    name = file.removesuffix(".manifest.json")
    unfinished = await parts.jobs.jobs([vhost], states=UNFINISHED)
    return any(job.kind == PERIOD and job.request.get("file") == name for job in unfinished)
