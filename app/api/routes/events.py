"""Events: lists; one event's clocks, past, future and fate; two events compared; the live tail."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request, Response
from msgspec.structs import replace

from app.api.answers import Heavy, heavy_answer
from app.api.certainty import (
    FIRST,
    LAST,
    ListCertainty,
    certainty_between,
    certainty_headers,
    certainty_of_list,
)
from app.api.crossings import EventCrossing, find_crossing, relation_across
from app.api.described import encode_json, json_answer, returns
from app.api.events import (
    CopyFate,
    Deliveries,
    EventColumns,
    EventDetail,
    EventObject,
    EventWalk,
    PageItems,
    Pair,
    Related,
    event_detail,
    event_view,
    relate,
)
from app.api.likely import LikelyAnswer, ground_of
from app.api.openapi import CERTAINTY, READING, READING_ONE, answers, example
from app.api.parameters import PAGE_SIZE
from app.api.rights import reason_to_drop, while_allowed
from app.api.routes.queries import (
    HEADERS,
    CausesQuery,
    EffectsQuery,
    Form,
    ListQuery,
    LiveQuery,
    WalkQuery,
)
from app.api.services import Parts
from app.api.signin.auth import Reader, User
from app.api.streams import HEARTBEAT_SECONDS, EventStream, frame, heartbeat, stream_content
from app.api.tail import TailQuery
from app.errors import BadRequestError, ItcError, NotFoundError
from app.stored.causality import EventLinks, Fate, of_one_trace
from app.stored.reading import EventList, EventPage, Sort, is_quick
from app.traces.life import TraceState
from itc import Relation, compare
from model.answers import IN_ORDER
from model.described import json_of
from model.event import (
    ALL_LARGE,
    CLOCK_ALONE,
    EVENT_FIELDS,
    NOTHING_LARGE,
    Event,
    Large,
    ShownField,
)
from model.sound import Certainty
from model.ways import Direction

if TYPE_CHECKING:
    from app.store.reading.queries import Events

router = APIRouter(tags=["events"])

EventId = Annotated[
    int, Path(ge=1, le=2**63 - 1, description="An event's id.", openapi_examples=example(1))
]
OtherId = Annotated[
    int, Path(ge=1, le=2**63 - 1, description="The other event's id.", openapi_examples=example(2))
]


@router.get(
    "/itc_db",
    **returns(
        [list[EventObject], list[EventColumns], (EventPage, PageItems, ListCertainty)],
        READING_ONE,
        headers=CERTAINTY,
    ),
    openapi_extra=HEADERS,
)
async def list_events(
    query: Annotated[ListQuery, Query()], user: Reader, parts: Parts, request: Request
) -> Response:
    """List events by filter, newest first: as a plain array, a page, or from a cursor on."""
    query.check()
    size = query.page_size or PAGE_SIZE
    if query.after is not None and query.before is None:
        return await _list_after(query, size, query.after, user, parts, request)
    criteria = query.filter_for(user)
    if query.page is None and query.sort is None:
        async with parts.searches.turn(user.name, quick=is_quick(criteria)):
            events = await parts.store.events.find(
                criteria, after=query.after, before=query.before, limit=size, large=query.large
            )
        certainty = await certainty_of_list(criteria, parts)
        heavy = await _heavy(events, query, user, parts)
        return events_answer(heavy.views(events.items), heavy, parts, certainty_headers(certainty))
    number, sort = query.page or 1, query.sort or Sort.id
    async with parts.searches.turn(user.name, quick=is_quick(criteria, sort, (number - 1) * size)):
        page = await parts.store.events.page(
            criteria,
            page=number,
            page_size=size,
            sort=sort,
            descending=query.sort is None or query.sort_reverse,
            large=query.large,
        )
    if number > page.page_count:
        raise BadRequestError(f"page: expected at most {page.page_count}, which is the last")
    certainty = await certainty_of_list(criteria, parts)
    heavy = await _heavy(page, query, user, parts)
    items = heavy.views(page.items)
    if query.page is None:
        return events_answer(items, heavy, parts, certainty_headers(certainty))
    return events_answer(
        json_of(page) | json_of(PageItems(items)) | json_of(certainty), heavy, parts
    )


async def _heavy(
    events: EventList | EventPage, query: ListQuery, user: User, parts: Parts
) -> Heavy:
    """The parts of a list that are still to be read, and its links if the reader wants them."""
    links = None
    if query.links:
        links = await parts.store.causality.edge_causes([row.id for row in events.items])
    return Heavy(events.heavy, user.content, query.column_names, query.large, links)


def events_answer(
    view: Any, heavy: Heavy, parts: Parts, headers: dict[str, str] | None = None
) -> Response:
    answer = heavy_answer(encode_json(view), heavy, parts.store.events, parts.budget)
    answer.headers.update(headers or {})
    return answer


async def _list_after(
    query: ListQuery, size: int, event_id: int, user: User, parts: Parts, request: Request
) -> Response:
    """The events after a cursor; if there is nothing yet and the caller wants to wait, waits."""
    tail = query.tail_query(user, size)
    batch, event_id = await parts.tail.after(tail, event_id, user.name, follow=False)
    if query.wait and not batch.ids:
        first = parts.tail.first_after(tail, event_id, user.name)
        arrival = await while_allowed(first, query.wait, parts, user, request, parts.look_seconds)
        batch = arrival or batch
    return heavy_answer(batch.encoded, batch.heavy, parts.store.events, parts.budget)


@router.get("/itc_db/fields", **returns(list[ShownField], READING))
async def list_fields(user: Reader) -> Response:
    """List the fields of an event, in order: the names that `columns` takes."""
    return json_answer([*EVENT_FIELDS.values()])


@router.get(
    "/itc_db/events/{event_id}",
    **returns((EventDetail, EventObject, EventLinks, EventCrossing), READING_ONE),
)
async def get_event(event_id: EventId, user: Reader, parts: Parts) -> Response:
    """One event with its three clocks and its links."""

    async def answer() -> Any:
        row = await visible_event(parts.store.events, event_id, user)
        handled = await parts.store.spans.handling_times(row)
        vector = await parts.store.participants.vector(row)
        links = await parts.store.causality.links_of(row.trace_id, event_id)
        detail = event_detail(row, vector, handled)
        return event_view(row, user.content) | json_of(detail) | json_of(links), row

    view, row = await parts.store.at_once(answer)
    crossing = await find_crossing(row, user, parts)
    return json_answer(view | json_of(EventCrossing(crossing)))


@router.get(
    "/itc_db/events/{event_id}/causes",
    **returns((EventWalk, Certainty, LikelyAnswer), READING_ONE),
    openapi_extra=HEADERS,
)
async def get_causes(
    event_id: EventId, walk: Annotated[CausesQuery, Query()], user: Reader, parts: Parts
) -> Response:
    """List what happened before an event, nearest first."""
    return await _walk(event_id, -1, walk.before, walk, user, parts)


@router.get(
    "/itc_db/events/{event_id}/effects",
    **returns((EventWalk, Certainty, LikelyAnswer), READING_ONE),
    openapi_extra=HEADERS,
)
async def get_effects(
    event_id: EventId, walk: Annotated[EffectsQuery, Query()], user: Reader, parts: Parts
) -> Response:
    """List what happened after an event, nearest first."""
    return await _walk(event_id, 1, walk.after, walk, user, parts)


async def _walk(
    event_id: int,
    direction: Direction,
    cursor: int | None,
    walk: WalkQuery,
    user: User,
    parts: Parts,
) -> Response:
    event = await visible_event(parts.store.events, event_id, user, NOTHING_LARGE)
    criteria = walk.filter_for(user)
    is_far = cursor is not None or not criteria.names_traces_alone
    async with parts.searches.for_walk(user.name, walk.limit, walk.via, is_far=is_far):
        ground = await ground_of(walk, event.vhost, (event_id,), user, parts)
        part = await parts.store.causality.walk(
            event_id,
            direction,
            walk.limit,
            walk.large,
            ground.via,
            cursor=cursor,
            criteria=criteria,
            overlay=ground.overlay,
        )
    heavy = Heavy(part.heavy, user.content, walk.column_names, walk.large)
    next_id = part.items[-1].id if part.truncated else None
    view = EventWalk(event.id, heavy.views(part.items), part.truncated, next_id)
    end = FIRST if direction == -1 else LAST
    certainty = await certainty_between(event.trace_id, event.id, end, parts)
    return events_answer(json_of(view) | json_of(certainty) | ground.view, heavy, parts)


@router.get("/itc_db/events/{event_id}/deliveries", **returns((Deliveries, Certainty), READING_ONE))
async def get_deliveries(
    event_id: EventId, form: Annotated[Form, Query()], user: Reader, parts: Parts
) -> Response:
    """Show what became of a publish's copy in each queue that it was routed to."""

    async def find() -> Fate:
        await visible_event(parts.store.events, event_id, user, NOTHING_LARGE)
        return await parts.store.copies.fate_of(event_id, form.large)

    fate = await parts.store.at_once(find)
    if fate.is_held:  # in a trace that does not run, nobody knows what has become of it since
        status = await parts.traces.status(fate.publish.vhost)
        fate = fate if status.state is TraceState.running else replace(fate, at=None)
    heavy = Heavy(fate.heavy, user.content, form.column_names, form.large)
    queues = [
        CopyFate(
            copy.queue,
            copy.state,
            heavy.views(fate.events_of(copy, dead=False)),
            heavy.views(fate.events_of(copy, dead=True)),
            [*copy.dead_lettered_to],
            copy.remark if copy.state != "waiting" else None,
        )
        for copy in fate.message.copies
    ]
    view = Deliveries(fate.publish.id, fate.routed_queues, fate.handed_over, fate.sentence, queues)
    certainty = await certainty_between(fate.publish.trace_id, event_id, LAST, parts)
    return events_answer(json_of(view) | json_of(certainty), heavy, parts)


