"""Conversations: what began with a message, found by index look-ups from the nearest event on.

From an event the walk goes back to the smallest cause each time, and from the root to all that it
led to; the cost grows with the answer. In a list, the conversations of many roots are found by one
walk together.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import msgspec
from sqlalchemy import ColumnElement, exists, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import BadRequestError
from app.store.conversations.conversing import Conversing
from app.store.conversations.roots import Roots
from app.store.database import tables
from app.store.database.chunks import rows_with
from app.store.database.engine import Dialect
from app.store.database.lanes import Lane
from app.store.database.searched import (
    is_conversation,
    is_searched_conversation,
    run_in_sql,
    searched_keys,
)
from app.store.database.subject import Subject, searches
from app.store.reading.events import by_id
from app.store.reading.queries import ids_of
from app.stored.conversations import (
    ConversationFilter,
    ConversationPage,
    FoundConversation,
    ListedConversation,
)
from app.stored.likely import NO_OVERLAY, Overlay
from app.stored.reading import EventFilter
from model.event import NOTHING_LARGE
from model.words import EdgeKind, EventType, Via

# How many conversations of a list are found together.
TOGETHER = 50
# Of the events that fit what a message says, the newest are looked at.
MOST_FITTING = 1_000
# A list that is not full by then ends with what it has (s).
PATIENCE = 4.0

# The next roots before an event, or the first (None).
_RootsBefore: TypeAlias = Callable[[AsyncConnection, int | None], Awaitable[Sequence[int]]]


class Conversations(Subject):
    """The conversations of all traces."""

    @searches
    async def of_event(
        self,
        connection: AsyncConnection,
        event_id: int,
        via: Via,
        *,
        limit: int = 1_000,
        after: int | None = None,
        overlay: Overlay = NO_OVERLAY,
    ) -> FoundConversation:
        """The conversation of an event: of the walk through it, up to ``limit`` events.

        Only messages that were published after the event ``after``; an ``overlay`` has likely
        links and keys, too. Raises `NotFoundError`, and `BadRequestError` if it takes too long.
        """
        start = await by_id(connection, event_id, NOTHING_LARGE)
        trace = await Conversing.of(connection, self.database.dialect, start.trace_id, overlay)
        began = await trace.roots_of(event_id, start.cause, via)
        page, following = await trace.reached(began, via, limit, after)
        conversation, others = await trace.told(page, via, truncated=following is not None)
        return FoundConversation(
            event=event_id,
            root=began[0],
            trace_id=start.trace_id,
            vhost=start.vhost,
            via=via.value,
            conversation=conversation,
            other_roots=others,
            last=max([began[0], *page.ids]),
            next=following,
        )

    async def list(
        self,
        asked: EventFilter,
        wanted: ConversationFilter,
        via: Via,
        *,
        before_id: int | None = None,
        limit: int = 50,
    ) -> ConversationPage:
        """Conversations with roots before the event ``before_id``, the newest roots first.

        Where ``asked`` names virtual hosts and times alone, these are of the roots; otherwise the
        conversations of the events that it asks for. Raises `BadRequestError` as
        `app.store.reading.queries.Events.find`.
        """
        dialect, size = self.database.dialect, min(TOGETHER, max(limit, 1))

        async def newest(connection: AsyncConnection, at: int | None) -> Sequence[int]:
            return await ids_of(
                connection, dialect, asked, before=at, limit=size + 1, only=_begins(via)
            )

        if asked.is_of_times_alone:
            return await self._page(newest, via, before_id, size, wanted, limit)

        async def fitting(connection: AsyncConnection) -> tuple[list[int], bool]:
            ids = await ids_of(connection, dialect, asked, limit=MOST_FITTING)
            roots = await _roots_of(connection, dialect, ids, via)
            return roots, len(ids) == MOST_FITTING

        roots, is_cut = await self.database.search(Lane.search, fitting)

        async def left(_: AsyncConnection, at: int | None) -> Sequence[int]:
            return [root for root in roots if at is None or root < at]

        page = await self._page(left, via, before_id, TOGETHER, wanted, limit)
        return msgspec.structs.replace(page, truncated=page.truncated or is_cut)

    async def _page(
        self,
        roots_before: _RootsBefore,
        via: Via,
        at: int | None,
        size: int,
        wanted: ConversationFilter,
        limit: int,
    ) -> ConversationPage:
        """Up to ``limit`` that are wanted, with the conversations of ``size`` roots at a time.

        What takes too long ends it, if something was found before.
        """

        async def work(connection: AsyncConnection) -> tuple[list[int], list[ListedConversation]]:
            roots = [*await roots_before(connection, at)]
            some = roots[:size]
            return roots, await _evaluated(connection, self.database.dialect, some, via)

        items: list[ListedConversation] = []
        looked_at, since, ends = 0, None, time.monotonic() + PATIENCE
        while True:
            try:
                roots, evaluated = await self.database.search(Lane.search, work)
            except BadRequestError:
                if not looked_at:
                    raise
                break
            by_root = {each.root: each for each in evaluated}
            for root in roots[:size]:
                looked_at, at = looked_at + 1, root
                each = by_root.get(root)
                if each is not None:
                    since = each.began_at
                    items += [each] * wanted.lets_through(each.conversation)
                if len(items) == limit:
                    break
            if not roots or at == roots[-1]:
                at = None
                break
            if len(items) == limit or time.monotonic() > ends:
                break
        return ConversationPage(items, at is not None, at, looked_at, since)


def _begins(via: Via) -> list[ColumnElement[bool]]:
    events, edges = tables.events.c, tables.edges.c
    causes = tables.events.alias("causes").c
    named = exists().where(
        edges.effect_id == events.id,
        edges.kind != int(EdgeKind.candidate),
        causes.id == edges.cause_id,
    )
    conditions = [events.type == int(EventType.published), ~events.quiet, ~named]
    if via is Via.conversation:
        mine, earlier = tables.keys.alias("mine").c, searched_keys.alias("earlier").c
        others = tables.events.alias("others").c
        shares = exists().where(
            mine.trace_id == events.trace_id,
            mine.event_id == events.id,
            is_conversation(mine.roles),
            earlier.trace_id == mine.trace_id,
            earlier.key == mine.key,
            earlier.event_id < mine.event_id,
            earlier.run >= run_in_sql(mine.event_id),
            is_searched_conversation(earlier.roles),
            others.id == earlier.event_id,
            ~others.quiet,
        )
        conditions.append(~shares)
    return conditions


async def _roots_of(
    connection: AsyncConnection, dialect: Dialect, ids: Sequence[int], via: Via
) -> list[int]:
    found: set[int] = set()
    for (trace_id, _), some in (await _by_trace(connection, ids)).items():
        roots = await Roots.of(connection, dialect, trace_id)
        ends = set((await roots.ends_of(some)).values())
        if via is Via.conversation:
            ends = {(await roots.roots_of(each, None, via))[0] for each in sorted(ends)}
        found |= ends
    return sorted(found, reverse=True)


async def _evaluated(
    connection: AsyncConnection, dialect: Dialect, roots: Sequence[int], via: Via
) -> list[ListedConversation]:
    """The conversations of roots, in any order; without what began elsewhere after all."""
    found = []
    for (trace_id, vhost), some in (await _by_trace(connection, roots)).items():
        trace = await Conversing.of(connection, dialect, trace_id)
        if via is Via.links:
            evaluated = await trace.told_together(some)
        else:
            evaluated = [each for root in some if (each := await trace.told_alone(root, via))]
        found += [ListedConversation.of(vhost, each) for each in evaluated]
    return found


async def _by_trace(
    connection: AsyncConnection, ids: Sequence[int]
) -> dict[tuple[int, str], list[int]]:
    """Events in order, by their trace and its virtual host."""
    found: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
    events, traces = tables.events.c, tables.traces.c
    query = select(traces.id, traces.vhost, events.id).order_by(events.id)
    query = query.join_from(tables.events, tables.traces, traces.id == events.trace_id)
    for trace_id, vhost, event_id in await rows_with(connection, query, events.id, ids):
        found[trace_id, vhost].append(event_id)
    return found
