"""Events: lists, one with its clocks, its past, its future, its fate; two compared."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from app.api.causality import CLOCK_ALONE, comparison, deliveries_view
from app.api.openapi import READING, READING_ONE, example
from app.api.ports import Events
from app.api.routes.queries import Form, ListQuery, WalkQuery
from app.api.schemas.causality import Comparison, Deliveries, EventWalk
from app.api.schemas.events import Event as EventModel
from app.api.schemas.events import EventColumns, EventDetail, EventField, EventPage
from app.api.services import Parts, Services
from app.api.signin.auth import Reader, User
from app.api.tail import TailQuery
from app.api.views import event_detail, event_views, field_views, json_answer, page_view
from app.errors import NotFoundError
from app.stored.causality import Walk
from app.stored.pages import Sort
from model.event import EVERYTHING, NOTHING_LARGE, Event, Large

router = APIRouter(tags=["events"])

EventId = Annotated[
    int, Path(ge=1, le=2**63 - 1, description="An event's id.", openapi_examples=example(1))
]
OtherId = Annotated[
    int, Path(ge=1, le=2**63 - 1, description="The other event's id.", openapi_examples=example(2))
]


@router.get(
    "/itc_db",
    response_model=list[EventModel] | list[EventColumns] | EventPage,
    responses=READING,
)
async def list_events(query: Annotated[ListQuery, Query()], user: Reader, parts: Parts) -> Response:
    """Events by filter, newest first: a plain array, a page, or what comes after a cursor."""
    query.check()
    size = _page_size(query, parts)
    if query.after is not None and query.before is None:
        return await _list_after(query, size, query.after, user, parts)
    asked = query.filter_for(user)
    if query.page is None and query.sort is None:
        rows = await parts.store.events.list(
            asked, after=query.after, before=query.before, limit=size, large=query.large
        )
        return json_answer(event_views(rows, query.chosen))
    page = await parts.store.events.page(
        asked,
        page=query.page or 1,
        page_size=size,
        sort=Sort(query.sort or "id"),
        descending=query.sort is None or query.sort_reverse,
        large=query.large,
    )
    view = page_view(page, query.chosen)
    return json_answer(view if query.page is not None else view["items"])


def _page_size(query: ListQuery, parts: Services) -> int:
    return min(query.page_size or parts.settings.page_size, parts.settings.page_size_max)


async def _list_after(
    query: ListQuery, size: int, event_id: int, user: User, parts: Services
) -> Response:
    """What comes after a cursor; if there is nothing yet and the caller wants to wait, waits."""
    following = TailQuery(
        query.filter_for(user), query.chosen, payload=query.payload == "full", limit=size
    )
    batch = await parts.tail.first_after(
        following,
        event_id,
        min(query.wait or 0.0, parts.settings.wait_seconds_max),
        parts.stopping,
    )
    return Response(batch.array, media_type="application/json")


@router.get("/itc_db/fields", response_model=list[EventField], responses=READING)
async def list_fields(user: Reader) -> Response:
    """The fields of the event object, in their order: what `columns` may name."""
    return json_answer(field_views())


@router.get("/itc_db/events/{event_id}", response_model=EventDetail, responses=READING_ONE)
async def get_event(event_id: EventId, user: Reader, parts: Parts) -> Response:
    """One event with its three clocks."""
    row = await visible_event(parts.store.events, event_id, user)
    return json_answer(event_detail(row, await parts.store.participants.vector(row)))


@router.get("/itc_db/events/{event_id}/causes", response_model=EventWalk, responses=READING_ONE)
async def get_causes(
    event_id: EventId, walk: Annotated[WalkQuery, Query()], user: Reader, parts: Parts
) -> Response:
    """What happened before an event, nearest first."""
    await visible_event(parts.store.events, event_id, user, NOTHING_LARGE)
    limit = min(walk.limit, parts.settings.walk_limit_max)
    return _walk_answer(
        event_id, await parts.store.causality.causes(event_id, limit, walk.large), walk
    )


@router.get("/itc_db/events/{event_id}/effects", response_model=EventWalk, responses=READING_ONE)
async def get_effects(
    event_id: EventId, walk: Annotated[WalkQuery, Query()], user: Reader, parts: Parts
) -> Response:
    """What happened after an event, nearest first."""
    await visible_event(parts.store.events, event_id, user, NOTHING_LARGE)
    limit = min(walk.limit, parts.settings.walk_limit_max)
    return _walk_answer(
        event_id, await parts.store.causality.effects(event_id, limit, walk.large), walk
    )


def _walk_answer(event_id: int, found: Walk, walk: WalkQuery) -> Response:
    items = event_views(found.items, walk.chosen)
    return json_answer({"event": event_id, "items": items, "truncated": found.truncated})


@router.get(
    "/itc_db/events/{event_id}/deliveries", response_model=Deliveries, responses=READING_ONE
)
async def get_deliveries(
    event_id: EventId, form: Annotated[Form, Query()], user: Reader, parts: Parts
) -> Response:
    """A publish's fate: what became of its copy in each queue it was routed to."""
    await visible_event(parts.store.events, event_id, user, NOTHING_LARGE)
    fate = await parts.store.deliveries.fate_of(event_id, form.large)
    return json_answer(deliveries_view(fate, form.chosen))


@router.get("/itc_db/compare/{a}/{b}", response_model=Comparison, responses=READING_ONE)
async def compare_events(a: EventId, b: OtherId, user: Reader, parts: Parts) -> Response:
    """How two events are related, in a word and in a sentence."""
    one = await visible_event(parts.store.events, a, user, CLOCK_ALONE)
    other = await visible_event(parts.store.events, b, user, CLOCK_ALONE)
    gaps = await parts.store.gaps.between(one.trace_id, a, b)
    return json_answer(comparison(one, other, gaps))


async def visible_event(
    events: Events, event_id: int, user: User, large: Large = EVERYTHING
) -> Event:
    """An event that the user may see; raises `NotFoundError`, the same for all others."""
    row = await events.get(event_id, large)
    if not user.sees(row.vhost):
        raise NotFoundError(f"no event has the id {event_id}")
    return row