@router.get("/itc_db/compare/{a}/{b}", **returns((Pair, Related, Certainty), READING_ONE))
async def compare_events(a: EventId, b: OtherId, user: Reader, parts: Parts) -> Response:
    """Compare two events, in a word and in a sentence."""

    first, second = await visible_events(parts.store.events, (a, b), user, CLOCK_ALONE)
    if first.trace_id != second.trace_id:
        async with parts.searches.turn(user.name):
            relation, certainty = await relation_across(first, second, user, parts)
        return json_answer(json_of(Pair(a, b)) | json_of(relation) | json_of(certainty))

    async def answer() -> Any:
        relation, certainty = await relation_of(first, second, parts)
        if relation.answer == "cannot have":
            losses = await parts.store.copies.loss_remarks(
                min(first, second, key=lambda event: event.id)
            )
            relation = replace(relation, sentence=relation.sentence + losses)
        return json_of(Pair(a, b)) | json_of(relation) | json_of(certainty)

    return json_answer(await parts.store.at_once(answer))


async def relation_of(
    left: Event, right: Event, parts: Parts, *, is_linked: bool = False
) -> tuple[Related, Certainty]:
    """The relation of two events, and its certainty.

    No clock has a link that was found after its events were stamped; ``is_linked`` says that such
    links connect the two.
    """
    trace_id, path = of_one_trace((left, right)), None
    first_id, last_id = sorted((left.id, right.id))
    relation = compare(left.stamp, right.stamp)
    if relation in IN_ORDER or await parts.store.spans.late_between(trace_id, left.id, right.id):
        path = await parts.store.causality.path(first_id, last_id)
    doubtful = await doubtful_between(left, right, relation, parts)
    if relation is Relation.concurrent and is_linked:
        relation = Relation.before if left.id < right.id else Relation.after
    certainty = await certainty_between(trace_id, left.id, right.id, parts)
    return relate(left, right, relation, path, certainty, doubtful), certainty


