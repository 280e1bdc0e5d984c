"""Files of touched events: make them, download them, remove them."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path, Response
from pydantic import WithJsonSchema

from app.api.described import answering, json_answer
from app.api.openapi import LOCATION, READING_ONE, WRITING, answers, example, link
from app.api.parameters import Name
from app.api.routes.downloads import Download
from app.api.routes.events import EventId, visible_event
from app.api.routes.submitting import ACCEPTED, Prefer, submitted
from app.api.services import Parts, Services
from app.api.signin.auth import Reader, User, Writer
from app.errors import ConflictError, NotFoundError
from app.jobs.folders import ManifestedFile
from app.stored.jobs import Json
from model.event import NOTHING_LARGE
from model.evidence import Signed, TouchedSummary
from model.jobs import Served

router = APIRouter(tags=["events"])

ONE_FILE = "/itc_db/touched/{event_id}/{file}"

File = Annotated[
    Name,
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^[A-Za-z0-9_-][A-Za-z0-9._-]*\.(jsonl|parquet)$",
            "minLength": 1,
            "maxLength": 200,
        }
    ),
    Path(
        description="The file's name: 1 to 200 letters, digits, `.`, `_`, `-`, not beginning with "
        "a dot, ending in `.jsonl` or `.parquet`. With `.manifest.json` behind it, a download is "
        "of its manifest.",
        openapi_examples=example("touched.jsonl"),
    ),
]


@router.put(
    ONE_FILE,
    **answering(
        [(TouchedSummary, Served), (TouchedSummary, Served, Signed)],
        WRITING | answers(500, 507) | ACCEPTED,
        status=201,
        headers=LOCATION,
        links=link("get_job", job_id="$response.body#/job"),
    ),
)
async def make_touched(
    event_id: EventId, file: File, user: Writer, parts: Parts, prefer: Prefer
) -> Response:
    """Write every event since one, with what that one had to do with it, and the evidence."""
    event = await visible_event(parts.store.events, event_id, user, NOTHING_LARGE)
    request = parts.touched.request(event.vhost, event_id, file, user.name)
    if parts.jobs.doing(request) is None:
        await asyncio.to_thread(parts.touched.check_room, event_id, file)
    return await submitted(request, prefer, parts, _answer)


async def _answer(result: Json) -> Response:
    return json_answer(result, 201, {"location": result["location"]})


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
async def download_touched(event_id: EventId, file: File, user: Reader, parts: Parts) -> Response:
    """Download such a file, or its manifest."""
    found = await _visible(event_id, file, user, parts)
    return Download(found.path, media_type=found.media_type, filename=found.path.name)


@router.delete(ONE_FILE, status_code=204, responses=WRITING)
async def delete_touched(event_id: EventId, file: File, user: Writer, parts: Parts) -> None:
    """Remove such a file and its manifest."""
    await _visible(event_id, file, user, parts)
    await asyncio.to_thread(parts.touched.delete, event_id, file)


async def _visible(event_id: int, file: str, user: User, parts: Services) -> ManifestedFile:
    """A file that the user may see; `ConflictError` while it is being made."""
    try:
        found = await asyncio.to_thread(parts.touched.get, event_id, file)
    except NotFoundError:
        event = await visible_event(parts.store.events, event_id, user, NOTHING_LARGE)
        name = file.removesuffix(".manifest.json")
        request = parts.touched.request(event.vhost, event_id, name, user.name)
        if parts.jobs.doing(request) is not None:
            raise ConflictError(f"{name} is being made") from None
        raise
    user.must_see(found.vhost, "file")
    return found
