"""The chain between two events at once, and what events touched: at once, or written to a file."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from pydantic import Field, field_validator

from app.api.answers import Heavy
from app.api.described import answering
from app.api.events import ChainEnds, Related, TouchedEvents
from app.api.likely import SAID, LikelyAnswer, LikelyQuery, ground_of
from app.api.openapi import LOCATION, READING_ONE, WRITING, answers, example
from app.api.parameters import Name, WalkLimit, Word
from app.api.routes.downloads import Download, called, downloading
from app.api.routes.events import (
    LAST,
    EventId,
    OtherId,
    events_answer,
    relation_of,
    spanned,
    visible_event,
    visible_events,
)
from app.api.routes.queries import AfterNext, Form
from app.api.routes.submitting import MAKING, OF_JOB, Asking
from app.api.services import Parts
from app.api.signin.auth import Reader, User, Writer
from app.errors import BadRequestError, ConflictError, NotFoundError
from app.jobs.folders import ManifestedFile
from app.stored.causality import ChainPart, Touched, of_one_trace
from model.answers import Verdict, touched_sentence
from model.described import shown
from model.event import CLOCK_ALONE, NOTHING_LARGE
from model.evidence import Signed, TouchedSummary
from model.jobs import Served
from model.sound import Certainty
from model.times import MINUTE
from model.words import Until, Via, WalkWord

router = APIRouter(tags=["events"])

MOST_EVENTS = 100
BETWEEN = (
    "`links`: what messages, and links to what they name as their cause, lead through from one "
    "event to the other. `conversation`: also from what a participant received in a conversation "
    "to what it published in it later. `any`: all that lies between them in causal order."
)


class ChainQuery(Form, LikelyQuery):
    """Bounds on a chain."""

    limit: WalkLimit = Field(200, description="Most events in the answer; at most 1000.")
    via: WalkWord = Field("any", description=BETWEEN + SAID)
    after: AfterNext = None


@router.get(
    "/itc_db/chain/{a}/{b}",
    **answering((ChainEnds, ChainPart, Related, Certainty, LikelyAnswer), READING_ONE),
)
async def get_chain(
    a: EventId, b: OtherId, query: Annotated[ChainQuery, Query()], user: Reader, parts: Parts
) -> Response:
    """The chain between two events, whichever was first: what is said of them, and its events."""
    one, other = await visible_events(parts.store.events, (a, b), user, CLOCK_ALONE)
    of_one_trace((one, other))
    if a == b:
        raise BadRequestError("a chain needs two events; both ids are the same")
    via, limit = query.via, query.limit
    is_far = query.after is not None or via != "any"
    async with parts.searches.for_walk(user.name, limit, via, is_far=is_far):
        ground = await ground_of(query, one.vhost, (a, b), user, parts)
        found = await parts.store.chains.between(
            a, b, limit, query.large, ground.via, after=query.after, overlay=ground.overlay
        )
    said, certainty = await relation_of(one, other, parts, is_linked=bool(found.count))
    heavy = Heavy(found.heavy, user.content, query.chosen, query.large)
    ends = ChainEnds(a, b, via, min(a, b), max(a, b), heavy.views(found.items))
    view = shown(ends) | shown(said) | shown(found) | shown(certainty) | ground.shown
    return events_answer(view, heavy, parts)


EventNumber = Annotated[int, Field(ge=1, le=2**63 - 1)]


class TouchedQuery(Form):
    """Whose future, and which part of it as a list."""

    # By assignment: in an annotation the example would be lost.
    events: list[EventNumber] = Query(
        min_length=1,
        max_length=MOST_EVENTS,
        description="The ids of 1 to 100 events of one virtual host, comma separated.",
        openapi_examples=example(1),
    )
    verdict: Word[Verdict] | None = Field(
        None,
        description="List these events: those that were caused, may have been, cannot have been, "
        "or of which it is unknown.",
    )
    limit: WalkLimit = Field(100, description="Most events in the list; at most 1000.")
    after: AfterNext = None
    to: EventNumber = Field(LAST, description="Only of what came up to this event.")
    until: Word[Until] = Field(
        Until.now,
        description="Only of what was recorded in the `minute` after the last of them, or before a "
        "`gap` begins.",
    )

    @field_validator("events", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        """``events=1,2`` as well as ``events=1&events=2``."""
        given = value if isinstance(value, list) else [value]
        return [part for each in given for part in str(each).split(",")][: MOST_EVENTS + 1]


@router.get("/itc_db/touched", **answering((TouchedEvents, Touched, Certainty), READING_ONE))
async def get_touched(
    query: Annotated[TouchedQuery, Query()], user: Reader, parts: Parts
) -> Response:
    """Count the events since that were caused by some events, may have been, or cannot have been.

    And those of which it is unknown, because the publish of a delivery in their past was not seen.
    With a verdict also these events, by id. Of several events: by any of them.
    """
    ids = sorted({*query.events})
    events = await visible_events(parts.store.events, ids, user, NOTHING_LARGE)
    limit, to, trace_id, first = query.limit, query.to, of_one_trace(events), events[0]
    async with parts.searches.for_walk(user.name, limit, Via.links, is_far=True):
        if query.until is Until.minute:
            to = min(to, await parts.store.touched.last_within(ids[-1], MINUTE))
        elif query.until is Until.gap:
            gaps = await parts.store.gaps.between(trace_id, ids[-1], to)
            to = min([to, *(max(each.after_event_id, ids[-1]) for each in gaps)])
        found = await parts.store.touched.by(
            ids,
            verdict=query.verdict,
            limit=limit,
            large=query.large,
            after=query.after,
            to=to,
        )
    # Of a minute, what may be missing behind its last event is not known to be later.
    certainty = await spanned(trace_id, first.id, to + (query.until is Until.minute), parts)
    sentence = touched_sentence(
        len(ids),
        found.since,
        found.caused,
        found.may_have,
        found.unknown,
        cut=found.caused_truncated,
        complete=certainty.complete,
        sound=certainty.sound,
    )
    heavy = Heavy(found.heavy, user.content, query.chosen, query.large)
    items = None if query.verdict is None else heavy.views(found.items)
    listed = TouchedEvents(ids, first.vhost, sentence, items)
    view = shown(found) | shown(listed) | shown(certainty)
    return events_answer(view, heavy, parts)


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
