"""Reports on periods: those on order are made here, and every kind is listed and read.

On order: where publishes race, and where deliveries turn their order round.
"""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, TypeAlias

from fastapi import APIRouter, Path, Query, Response
from pydantic import WithJsonSchema

from app.api.described import answering, json_answer
from app.api.openapi import READING, READING_ONE, WRITING, answers, example
from app.api.parameters import LONGEST_TEXT, Text
from app.api.routes.queries import Moment, OfVhost
from app.api.routes.submitting import ACCEPTED, Patience, Prefer, submitted
from app.api.services import Parts, Services
from app.api.signin.auth import Reader, User, Writer
from app.errors import NotFoundError
from app.jobs.reports import KEYS, ReportKind, check_key
from app.stored.jobs import Json
from model.reports.assertions import AssertionFacts, AssertionReport
from model.reports.correlations import CorrelationFacts, CorrelationReport
from model.reports.learning import (
    ComparisonFacts,
    ComparisonReport,
    ExpectationsFacts,
    ExpectationsReport,
)
from model.reports.order import OrderFacts, OrderReport, OrderWord
from model.times import microseconds_of

router = APIRouter(tags=["reports"], prefix="/itc_db/reports")

AnyFacts: TypeAlias = (
    OrderFacts | ExpectationsFacts | ComparisonFacts | CorrelationFacts | AssertionFacts
)
AnyReport: TypeAlias = (
    OrderReport | ExpectationsReport | ComparisonReport | CorrelationReport | AssertionReport
)

MAKING = WRITING | answers(500) | ACCEPTED

HOUR, DAY = 3_600_000_000, 86_400_000_000  # µs

Key = Annotated[
    Text,
    # What `check_key` lets through, for those who read the OpenAPI document.
    WithJsonSchema(
        {
            "type": "string",
            "pattern": rf"^({'|'.join(KEYS)}|(header|body)\.[^\x00]+)$",
            "maxLength": LONGEST_TEXT,
        }
    ),
]
ReportId = Annotated[
    str,
    Path(
        pattern="^[0-9a-f]{16}$",
        description="A report's id, as the list of reports says it.",
        openapi_examples=example("0123456789abcdef"),
    ),
]


@router.put("/{report}", **answering(OrderReport, MAKING, status=201))
async def make_report(
    report: Annotated[
        OrderWord, Path(description="What about.", openapi_examples=example("races"))
    ],
    user: Writer,
    parts: Parts,
    prefer: Prefer,
    vhost: OfVhost,
    since: Annotated[Moment | None, Query(description="Of what was recorded from then on.")] = None,
    until: Annotated[Moment | None, Query(description="Of what was recorded before.")] = None,
    key: Annotated[
        Key | None,
        Query(
            description="Compare only messages that share this: `message_id`, `correlation_id`, "
            "`routing_key`, `header.NAME`, or `body.NAME`, a field of a JSON body."
        ),
    ] = None,
) -> Response:
    """Look for races or inversions, as a job; by default in the last hour."""
    period = await period_of(vhost, since, until, user, parts)
    check_key(key)
    return await reported(ReportKind[report], vhost, period, {"key": key}, user, parts, prefer)


async def period_of(
    vhost: str,
    since: Moment | None,
    until: Moment | None,
    user: User,
    parts: Services,
    *,
    usual: int = HOUR,
) -> tuple[int, int]:
    """The period that is asked for (µs), by default the ``usual`` last.

    Raises `NotFoundError`, and `NotAuthorisedError` unless the user may read all of its messages.
    """
    user.must_see(vhost, "trace")
    if await parts.store.traces.find(vhost) is None:
        raise NotFoundError("no such trace")
    user.must_read(vhost)
    end = time.time_ns() // 1_000 if until is None else microseconds_of(until)
    return max(0, end - usual if since is None else microseconds_of(since)), end


async def reported(
    kind: ReportKind,
    vhost: str,
    period: tuple[int, int],
    asked: Json,
    user: User,
    parts: Services,
    prefer: Patience,
) -> Response:
    """Have a report made, and answer with it, or with its job."""
    request = parts.reports.request(kind, vhost, *period, user.name, asked)
    # Before the job, because not every client waits for its end.
    await asyncio.to_thread(parts.reports.forget_old, vhost)

    async def answer(result: Json) -> Response:
        return json_answer(await asyncio.to_thread(parts.reports.get, result["id"]), 201)

    return await submitted(request, prefer, parts, answer)


@router.get("", **answering(list[AnyFacts], READING, description="Each: the facts of a report."))
async def list_reports(user: Reader, parts: Parts) -> Response:
    """Every report that there is, the one made last first, without its lists."""
    found = await asyncio.to_thread(parts.reports.newest)
    return json_answer([facts for facts in found if user.sees(facts["vhost"])])


@router.get("/{report_id}", **answering(AnyReport, READING_ONE, description="A report."))
async def get_report(report_id: ReportId, user: Reader, parts: Parts) -> Response:
    """One report."""
    found = await asyncio.to_thread(parts.reports.get, report_id)
    user.must_see(found["vhost"], "report")
    user.must_read(found["vhost"])
    return json_answer(found)