async def doubtful_between(
    left: Event, right: Event, relation: Relation, parts: Parts
) -> str | None:
    """The doubtful delivery by which concurrent events may be ordered, as of `statement_of`."""
    if relation is not Relation.concurrent:
        return None
    first, last = sorted((left, right), key=lambda event: event.id)
    doubts = await parts.store.doubts.doubtful(first.trace_id, first.id, last.id)
    assert last.clock is not None  # noqa: S101 - it was read with it
    return doubts.doubt(first.id, last.id, last.clock)


async def visible_event(
    events: Events, event_id: int, user: User, large: Large = ALL_LARGE
) -> Event:
    """An event that the user may see; raises `NotFoundError`, the same for all others."""
    [row] = await visible_events(events, [event_id], user, large)
    return row


async def visible_events(
    events: Events, ids: Sequence[int], user: User, large: Large = ALL_LARGE
) -> Sequence[Event]:
    rows = await events.get_all(ids, large)
    for row in rows:
        if not user.sees(row.vhost):
            raise NotFoundError(f"no event has the id {row.id}")
    return rows


_AT_ONCE = 100  # events in one write
# A reader that is further behind than this would hold the next ones up; it begins again.
BEHIND_EVENTS = 20_000


@router.get(
    "/itc_db/live",
    status_code=200,
    response_class=EventStream,
    responses={
        **answers(400, 401, 429, 503),
        200: stream_content(
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
    """Stream events that match the filter as they are stored."""
    start = _start(last_event_id, query.after, parts)
    tail = query.tail_query(user, _AT_ONCE, frames=True)
    frames = _frames(tail, start, user, parts, request)
    parts.subscribers.admit()
    return EventStream(frames, parts.subscribers.leave)


def _start(last_event_id: str | None, cursor: int | None, parts: Parts) -> int:
    if last_event_id is None:
        return parts.tail.feed.latest if cursor is None else cursor
    if not last_event_id.isascii() or not last_event_id.isdecimal() or len(last_event_id) > 18:
        raise BadRequestError("invalid Last-Event-ID: expected the id of an event")
    return int(last_event_id)


async def _frames(
    query: TailQuery, start: int, user: User, parts: Parts, request: Request
) -> AsyncGenerator[bytes, None]:
    """Batches from ``start`` on; a notice when the stream cannot continue."""
    cursor = start
    limit = parts.tail.feed.latest - start + BEHIND_EVENTS
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
        elif not await parts.tail.wait_for_more(cursor, quiet, parts.stopping):
            yield heartbeat(cursor)
        if parts.tail.feed.latest - cursor > limit:
            parts.subscribers.dropped += 1
            yield frame(
                "dropped",
                {"reason": "too slow: resume with Last-Event-ID, or use a narrower filter"},
            )
            return
