"""Reports on periods, and topologies: jobs make them, and they are read here.

A report says whether assertions held, or what a period teaches: what normally follows what, what a
release changed, and which fields tie messages together.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, TypeAlias

from fastapi import APIRouter, Path, Query, Response

from app.api.described import json_answer, returns
from app.api.openapi import READING, READING_ONE, WITH_BODY, example
from app.api.routes.assertions import FILE, assertions_in
from app.api.routes.queries import AlongVia, Moment, OfVhost, period_of
from app.api.routes.submitting import JOB_ANSWERS, Asker, JobAsker
from app.api.routes.traces import trace_id_of
from app.api.services import Parts
from app.api.signin.auth import Reader
from app.errors import BadRequestError
from app.jobs.reports import ReportKind
from app.stored.jobs import Json
from model.assertions.language import to_json
from model.reports.assertions import AssertionFacts, AssertionReport
from model.reports.correlations import CorrelationFacts, CorrelationReport
from model.reports.learning import (
    ComparisonFacts,
    ComparisonReport,
    ExpectationsFacts,
    ExpectationsReport,
)
from model.times import DAY, HOUR
from model.topology import Topology

router = APIRouter(tags=["reports"], prefix="/itc_db")
topologies = APIRouter(tags=["topology"], prefix="/itc_db/topology")

AnyFacts: TypeAlias = ExpectationsFacts | ComparisonFacts | CorrelationFacts | AssertionFacts
AnyReport: TypeAlias = ExpectationsReport | ComparisonReport | CorrelationReport | AssertionReport

_LONGEST_WAIT = 30 * 86_400  # s

ReportId = Annotated[
    str,
    Path(
        pattern="^[0-9a-f]{16}$",
        description="A report's id, as the list of reports says it.",
        openapi_examples=example("0123456789abcdef"),
    ),
]
RecordedSince = Annotated[Moment | None, Query(description="Only events recorded from then on.")]
RecordedUntil = Annotated[Moment | None, Query(description="Only events recorded before.")]
BegunSince = Annotated[Moment | None, Query(description="Of what began from then on.")]
BegunUntil = Annotated[Moment | None, Query(description="Of what began before.")]
Wait = Annotated[
    float,
    Query(
        ge=0,
        le=_LONGEST_WAIT,
        description="Effects are looked for up to this many seconds after the period.",
    ),
]
# An effect is expected if it comes in this share of at least this many cases: its standard error is
# then 0.02, and fewer cases prove nothing. A share below one such case is rare.
_SHARE, _CASES, _RARE = 0.95, 100, 0.01


@router.put(
    "/reports/assertions",
    **returns(AssertionReport, JOB_ANSWERS | WITH_BODY, status=201),
    openapi_extra=FILE,
)
async def check_assertions(
    asker: JobAsker,
    vhost: OfVhost,
    since: RecordedSince = None,
    until: RecordedUntil = None,
    via: AlongVia = "links",
) -> Response:
    """Check assertions, as a job; by default over the last day.

    The body is a file of assertions, YAML or JSON (docs/assertions.md).
    """
    period = await _period(vhost, since, until, asker, usual=DAY)
    assertions = await assertions_in(await asker.request.body())
    options = {"via": via, "assertions": [to_json(assertion) for assertion in assertions]}
    return await _submit_report(ReportKind.assertions, vhost, period, options, asker)


@router.put("/reports/expectations", **returns(ExpectationsReport, JOB_ANSWERS, status=201))
async def make_expectations(
    asker: JobAsker,
    vhost: OfVhost,
    since: BegunSince = None,
    until: BegunUntil = None,
    via: AlongVia = "links",
    wait: Wait = 3_600.0,
) -> Response:
    """Learn what messages lead to, and find the exceptions; by default in the last hour."""
    period = await _period(vhost, since, until, asker)
    options = {"via": via, "wait": wait, "share": _SHARE, "cases": _CASES, "rare": _RARE}
    return await _submit_report(ReportKind.expectations, vhost, period, options, asker)


@router.put("/reports/comparison", **returns(ComparisonReport, JOB_ANSWERS, status=201))
async def make_comparison(
    asker: JobAsker,
    vhost: OfVhost,
    since: BegunSince = None,
    until: BegunUntil = None,
    before_since: Annotated[
        Moment | None, Query(description="Compared with what began from then on.")
    ] = None,
    before_until: Annotated[
        Moment | None, Query(description="Compared with what began before; by default `since`.")
    ] = None,
    via: AlongVia = "links",
    wait: Wait = 3_600.0,
) -> Response:
    """Compare a period with an earlier one: by default the last hour with the hour before."""
    start, end = await _period(vhost, since, until, asker)
    last = start if before_until is None else before_until
    first = last - (end - start) if before_since is None else before_since
    first = max(0, first)
    if first >= last:
        raise BadRequestError("a comparison needs a time: before_since must be before before_until")
    options = {"before_since": first, "before_until": last, "via": via, "wait": wait}
    options["cases"] = _CASES
    return await _submit_report(ReportKind.comparison, vhost, (start, end), options, asker)


@router.put("/correlations", **returns(CorrelationReport, JOB_ANSWERS, status=201))
async def correlate(
    asker: JobAsker, vhost: OfVhost, since: RecordedSince = None, until: RecordedUntil = None
) -> Response:
    """Look for fields by which messages name others, as a job; by default in the last day."""
    period = await _period(vhost, since, until, asker, usual=DAY)
    return await _submit_report(ReportKind.correlations, vhost, period, {}, asker)


async def _period(
    vhost: str, since: Moment | None, until: Moment | None, asker: Asker, *, usual: int = HOUR
) -> tuple[int, int]:
    """The period, of a trace of which the user may read all messages."""
    await trace_id_of(vhost, asker.user, asker.parts)
    asker.user.must_read(vhost)
    return period_of(since, until, usual)


async def _submit_report(
    kind: ReportKind, vhost: str, period: tuple[int, int], options: Json, asker: Asker
) -> Response:
    reports = asker.parts.folders.reports
    request = reports.request(kind, vhost, *period, asker.user.name, options)
    return await asker.submit(request, reports, lambda result: reports.get(result["id"]))


@router.get(
    "/reports", **returns(list[AnyFacts], READING, description="Each: the facts of a report.")
)
async def list_reports(user: Reader, parts: Parts) -> Response:
    """List the reports that the user may read, newest first, without their details."""
    reports = await asyncio.to_thread(parts.folders.reports.newest)
    vhosts = {facts["vhost"] for facts in reports}
    readable = {vhost for vhost in vhosts if user.sees(vhost) and user.content.cover(vhost)}
    return json_answer([facts for facts in reports if facts["vhost"] in readable])


@router.get("/reports/{report_id}", **returns(AnyReport, READING_ONE, description="A report."))
async def get_report(report_id: ReportId, user: Reader, parts: Parts) -> Response:
    """One report."""
    report = await asyncio.to_thread(parts.folders.reports.get, report_id)
    user.must_see(report["vhost"], "report")
    user.must_read(report["vhost"])
    return json_answer(report)


CountedSince = Annotated[Moment | None, Query(description="Counted from this time on.")]
CountedUntil = Annotated[Moment | None, Query(description="Counted before this time.")]


@topologies.put("", **returns(Topology, JOB_ANSWERS, status=201))
async def count_topology(
    asker: JobAsker, vhost: OfVhost, since: CountedSince = None, until: CountedUntil = None
) -> Response:
    """Count who sends what where, as a job; by default in the last hour."""
    await trace_id_of(vhost, asker.user, asker.parts)
    folder, period = asker.parts.folders.topologies, period_of(since, until)
    request = folder.request(vhost, *period, asker.user.name)
    return await asker.submit(request, folder, lambda result: folder.get(vhost, *period))


@topologies.get("", **returns(Topology, READING_ONE))
async def get_topology(
    user: Reader,
    parts: Parts,
    vhost: OfVhost,
    since: CountedSince = None,
    until: CountedUntil = None,
) -> Response:
    """Show the topology that was counted for a period, or the last one."""
    user.must_see(vhost)
    get = parts.folders.topologies.get
    return json_answer(await asyncio.to_thread(get, vhost, since, until))
