"""Traces: start, look, stop; who took part."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from app.api.auth import Reader, User, Writer
from app.api.bodies import json_body, optional_body
from app.api.openapi import READING, READING_ONE, WRITING
from app.api.paths import Name
from app.api.schemas import Trace, TraceRequest
from app.api.services import Parts, Services
from app.traces.status import TraceStatus

router = APIRouter(tags=["traces"])

ONE_TRACE = "/itc_db/{vhost}/undefined/undefined/undefined"

Vhost = Annotated[
    Name,
    Path(
        description="A virtual host's name, percent-encoded.",
        openapi_examples={"default": {"summary": "the virtual host /", "value": "/"}},
    ),
]


@router.put(
    ONE_TRACE,
    status_code=201,
    response_class=Response,
    responses={**WRITING, 204: {"description": "It runs already."}},
    openapi_extra=optional_body(TraceRequest),
)
async def start_trace(vhost: Vhost, user: Writer, parts: Parts, request: Request) -> Response:
    """Start capturing a virtual host."""
    wish = await json_body(request, TraceRequest)
    user.must_see(vhost, "virtual host")
    created = await parts.traces.start(vhost, wish.participant if wish else None)
    return Response(status_code=201 if created else 204)


@router.get(ONE_TRACE, response_model=Trace, responses=READING_ONE)
async def get_trace(vhost: Vhost, user: Reader, parts: Parts) -> TraceStatus:
    """The state of a virtual host's trace."""
    user.must_see(vhost, "trace")
    return await parts.traces.status(vhost)


@router.delete(ONE_TRACE, status_code=204, responses=WRITING)
async def stop_trace(vhost: Vhost, user: Writer, parts: Parts) -> None:
    """Stop capturing a virtual host. Its events stay."""
    user.must_see(vhost, "trace")
    await parts.traces.stop(vhost)


@router.get("/itc_db/traces", response_model=list[Trace], responses=READING)
async def list_traces(user: Reader, parts: Parts) -> list[TraceStatus]:
    """Every trace that the user may see."""
    return await visible_traces(user, parts)


async def visible_traces(user: User, parts: Services) -> list[TraceStatus]:
    """The traces of the virtual hosts that the user sees."""
    return [status for status in await parts.traces.statuses() if user.sees(status.vhost)]
