"""The chain between two events at once, and what events touched: at once, or written to a file."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from pydantic import Field, field_validator

from app.api.answers import Heavy
from app.api.certainty import LAST, certainty_between
from app.api.described import returns
from app.api.events import ChainEnds, Related, TouchedEvents
from app.api.likely import LIKELY, LikelyAnswer, LikelyQuery, ground_of
from app.api.openapi import LOCATION, READING_ONE, WRITING, answers, example
from app.api.parameters import Name, WalkLimit, Word
from app.api.routes.downloads import Download, download_route, name_schema
from app.api.routes.events import (
    EventId,
    OtherId,
    events_answer,
    relation_of,
    visible_event,
    visible_events,
)
from app.api.routes.queries import AfterNext, Form
from app.api.routes.submitting import JOB_ANSWERS, OF_JOB, JobAsker
from app.api.services import Parts
from app.api.signin.auth import Reader, User, Writer
from app.errors import BadRequestError, ConflictError, NotFoundError
from app.jobs.folders import ManifestedFile
from app.stored.causality import ChainPart, Touched, of_one_trace
from model.answers import Verdict, touched_sentence
from model.described import json_of
from model.event import CLOCK_ALONE, NOTHING_LARGE
from model.evidence import Signed, TouchedSummary
from model.jobs import Served
from model.sound import Certainty
from model.times import MINUTE
from model.words import Until, Via, WalkWord

router = APIRouter(tags=["events"])

MOST_EVENTS = 100
VIA_MEANING = (
    "`links`: the events on paths of messages, and of links to the causes that they name. "
    "`conversation`: also from what a participant received in a conversation to what it published "
    "in it later. `any`: all events between the two in causal order."
)


class ChainQuery(Form, LikelyQuery):
    """Bounds on a chain."""

    limit: WalkLimit = Field(200, description="Most events in the answer; at most 1000.")
    via: WalkWord = Field("any", description=VIA_MEANING + LIKELY)
    after: AfterNext = None


@router.get(
    "/itc_db/chain/{a}/{b}",
    **returns((ChainEnds, ChainPart, Related, Certainty, LikelyAnswer), READING_ONE),
)
async def get_chain(
    a: EventId, b: OtherId, query: Annotated[ChainQuery, Query()], user: Reader, parts: Parts
) -> Response:
    """Show the chain between two events, in either order: their relation and its events."""
    first, second = await visible_events(parts.store.events, (a, b), user, CLOCK_ALONE)
    of_one_trace((first, second))
    if a == b:
        raise BadRequestError("a chain needs two events; both ids are the same")
    via, limit = query.via, query.limit
    is_far = query.after is not None or via != "any"
    async with parts.searches.for_walk(user.name, limit, via, is_far=is_far):
        ground = await ground_of(query, first.vhost, (a, b), user, parts)
        part = await parts.store.chains.find(
            a, b, limit, query.large, ground.via, after=query.after, overlay=ground.overlay
        )
    relation, certainty = await relation_of(first, second, parts, is_linked=bool(part.count))
    heavy = Heavy(part.heavy, user.content, query.column_names, query.large)
    ends = ChainEnds(a, b, via, min(a, b), max(a, b), heavy.views(part.items))
    view = json_of(ends) | json_of(relation) | json_of(part) | json_of(certainty) | ground.view
    return events_answer(view, heavy, parts)


EventNumber = Annotated[int, Field(ge=1, le=2**63 - 1)]


class TouchedQuery(Form):
    """Events whose future is counted, and the part of it to list."""

    # By assignment: in an annotation the example would be lost.
    events: list[EventNumber] = Query(
        min_length=1,
        max_length=MOST_EVENTS,
        description="The ids of 1 to 100 events of one virtual host, comma separated.",
        openapi_examples=example(1),
    )
    verdict: Word[Verdict] | None = Field(
        None,
        description="List the events with this verdict: caused, may have been, cannot have been, "
        "or unknown.",
    )
    limit: WalkLimit = Field(100, description="Most events in the list; at most 1000.")
    after: AfterNext = None
    to: EventNumber = Field(LAST, description="Only events up to this one.")
    until: Word[Until] = Field(
        Until.now,
        description="Only events recorded in the `minute` after the last of them, or before the "
        "next `gap`.",
    )

    @field_validator("events", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        """``events=1,2`` as well as ``events=1&events=2``."""
        texts = value if isinstance(value, list) else [value]
        return [part for text in texts for part in str(text).split(",")][: MOST_EVENTS + 1]


@router.get("/itc_db/touched", **returns((TouchedEvents, Touched, Certainty), READING_ONE))
async def get_touched(
    query: Annotated[TouchedQuery, Query()], user: Reader, parts: Parts
) -> Response:
    """Count the later events that some events caused, may have caused, or cannot have caused.

    It is unknown where the publish of a delivery in their past was not seen. With `verdict`, the
    answer lists the events of that verdict, by id. Of several events, any of them counts.
    """
    ids = sorted({*query.events})
    events = await visible_events(parts.store.events, ids, user, NOTHING_LARGE)
    limit, last, trace_id, first = query.limit, query.to, of_one_trace(events), events[0]
    async with parts.searches.for_walk(user.name, limit, Via.links, is_far=True):
        if query.until is Until.minute:
            last = min(last, await parts.store.touched.last_within(ids[-1], MINUTE))
        elif query.until is Until.gap:
            gaps = await parts.store.gaps.between(trace_id, ids[-1], last)
            last = min([last, *(max(gap.after_event_id, ids[-1]) for gap in gaps)])
        touched = await parts.store.touched.effects_of(
            ids,
            verdict=query.verdict,
            limit=limit,
            large=query.large,
            after=query.after,
            last_id=last,
        )
    # Messages missing behind the last event of a minute may still belong to that minute.
    certainty = await certainty_between(
        trace_id, first.id, last + (query.until is Until.minute), parts
    )
    sentence = touched_sentence(
        len(ids),
        touched.since,
        touched.caused,
        touched.may_have,
        touched.unknown,
        cut=touched.caused_truncated,
        complete=certainty.complete,
        sound=certainty.sound,
    )
    heavy = Heavy(touched.heavy, user.content, query.column_names, query.large)
    items = None if query.verdict is None else heavy.views(touched.items)
    head = TouchedEvents(ids, first.vhost, sentence, items)
    view = json_of(touched) | json_of(head) | json_of(certainty)
    return events_answer(view, heavy, parts)


ONE_FILE = "/itc_db/touched/{event_id}/{file}"

File = Annotated[
    Name,
    name_schema(r"^[A-Za-z0-9_-][A-Za-z0-9._-]*\.(jsonl|parquet)$"),
    Path(
        description="The file's name: 1 to 200 letters, digits, `.`, `_`, `-`, not beginning with "
        "a dot, ending in `.jsonl` or `.parquet`. With `.manifest.json` behind it, a download is "
        "of its manifest.",
        openapi_examples=example("touched.jsonl"),
    ),
]


@router.put(
    ONE_FILE,
    **returns(
        [(TouchedSummary, Served), (TouchedSummary, Served, Signed)],
        JOB_ANSWERS | answers(507),
        status=201,
        headers=LOCATION,
        links=OF_JOB,
    ),
)
async def make_touched(event_id: EventId, file: File, asker: JobAsker) -> Response:
    """Write every event after one to a file, each with its verdict and the evidence."""
    parts, user = asker.parts, asker.user
    event = await visible_event(parts.store.events, event_id, user, NOTHING_LARGE)
    folder = parts.folders.touched
    request = folder.request(event.vhost, event_id, file, user.name)
    await asker.check_room(request, folder, event_id, file)
    return await asker.submit(request)


@router.get(ONE_FILE, **download_route("The file, or its manifest."))
async def download_touched(event_id: EventId, file: File, user: Reader, parts: Parts) -> Response:
    """Download a file of what an event touched, or its manifest."""
    document = await _visible(event_id, file, user, parts)
    return Download(document.path, media_type=document.media_type, filename=document.path.name)


@router.delete(ONE_FILE, status_code=204, responses=WRITING)
async def delete_touched(event_id: EventId, file: File, user: Writer, parts: Parts) -> None:
    """Remove a file of what an event touched, and its manifest."""
    await _visible(event_id, file, user, parts)
    await asyncio.to_thread(parts.folders.touched.delete, event_id, file)


async def _visible(event_id: int, file: str, user: User, parts: Parts) -> ManifestedFile:
    """A file that the user may see; `ConflictError` while it is being made."""
    try:
        document = await asyncio.to_thread(parts.folders.touched.find, event_id, file)
    except NotFoundError:
        event = await visible_event(parts.store.events, event_id, user, NOTHING_LARGE)
        name = file.removesuffix(".manifest.json")
        request = parts.folders.touched.request(event.vhost, event_id, name, user.name)
        if parts.jobs.find_live(request) is not None:
            raise ConflictError(f"{name} is being made") from None
        raise
    user.must_see(document.vhost, "file")
    return document
