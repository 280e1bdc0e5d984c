"""Files of touched events: make them, download them, remove them."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path, Response

from app.api.described import answering
from app.api.openapi import LOCATION, WRITING, answers, example
from app.api.parameters import Name
from app.api.routes.downloads import Download, called, downloading
from app.api.routes.events import EventId, visible_event
from app.api.routes.submitting import MAKING, OF_JOB, Asking
from app.api.services import Parts
from app.api.signin.auth import Reader, User, Writer
from app.errors import ConflictError, NotFoundError
from app.jobs.folders import ManifestedFile
from model.event import NOTHING_LARGE
from model.evidence import Signed, TouchedSummary
from model.jobs import Served

router = APIRouter(tags=["events"])

ONE_FILE = "/itc_db/touched/{event_id}/{file}"

File = Annotated[
    Name,
    called(r"^[A-Za-z0-9_-][A-Za-z0-9._-]*\.(jsonl|parquet)$"),
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
        MAKING | answers(507),
        status=201,
        headers=LOCATION,
        links=OF_JOB,
    ),
)
async def make_touched(event_id: EventId, file: File, asker: Asking) -> Response:
    """Write every event since one, with what that one had to do with it, and the evidence."""
    parts, user = asker.parts, asker.user
    event = await visible_event(parts.store.events, event_id, user, NOTHING_LARGE)
    touched = parts.folders.touched
    request = touched.request(event.vhost, event_id, file, user.name)
    if parts.jobs.doing(request) is None:
        await asyncio.to_thread(touched.check_room, event_id, file)
    return await asker.submit(request)


@router.get(ONE_FILE, **downloading("The file, or its manifest."))
async def download_touched(event_id: EventId, file: File, user: Reader, parts: Parts) -> Response:
    """Download such a file, or its manifest."""
    found = await _visible(event_id, file, user, parts)
    return Download(found.path, media_type=found.media_type, filename=found.path.name)


@router.delete(ONE_FILE, status_code=204, responses=WRITING)
async def delete_touched(event_id: EventId, file: File, user: Writer, parts: Parts) -> None:
    """Remove such a file and its manifest."""
    await _visible(event_id, file, user, parts)
    await asyncio.to_thread(parts.folders.touched.delete, event_id, file)


async def _visible(event_id: int, file: str, user: User, parts: Parts) -> ManifestedFile:
    """A file that the user may see; `ConflictError` while it is being made."""
    try:
        found = await asyncio.to_thread(parts.folders.touched.find, event_id, file)
    except NotFoundError:
        event = await visible_event(parts.store.events, event_id, user, NOTHING_LARGE)
        name = file.removesuffix(".manifest.json")
        request = parts.folders.touched.request(event.vhost, event_id, name, user.name)
        if parts.jobs.doing(request) is not None:
            raise ConflictError(f"{name} is being made") from None
        raise
    user.must_see(found.vhost, "file")
    return found
