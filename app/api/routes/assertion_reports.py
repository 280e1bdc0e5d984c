"""Whether assertions held over a period, as a job."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from app.api.asserted import assertions_in
from app.api.described import answering
from app.api.openapi import WITH_BODY
from app.api.routes.assertions import FILE
from app.api.routes.queries import Moment, OfVhost
from app.api.routes.reports import DAY, MAKING, period_of, reported
from app.api.routes.submitting import Prefer
from app.api.services import Parts
from app.api.signin.auth import Writer
from app.jobs.reports import ReportKind
from model.assertions import to_json
from model.reports.assertions import AssertionReport
from model.words import Along

router = APIRouter(tags=["reports"], prefix="/itc_db/reports")


@router.put(
    "/assertions",
    **answering(AssertionReport, MAKING | WITH_BODY, status=201),
    openapi_extra=FILE,
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
        Along,
        Query(description="What holds conversations together: links, or shared keys too."),
    ] = "links",
) -> Response:
    """Look whether assertions hold, as a job; by default over the last day.

    The body is a file of assertions, YAML or JSON (docs/assertions.md).
    """
    period = await period_of(vhost, since, until, user, parts, usual=DAY)
    assertions = await assertions_in(await request.body())
    asked = {"via": via, "assertions": [to_json(each) for each in assertions]}
    return await reported(ReportKind.assertions, vhost, period, asked, user, parts, prefer)
