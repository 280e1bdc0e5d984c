"""Whether assertions held over a period, as a job."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from app.api.openapi import WITH_BODY, WRITING, answers
from app.api.routes.queries import Moment, OfVhost
from app.api.routes.submitting import ACCEPTED, Prefer, submitted
from app.api.schemas.assertion_reports import AssertionReport
from app.api.services import Parts
from app.api.signin.auth import Writer
from app.api.views import json_answer
from app.assertion_files import parse
from app.errors import BadRequestError, NotFoundError
from app.jobs.reports import ReportKind
from app.stored.jobs import Json
from model.assertions import InvalidAssertionError, to_json
from model.times import microseconds_of

router = APIRouter(tags=["reports"], prefix="/itc_db/reports")

_PERIOD = 86_400_000_000  # µs, looked at by default

EXAMPLE = """\
assertions:
  - name: invoice-in-time
    every: order.new
    leads_to: invoice
    within: 30s
"""
_FILE: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/yaml": {"schema": {"type": "string", "examples": [EXAMPLE]}}},
    }
}


@router.put(
    "/assertions",
    status_code=201,
    response_model=AssertionReport,
    responses={**WRITING, **WITH_BODY, **answers(500), **ACCEPTED},
    openapi_extra=_FILE,
)
async def check_assertions(
    request: Request,
    user: Writer,
    parts: Parts,
    prefer: Prefer,
    vhost: OfVhost,
    since: Annotated[Moment | None, Query(description="Of what was recorded from then on.")] = None,
    until: Annotated[Moment | None, Query(description="Of what was recorded before.")] = None,
    via: Annotated[
        Literal["links", "conversation"],
        Query(description="What holds conversations together: links, or shared keys too."),
    ] = "links",
) -> Response:
    """Look whether assertions hold, as a job; by default over the last day.

    The body is a file of assertions, YAML or JSON (docs/assertions.md).
    """
    user.must_see(vhost, "trace")
    try:
        assertions = parse(await request.body())
    except InvalidAssertionError as error:
        raise BadRequestError(str(error)) from None
    if await parts.store.traces.find(vhost) is None:
        raise NotFoundError("no such trace")
    end = time.time_ns() // 1_000 if until is None else microseconds_of(until)
    start = max(0, end - _PERIOD if since is None else microseconds_of(since))
    asked = {"via": via, "assertions": [to_json(each) for each in assertions]}
    wanted = parts.reports.request(ReportKind.assertions, vhost, start, end, user.name, asked)
    # Before the job, because not every client waits for its end.
    await asyncio.to_thread(parts.reports.forget_old, vhost)

    async def answer(result: Json) -> Response:
        return json_answer(await asyncio.to_thread(parts.reports.get, result["id"]), 201)

    return await submitted(wanted, prefer, parts, answer)
