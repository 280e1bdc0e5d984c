"""Conversations: all that began with a message, by index look-ups from the nearest event on.

From an event the walk goes back to the smallest cause each time, and from the root to all that it
led to; the cost grows with the answer. A list finds the conversations of many roots by one walk.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TypeAlias

import msgspec
from sqlalchemy import ColumnElement, exists, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import BadRequestError
from app.store.causality.copies import back_in_queues
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
from app.store.reading.queries import ids_of, ids_that_fit
from app.stored.conversations import (
    ConversationFilter,
    ConversationPage,
    FoundConversation,
    ListedConversation,
    StateCount,
)
from app.stored.likely import NO_OVERLAY, Overlay
from app.stored.reading import EventFilter
from model.conversations.states import State
from model.event import NOTHING_LARGE
from model.words import EdgeKind, EventType, Via

_copies = tables.copies.c
_edges = tables.edges.c
_events = tables.events.c
_traces = tables.traces.c

# Conversations of a list that are found together.
BATCH = 50
# Events that match a filter on messages and are read, the newest.
MOST_FITTING = 1_000
# Messages that wait and are read, of each queue those of longest: behind one that is stuck, others
# come and go.
MOST_WAITING = 400
# After this time (s) a list ends with the conversations that it has, full or not.
PATIENCE = 4.0

# The next roots after one in the list's order, or the first (None).
_NextRoots: TypeAlias = Callable[[AsyncConnection, int | None], Awaitable[Sequence[int]]]


class Conversations(Subject):
    """Conversations of all traces."""

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
        """The conversation of an event, up to ``limit`` events after the event ``after``.

        An ``overlay`` adds likely links and keys. Raises `NotFoundError`, and `BadRequestError` if
        it takes too long.
        """
        start = await by_id(connection, event_id, NOTHING_LARGE)
        trace = await Conversing.of_trace(
            connection, self.database.dialect, start.trace_id, overlay
        )
        roots = await trace.roots_of(event_id, start.cause, via)
        page, next_id = await trace.walk(roots, via, limit, after)
        conversation, other_roots = await trace.describe(page, via, truncated=next_id is not None)
        return FoundConversation(
            event=event_id,
            root=roots[0],
            trace_id=start.trace_id,
            vhost=start.vhost,
            via=via.value,
            conversation=conversation,
            other_roots=other_roots,
            last=max([roots[0], *page.ids, *conversation.delivery_events()]),
            next=next_id,
        )

    async def list(
        self,
        criteria: EventFilter,
        choice: ConversationFilter,
        via: Via,
        *,
        before_id: int | None = None,
        limit: int = 50,
    ) -> ConversationPage:
        """Conversations, newest roots first, of roots before the event ``before_id``.

        ``criteria`` of virtual hosts and times alone are the roots'; otherwise these are the
        conversations of matching events. Those that wait are listed the other way round, oldest
        roots first. Raises `BadRequestError` as `app.store.reading.queries.Events.find`.
        """
        dialect, size = self.database.dialect, min(BATCH, max(limit, 1))

        async def newest_roots(connection: AsyncConnection, cursor: int | None) -> Sequence[int]:
            return await ids_of(
                connection, dialect, criteria, before=cursor, limit=size + 1, extra=_begins(via)
            )

        is_waiting = choice.state is State.waiting
        if criteria.is_of_times_alone and not is_waiting:
            return await self._page(newest_roots, via, before_id, size, choice, limit)

        async def all_roots(connection: AsyncConnection) -> tuple[list[int], bool]:
            if criteria.is_of_times_alone:
                ids, is_more = await _waiting(connection, criteria.visible)
                roots, is_cut = await _roots_of(connection, dialect, ids, via, every=True)
                fitting = await ids_that_fit(connection, dialect, criteria, [*roots])
                return sorted(fitting), is_cut or is_more
            ids = await ids_of(connection, dialect, criteria, limit=MOST_FITTING)
            roots, is_cut = await _roots_of(connection, dialect, ids, via, every=is_waiting)
            return sorted(roots, reverse=not is_waiting), is_cut or len(ids) == MOST_FITTING

        roots, is_cut = await self.database.search(Lane.search, all_roots)

        async def rest(_: AsyncConnection, cursor: int | None) -> Sequence[int]:
            if cursor is None:
                return roots
            return [root for root in roots if (root > cursor if is_waiting else root < cursor)]

        page = await self._page(rest, via, before_id, BATCH, choice, limit)
        return msgspec.structs.replace(page, truncated=page.truncated or is_cut)

    async def _page(
        self,
        next_roots: _NextRoots,
        via: Via,
        cursor: int | None,
        size: int,
        choice: ConversationFilter,
        limit: int,
    ) -> ConversationPage:
        """Up to ``limit`` conversations of the ``choice``, read for ``size`` roots at a time."""

        async def work(connection: AsyncConnection) -> tuple[list[int], list[ListedConversation]]:
            roots = [*await next_roots(connection, cursor)]
            batch = roots[:size]
            return roots, await _evaluate(connection, self.database.dialect, batch, via)

        items: list[ListedConversation] = []
        states: dict[State, StateCount] = {}
        looked_at, oldest_at, ends = 0, None, time.monotonic() + PATIENCE
        while True:
            try:
                roots, evaluated = await self.database.search(Lane.search, work)
            except BadRequestError:  # it took too long
                if not looked_at:
                    raise
                break
            by_root = {conversation.root: conversation for conversation in evaluated}
            for root in roots[:size]:
                looked_at, cursor = looked_at + 1, root
                conversation = by_root.get(root)
                if conversation is not None:
                    oldest_at = min(oldest_at or conversation.began_at, conversation.began_at)
                    if choice.lets_through(conversation.conversation):
                        state = conversation.state
                        count = states.get(state, StateCount(state, 0, None))
                        states[state] = count.with_one(conversation.position)
                        items += [conversation] * (choice.state in (None, state))
                if len(items) == limit:
                    break
            if not roots or cursor == roots[-1]:
                cursor = None
                break
            if len(items) == limit or time.monotonic() > ends:
                break
        counts = [*states.values()]
        return ConversationPage(items, cursor is not None, cursor, looked_at, oldest_at, counts)


def _begins(via: Via) -> list[ColumnElement[bool]]:
    causes = tables.events.alias("causes").c
    has_cause = exists().where(
        _edges.effect_id == _events.id,
        _edges.kind != int(EdgeKind.candidate),
        causes.id == _edges.cause_id,
    )
    conditions = [_events.type == int(EventType.published), ~_events.quiet, ~has_cause]
    if via is Via.conversation:
        own_keys, earlier_keys = tables.keys.alias("mine").c, searched_keys.alias("earlier").c
        earlier_events = tables.events.alias("others").c
        shares = exists().where(
            own_keys.trace_id == _events.trace_id,
            own_keys.event_id == _events.id,
            is_conversation(own_keys.roles),
            earlier_keys.trace_id == own_keys.trace_id,
            earlier_keys.key == own_keys.key,
            earlier_keys.event_id < own_keys.event_id,
            earlier_keys.run >= run_in_sql(own_keys.event_id),
            is_searched_conversation(earlier_keys.roles),
            earlier_events.id == earlier_keys.event_id,
            ~earlier_events.quiet,
        )
        conditions.append(~shares)
    return conditions


async def _roots_of(
    connection: AsyncConnection, dialect: Dialect, ids: Sequence[int], via: Via, *, every: bool
) -> tuple[set[int], bool]:
    """The roots of the conversations of events, or of ``every`` one that led to them.

    :returns: these, and whether there may be others, too far back.
    """
    result, is_cut = set[int](), False
    for (trace_id, _), event_ids in (await _by_trace(connection, ids)).items():
        trace_roots = await Roots.of_trace(connection, dialect, trace_id)
        if every:
            ends, is_further = await trace_roots.beginnings_of(event_ids)
            is_cut |= is_further
        else:
            ends = set((await trace_roots.ends_of(event_ids)).values())
        if via is Via.conversation:
            ends = {(await trace_roots.roots_of(end, None, via))[0] for end in sorted(ends)}
        result |= ends
    return result, is_cut


async def _waiting(
    connection: AsyncConnection, vhosts: Collection[str] | None
) -> tuple[Sequence[int], bool]:
    """The messages that wait, and whether there may be more.

    Of each queue those that no consumer was handed for longest; and those that came back to one.
    """
    place = func.row_number().over(
        partition_by=(_copies.trace_id, _copies.queue), order_by=_copies.number
    )
    of_queue = select(_copies.event_id, place.label("place"))
    if vhosts is not None:
        of_queue = of_queue.join(tables.traces, _traces.id == _copies.trace_id)
        of_queue = of_queue.where(_traces.vhost.in_(vhosts))
    copy = of_queue.subquery().c
    query = select(copy.event_id).group_by(copy.event_id)
    query = query.order_by(func.min(copy.place), copy.event_id).limit(MOST_WAITING)
    new = (await connection.execute(query)).scalars().all()
    own = select(_traces.id)
    own = own if vhosts is None else own.where(_traces.vhost.in_(vhosts))
    returned = back_in_queues(_events.trace_id.in_(own)).order_by(_events.id).limit(MOST_WAITING)
    back = (await connection.execute(returned)).scalars("cause_id").all()
    return [*new, *back], MOST_WAITING in (len(new), len(back))


async def _evaluate(
    connection: AsyncConnection, dialect: Dialect, roots: Sequence[int], via: Via
) -> list[ListedConversation]:
    """The conversations of roots, in any order, without those that began elsewhere."""
    conversations = []
    for (trace_id, vhost), root_ids in (await _by_trace(connection, roots)).items():
        trace = await Conversing.of_trace(connection, dialect, trace_id)
        if via is Via.links:
            evaluated = await trace.describe_many(root_ids)
        else:
            evaluated = [
                conversation
                for root in root_ids
                if (conversation := await trace.describe_alone(root, via))
            ]
        conversations += [ListedConversation.of(vhost, conversation) for conversation in evaluated]
    return conversations


async def _by_trace(
    connection: AsyncConnection, ids: Sequence[int]
) -> dict[tuple[int, str], list[int]]:
    """Events in order, by trace and virtual host."""
    ids_by_trace: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
    query = select(_traces.id, _traces.vhost, _events.id).order_by(_events.id)
    query = query.join_from(tables.events, tables.traces, _traces.id == _events.trace_id)
    for trace_id, vhost, event_id in await rows_with(connection, query, _events.id, ids):
        ids_by_trace[trace_id, vhost].append(event_id)
    return ids_by_trace
