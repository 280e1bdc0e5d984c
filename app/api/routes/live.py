"""The live tail: stored events as they come, as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response

from app.api.openapi import answers
from app.api.rights import reason_to_drop
from app.api.routes.queries import HEADERS, LiveQuery
from app.api.services import Parts
from app.api.signin.auth import Reader, User
from app.api.streams import HEARTBEAT_SECONDS, EventStream, described, frame, heartbeat
from app.api.tail import TailQuery
from app.errors import BadRequestError, ItcError

router = APIRouter(tags=["events"])

_AT_ONCE = 100  # events in one write
# A reader that is further behind than this would hold the next ones up; it begins again.
BEHIND_EVENTS = 20_000


@router.get(
    "/itc_db/live",
    status_code=200,
    response_class=EventStream,
    responses={
        **answers(400, 401, 429, 503),
        200: described(
            "Server-sent events: each `data` is an event as JSON, each `id` its id. One named "
            "`dropped` ends the stream and says why."
        ),
    },
    openapi_extra=HEADERS,
)
async def live(
    query: Annotated[LiveQuery, Query()],
    user: Reader,
    parts: Parts,
    request: Request,
    last_event_id: Annotated[
        str | None, Header(description="Resumes after this event, as browsers do by themselves.")
    ] = None,
) -> Response:
    """Events that pass the filter, as they are stored."""
    start = _start(last_event_id, query.after, parts)
    following = query.following(user, _AT_ONCE, frames=True)
    frames = _frames(following, start, user, parts, request)
    parts.subscribers.admit()
    return EventStream(frames, parts.subscribers.leave)


def _start(last_event_id: str | None, after: int | None, parts: Parts) -> int:
    if last_event_id is None:
        return parts.tail.newest if after is None else after
    if not last_event_id.isascii() or not last_event_id.isdecimal() or len(last_event_id) > 18:
        raise BadRequestError("invalid Last-Event-ID: expected the id of an event")
    return int(last_event_id)


async def _frames(
    query: TailQuery, start: int, user: User, parts: Parts, request: Request
) -> AsyncGenerator[bytes, None]:
    """Batches from ``start`` on; a notice when the stream cannot continue."""
    cursor = start
    allowed = parts.tail.newest - start + BEHIND_EVENTS
    quiet = min(HEARTBEAT_SECONDS, parts.look_seconds)
    yield heartbeat(cursor)
    while not parts.stopping.is_set():
        if reason := await reason_to_drop(user, request):
            yield frame("dropped", {"reason": reason})
            return
        try:
            batch, cursor = await parts.tail.after(query, cursor, user.name)
        except ItcError as error:
            yield frame("dropped", {"reason": str(error)})
            return
        if batch.ids:
            yield batch.encoded
        elif not await parts.tail.more(cursor, quiet, parts.stopping):
            yield heartbeat(cursor)
        if parts.tail.newest - cursor > allowed:
            parts.subscribers.dropped += 1
            yield frame(
                "dropped",
                {"reason": "too slow: resume with Last-Event-ID, or use a narrower filter"},
            )
            return
