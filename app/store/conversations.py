"""Conversations: what began with a message, found by index look-ups from the nearest event on.

From an event the walk goes back to the smallest cause each time, and from the root to all that it
led to; the cost grows with the answer. In a list, the conversations of many roots are found by one
walk together.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from sqlalchemy import ColumnElement, bindparam, exists, func, or_, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import BadRequestError
from app.store import links, tables
from app.store.causality import nearest, neighbours_along
from app.store.chunks import chunks
from app.store.deliveries import shares_of
from app.store.events import by_id, by_ids, found_by_ids
from app.store.links import Neighbours
from app.store.queries import ids_of
from app.store.spans import handled_by
from app.store.subject import Subject
from app.stored.conversations import (
    MOST_OTHER_ROOTS,
    ConversationFilter,
    ConversationPage,
    FoundConversation,
    ListedConversation,
)
from app.stored.filters import EventFilter
from app.stored.lanes import Lane
from model.conversations import Cause, Conversation, Happened, conversation_of, happened, preferred
from model.event import NOTHING_LARGE
from model.message_types import is_in_body, type_of
from model.words import IS_CONVERSATION, EventType, LinkKind, Via

# The deliveries of a page's messages are read up to this many.
MOST_DELIVERIES = 10_000
# A way back to a root has at most this many steps.
MOST_STEPS = 10_000
# Events that share a key with a conversation are looked for up to this many, and so many keys.
MOST_SHARING, MOST_SHARED = 2_000, 100
# Messages outside a conversation whose roots are looked for.
MOST_FOREIGN = 100
# In a list: how many are found together, how many events of each, and of all in one step.
TOGETHER, MOST_EACH, MOST_A_STEP = 50, 1_000, 10_000
# Of the events that fit what a message says, the newest are looked at.
MOST_FITTING = 1_000
# A list that is not full by then ends with what it has (s).
PATIENCE = 4.0

T = TypeVar("T")

_WAY_BACK = text(
    "WITH RECURSIVE back(id, steps) AS ("
    " SELECT CAST(:id AS BIGINT), 0"
    " UNION ALL SELECT ("
    "SELECT min(cause) FROM ("
    "SELECT cause_id AS cause FROM events WHERE id = back.id AND cause_id >= :first AND NOT quiet"
    " UNION ALL SELECT cause_id FROM edges"
    " WHERE effect_id = back.id AND cause_id >= :first AND kind <> :groups"
    " AND NOT EXISTS (SELECT 1 FROM events WHERE id = back.id AND quiet)"
    ") AS causes), steps + 1 FROM back WHERE id IS NOT NULL AND steps < :most"
    ") SELECT id FROM back WHERE id IS NOT NULL ORDER BY steps"
).bindparams(groups=int(LinkKind.conversation), most=MOST_STEPS)
# With those of quiet traffic: a copy that was handed over does not wait.
_DELIVERIES = text(
    "SELECT id FROM events WHERE cause_id IN :ids ORDER BY id LIMIT :most"
).bindparams(bindparam("ids", expanding=True))


class _Origin(NamedTuple):
    """Where a conversation began: its root, and all events that nothing led to."""

    root: int
    roots: list[int]


class _Page(NamedTuple):
    """The ids of events, which of them nothing led to, and all that are known to belong there."""

    ids: list[int]
    roots: frozenset[int]
    members: Collection[int]


class Conversations(Subject):
    """The conversations of all traces."""

    async def of_event(
        self, event_id: int, via: Via, *, limit: int = 1_000, after: int | None = None
    ) -> FoundConversation:
        """The conversation of an event: of the walk through it, up to ``limit`` events.

        Only messages that were published after the event ``after``. Raises `NotFoundError`, and
        `BadRequestError` if it takes too long.
        """
        return await self.database.search(
            Lane.search, lambda connection: _of_event(connection, event_id, via, limit, after)
        )

    async def list(
        self,
        asked: EventFilter,
        wanted: ConversationFilter,
        via: Via,
        *,
        before: int | None = None,
        limit: int = 50,
    ) -> ConversationPage:
        """Conversations, those with the newest roots first, of roots before the event ``before``.

        Where ``asked`` names virtual hosts and times alone, these are of the roots; otherwise the
        conversations of the events that it asks for. Raises `BadRequestError` as
        `app.store.queries.Events.list`.
        """
        if _names_roots_alone(asked):
            return await self._newest(asked, wanted, via, before, limit)
        return await self._of_fitting(asked, wanted, via, before, limit)

    async def _newest(
        self,
        asked: EventFilter,
        wanted: ConversationFilter,
        via: Via,
        before: int | None,
        limit: int,
    ) -> ConversationPage:
        async def work(connection: AsyncConnection) -> tuple[list[int], list[ListedConversation]]:
            ids = await ids_of(
                connection,
                self.database.dialect,
                asked,
                before=at,
                limit=size,
                only=_begins(via),
            )
            return [*ids], await _evaluated(connection, ids, via)

        listing, at = _Listing(wanted, limit), before
        while True:
            size = min(TOGETHER, max(limit, 1))
            found = await self._patiently(work, listing)
            if found is None:
                return listing.result(at)
            roots, evaluated = found
            cut = listing.add(roots, evaluated)
            if cut is not None:
                return listing.result(cut)
            if len(roots) < size:
                return listing.result(None)
            at = roots[-1]
            if listing.is_over:
                return listing.result(at)

    async def _of_fitting(
        self,
        asked: EventFilter,
        wanted: ConversationFilter,
        via: Via,
        before: int | None,
        limit: int,
    ) -> ConversationPage:
        async def fitting(connection: AsyncConnection) -> tuple[list[int], bool]:
            ids = await ids_of(
                connection, self.database.dialect, asked, before=None, limit=MOST_FITTING, only=[]
            )
            return await _roots_of(connection, ids, via), len(ids) == MOST_FITTING

        roots, is_cut = await self.database.search(Lane.search, fitting)
        left = [root for root in roots if before is None or root < before]
        listing = _Listing(wanted, limit)
        while left:
            some, left = left[:TOGETHER], left[TOGETHER:]

            async def work(
                connection: AsyncConnection, some: Sequence[int] = some
            ) -> list[ListedConversation]:
                return await _evaluated(connection, some, via)

            evaluated = await self._patiently(work, listing)
            if evaluated is None:
                return listing.result(some[0] + 1, is_cut=is_cut)
            cut = listing.add(some, evaluated)
            if cut is not None and (left or cut != some[-1]):
                return listing.result(cut, is_cut=is_cut)
            if listing.is_over and left:
                return listing.result(some[-1], is_cut=is_cut)
        return listing.result(None, is_cut=is_cut)

    async def _patiently(
        self, work: Callable[[AsyncConnection], Awaitable[T]], listing: _Listing
    ) -> T | None:
        """What some work comes to; None if it takes too long, and something was found before."""
        try:
            return await self.database.search(Lane.search, work)
        except BadRequestError:
            if not listing.looked_at:
                raise
            return None


class _Listing:
    """A page while it is filled."""

    def __init__(self, wanted: ConversationFilter, limit: int) -> None:
        self._wanted = wanted
        self._limit = limit
        self._items: list[ListedConversation] = []
        self._since: int | None = None
        self._ends = time.monotonic() + PATIENCE
        self.looked_at = 0

    @property
    def is_over(self) -> bool:
        """Whether it has taken long enough."""
        return time.monotonic() > self._ends

    def add(self, roots: Sequence[int], evaluated: Iterable[ListedConversation]) -> int | None:
        """Take up those that are wanted; the last root that was looked at once the page is full."""
        by_root = {each.conversation.root: each for each in evaluated}
        for root in roots:
            self.looked_at += 1
            each = by_root.get(root)
            if each is None:
                continue
            self._since = each.conversation.began_at
            if self._wanted.lets_through(each.conversation):
                self._items.append(each)
                if len(self._items) == self._limit:
                    return root
        return None

    def result(self, following: int | None, *, is_cut: bool = False) -> ConversationPage:
        """The page; it goes on before ``following``."""
        return ConversationPage(
            self._items, following is not None or is_cut, following, self.looked_at, self._since
        )


def _names_roots_alone(asked: EventFilter) -> bool:
    """Whether a filter asks for nothing that only events have."""
    return asked == EventFilter(
        vhosts=asked.vhosts, vhost=asked.vhost, since=asked.since, until=asked.until
    )


def _begins(via: Via) -> list[ColumnElement[bool]]:
    """The conditions on an event that begins a conversation."""
    events, edges = tables.events.c, tables.edges.c
    causes = tables.events.alias("causes").c
    named = exists().where(
        edges.effect_id == events.id,
        edges.kind != int(LinkKind.conversation),
        causes.id == edges.cause_id,
    )
    conditions = [events.type == int(EventType.published), ~events.quiet, ~named]
    if via is Via.conversation:
        mine, earlier = tables.keys.alias("mine").c, tables.keys.alias("earlier").c
        others = tables.events.alias("others").c
        shares = exists().where(
            mine.trace_id == events.trace_id,
            mine.event_id == events.id,
            mine.roles.bitwise_and(IS_CONVERSATION) != 0,
            earlier.trace_id == mine.trace_id,
            earlier.key == mine.key,
            earlier.event_id < mine.event_id,
            earlier.roles.bitwise_and(IS_CONVERSATION) != 0,
            others.id == earlier.event_id,
            ~others.quiet,
        )
        conditions.append(~shares)
    return conditions


async def _of_event(
    connection: AsyncConnection, event_id: int, via: Via, limit: int, after: int | None
) -> FoundConversation:
    start = await by_id(connection, event_id, NOTHING_LARGE)
    trace = await _Trace.of(connection, start.trace_id)
    origin = await trace.origin_of(event_id, start.cause, via)
    page, following = await trace.reached(origin, via, limit, after)
    conversation, others = await trace.told(origin, page, via, truncated=following is not None)
    return FoundConversation(
        event=event_id,
        root=origin.root,
        trace_id=start.trace_id,
        vhost=start.vhost,
        via=via,
        conversation=conversation,
        other_roots=others,
        last=max([origin.root, *page.ids]),
        next=following,
    )


async def _roots_of(connection: AsyncConnection, ids: Sequence[int], via: Via) -> list[int]:
    """The roots of some events' conversations, the newest first."""
    roots: set[int] = set()
    for trace_id, some in (await _by_trace(connection, ids)).items():
        trace = await _Trace.of(connection, trace_id)
        ends = {root for root in (await trace.ends_of(some)).values()}
        if via is Via.conversation:
            ends = {(await trace.origin_of(each, None, via)).root for each in sorted(ends)}
        roots |= ends
    return sorted(roots, reverse=True)


async def _evaluated(
    connection: AsyncConnection, roots: Sequence[int], via: Via
) -> list[ListedConversation]:
    """The conversations of roots, in any order; without what began elsewhere after all."""
    found = []
    by_trace = await _by_trace(connection, roots)
    names = await _vhosts(connection, by_trace)
    for trace_id, some in by_trace.items():
        trace = await _Trace.of(connection, trace_id)
        if via is Via.links:
            evaluated = await trace.told_together(some)
        else:
            evaluated = [each for root in some if (each := await trace.told_alone(root, via))]
        found += [ListedConversation(names[trace_id], each) for each in evaluated]
    return found


async def _by_trace(connection: AsyncConnection, ids: Sequence[int]) -> dict[int, list[int]]:
    found: defaultdict[int, list[int]] = defaultdict(list)
    events = tables.events.c
    for some in chunks(ids):
        query = select(events.trace_id, events.id).where(events.id.in_(some)).order_by(events.id)
        for trace_id, event_id in await connection.execute(query):
            found[trace_id].append(event_id)
    return found


async def _vhosts(connection: AsyncConnection, numbers: Iterable[int]) -> dict[int, str]:
    traces = tables.traces.c
    query = select(traces.id, traces.vhost).where(traces.id.in_(sorted(numbers)))
    return dict((await connection.execute(query)).tuples().all())


class _Trace:
    """The events of a trace, from ``first`` on, as conversations need them."""

    def __init__(self, connection: AsyncConnection, trace_id: int, first: int) -> None:
        self._connection = connection
        self._id = trace_id
        self._first = first

    @classmethod
    async def of(cls, connection: AsyncConnection, trace_id: int) -> _Trace:
        """Retention removes a prefix of ids: what is smaller is no cause any more."""
        oldest = select(func.min(tables.events.c.id)).where(tables.events.c.trace_id == trace_id)
        return cls(connection, trace_id, (await connection.execute(oldest)).scalar_one())

    async def origin_of(self, event_id: int, message: int | None, via: Via) -> _Origin:
        """Where the conversation of an event began; ``message`` is its publish, if it has one."""
        start = event_id if message is None or message < self._first else message
        if via is Via.any:
            return _Origin(start, [start])
        asked = {"id": start, "first": self._first}
        way = [*(await self._connection.execute(_WAY_BACK, asked)).scalars()]
        if via is Via.links:
            return _Origin(way[-1], [way[-1]])
        return await self._origin_by_keys(way)

    async def _origin_by_keys(self, way: Sequence[int]) -> _Origin:
        """Where everything began that shares a key with a way from an event to its root."""
        roots, known, shared = {way[-1]}, set(way), set[bytes]()
        looked_at: Collection[int] = way
        while looked_at:
            its_keys = (
                key for of_one in (await self._keys_of(looked_at)).values() for key in of_one
            )
            new = sorted(set(its_keys) - shared)[: MOST_SHARED - len(shared)]
            shared.update(new)
            sharing = [each for each in await self._sharing(new) if each not in known]
            ways = await self._ways_back(sharing)
            roots |= {each for each, cause in ways.items() if cause is None and each not in known}
            looked_at = [each for each in ways if each not in known]
            known.update(ways)
        return _Origin(min(roots), sorted(roots))

    async def _keys_of(self, ids: Collection[int]) -> dict[int, set[bytes]]:
        """What events share with their conversations."""
        keys, found = tables.keys.c, defaultdict[int, set[bytes]](set)
        for some in chunks(sorted(ids)):
            query = select(keys.event_id, keys.key).where(
                keys.trace_id == self._id,
                keys.event_id.in_(some),
                keys.roles.bitwise_and(IS_CONVERSATION) != 0,
            )
            for event_id, key in await self._connection.execute(query):
                found[event_id].add(key)
        return found

    async def _sharing(self, shared: Sequence[bytes]) -> list[int]:
        """The publishes with some of these keys, and deliveries whose publish is not stored."""
        if not shared:
            return []
        keys, events = tables.keys.c, tables.events.c
        query = (
            select(keys.event_id)
            .distinct()
            .join_from(tables.keys, tables.events, events.id == keys.event_id)
            .where(keys.trace_id == self._id, keys.key.in_(shared))
            .where(keys.roles.bitwise_and(IS_CONVERSATION) != 0, ~events.quiet)
            .where(
                or_(
                    events.type == int(EventType.published),
                    events.cause_id.is_(None),
                    events.cause_id < self._first,
                )
            )
            .order_by(keys.event_id)
            .limit(MOST_SHARING)
        )
        return [*(await self._connection.execute(query)).scalars()]

    async def ends_of(self, ids: Collection[int]) -> dict[int, int]:
        """Where the ways back from events end, along the smallest cause each time."""
        causes = await self._ways_back(ids)
        ends: dict[int, int] = {}
        for event_id in sorted(causes):  # causes have smaller ids
            cause = causes[event_id]
            ends[event_id] = event_id if cause is None else ends.get(cause, cause)
        return {event_id: ends[event_id] for event_id in ids}

    async def _ways_back(self, ids: Collection[int]) -> dict[int, int | None]:
        """The smallest cause of each of these events, of that one, and so on."""
        evident = links.Evident(self._connection, self._id, self._first, 0, -1)
        found: dict[int, int | None] = {}
        level = set(ids)
        for _ in range(MOST_STEPS):
            if not level:
                break
            for some in chunks(sorted(level)):
                for event_id, causes in (await evident.neighbours([*some])).items():
                    found[event_id] = min(causes, default=None)
            level = {cause for each in level if (cause := found[each]) is not None} - found.keys()
        return found

    async def reached(
        self, origin: _Origin, via: Via, limit: int, after: int | None
    ) -> tuple[_Page, int | None]:
        """The nearest events that a conversation leads to, and where the page goes on."""
        far = await neighbours_along(
            self._connection, self._id, MOST_A_STEP if after is None else 2**31 - 1, via, 1
        )
        members = set(origin.roots)
        ids, truncated = await nearest(0, limit, _from_roots(far, origin.roots, members), 1, after)
        return _Page(ids, frozenset(origin.roots), members), ids[-1] if truncated else None

    async def told(
        self, origin: _Origin, page: _Page, via: Via, *, truncated: bool
    ) -> tuple[Conversation, list[int]]:
        """A page of a conversation, and the roots of what else led there."""
        wanted = page.ids if origin.root in page.ids else [origin.root, *page.ids]
        events = await self._read(wanted)
        root = events[origin.root]
        if origin.root not in page.ids:
            del events[origin.root]
        events = await self._with_deliveries(events, page.roots)
        named = await self._named(events)
        causes = await self._causes(events, page, via, named)
        foreign = sorted(
            {
                each.event
                for of_one in named.values()
                for each in of_one
                if each.event not in page.members and each.event not in events
            }
        )
        others: list[int] = []
        if via is not Via.any and foreign:
            ends = await self.ends_of(foreign[:MOST_FOREIGN])
            others = sorted({*ends.values()} - page.roots)[:MOST_OTHER_ROOTS]
        conversation = conversation_of(
            root,
            events.values(),
            causes,
            via=via,
            origins=page.roots,
            spans=await self._handled(events),
            truncated=truncated,
        )
        return conversation, others

    async def told_alone(self, root: int, via: Via) -> Conversation | None:
        """A root's conversation; None if it begins elsewhere."""
        origin = await self.origin_of(root, None, via)
        if origin.root != root:
            return None
        page, following = await self.reached(origin, via, MOST_EACH, None)
        return (await self.told(origin, page, via, truncated=following is not None))[0]

    async def told_together(self, roots: Sequence[int]) -> list[Conversation]:
        """The conversations of roots along links, by one walk."""
        reached, cut = await self._spread(roots)
        events = await self._read(sorted(set().union(*reached.values())))
        events = await self._with_deliveries(events, frozenset(roots))
        of_message: defaultdict[int | None, list[int]] = defaultdict(list)
        for each in events.values():
            if each.type is EventType.received:
                of_message[each.cause].append(each.id)
        named = await self._named(events)
        told = []
        for root, ids in reached.items():
            if root not in events:  # retention has removed it meanwhile
                continue
            ids.update(each for message in [*ids] for each in of_message.get(message, ()))
            own = {each: events[each] for each in ids if each in events}
            page = _Page(sorted(ids), frozenset([root]), ids)
            causes = await self._causes(own, page, Via.links, named)
            told.append(conversation_of(events[root], own.values(), causes, truncated=root in cut))
        return told

    async def _spread(self, roots: Sequence[int]) -> tuple[dict[int, set[int]], set[int]]:
        """What each root leads to along links; and of which roots that is not all."""
        evident = links.Evident(self._connection, self._id, self._first, MOST_A_STEP, 1)
        reached = {root: {root} for root in roots}
        cut: set[int] = set()
        known: dict[int, list[int]] = {}
        level = {root: {root} for root in roots}  # events, and the roots that lead there
        while level:
            for some in chunks(sorted(level.keys() - known.keys())):
                found = await evident.neighbours([*some])
                known |= found
                if sum(map(len, found.values())) >= MOST_A_STEP:
                    cut.update(root for each in some for root in level[each])
            following: defaultdict[int, set[int]] = defaultdict(set)
            for event_id, owners in level.items():
                for each in known[event_id]:
                    for root in owners:
                        if each in reached[root]:
                            continue
                        if len(reached[root]) >= MOST_EACH:
                            cut.add(root)
                            continue
                        reached[root].add(each)
                        following[each].add(root)
            level = following
        return reached, cut

    async def _read(self, ids: Sequence[int]) -> dict[int, Happened]:
        """Events by id, in their order."""
        read: dict[int, Happened] = {}
        in_body: list[int] = []
        large = frozenset({"properties"})
        for some in chunks(ids):
            found = await found_by_ids(self._connection, some, large)
            groups = [[each for each in found.items if each.id not in found.heavy]]
            for share in shares_of(found.heavy):
                groups.append(await by_ids(self._connection, share, large))
            for each in (event for group in groups for event in group):
                read[each.id] = happened(each)
                if is_in_body(each.properties):
                    in_body.append(each.id)
        await self._read_types(read, in_body)
        return dict(sorted(read.items()))

    async def _read_types(self, read: dict[int, Happened], ids: Sequence[int]) -> None:
        """The types of messages that say them in their bodies."""
        large = frozenset({"properties", "payload"})
        for some in chunks(ids):
            found = await found_by_ids(self._connection, some, large)
            groups = [[each for each in found.items if each.id not in found.heavy]]
            for share in shares_of(found.heavy):
                groups.append(await by_ids(self._connection, share, large))
            for each in (event for group in groups for event in group):
                said = type_of(each.properties, each.exchange, each.routing_keys, each.payload)
                read[each.id] = read[each.id]._replace(message_type=said)

    async def _with_deliveries(
        self, events: Mapping[int, Happened], roots: frozenset[int]
    ) -> dict[int, Happened]:
        """The publishes, with all their deliveries; and roots whose publish is not stored."""
        kept = {
            each.id: each
            for each in events.values()
            if each.type is EventType.published or each.id in roots
        }
        publishes = [each.id for each in kept.values() if each.type is EventType.published]
        ids: list[int] = []
        for some in chunks(publishes):
            asked = {"ids": some, "most": MOST_DELIVERIES - len(ids)}
            ids += (await self._connection.execute(_DELIVERIES, asked)).scalars()
        missing = [each for each in ids if each not in events]
        more = await self._read(missing) if missing else {}
        kept |= {each: events[each] if each in events else more[each] for each in ids}
        return dict(sorted(kept.items()))

    async def _named(self, events: Mapping[int, Happened]) -> dict[int, list[Cause]]:
        """What publishes name as their causes, as far as it is stored."""
        publishes = [each.id for each in events.values() if each.type is EventType.published]
        return {
            effect: [
                Cause(link.cause, link.rule, link.kind.name)
                for link in found
                if link.cause >= self._first
            ]
            for effect, found in (await links.named_by(self._connection, publishes)).items()
        }

    async def _causes(
        self,
        events: Mapping[int, Happened],
        page: _Page,
        via: Via,
        named: Mapping[int, Sequence[Cause]],
    ) -> dict[int, tuple[Cause, ...]]:
        """What led to each publish: links first, those from within the conversation before others.

        Where there are none, what the conversation or the participant did last before it.
        """
        causes: dict[int, tuple[Cause, ...]] = {}
        for each, found in named.items():
            if each in events and each not in page.roots:
                inside = [cause for cause in found if cause.event in page.members]
                outside = [cause for cause in found if cause.event not in page.members]
                if inside or via is Via.links:
                    causes[each] = (*preferred(inside), *preferred(outside))
        if via is Via.links:
            return causes
        shared = await self._keys_of(events) if via is Via.conversation else {}
        received: defaultdict[int, list[Happened]] = defaultdict(list)
        published: dict[int, int] = {}
        for event in events.values():
            if event.type is EventType.received:
                received[event.participant].append(event)
                continue
            if event.id not in causes and event.id not in page.roots:
                nearest_one = _last_that_led(event, received[event.participant], via, shared)
                if nearest_one is None and via is Via.any:
                    nearest_one = published.get(event.participant)
                if nearest_one is not None:
                    causes[event.id] = (Cause(nearest_one, None, via.value),)
            published[event.participant] = event.id
        return causes

    async def _handled(self, events: Mapping[int, Happened]) -> dict[int, int]:
        """How long consumers handled deliveries, as spans say (µs)."""
        deliveries: defaultdict[int, list[int]] = defaultdict(list)
        for each in events.values():
            if each.type is EventType.received and each.cause is not None:
                deliveries[each.cause].append(each.id)
        handled = await handled_by(self._connection, self._id, deliveries)
        return {
            delivery: max(one.ended_at for one in found) - min(one.started_at for one in found)
            for delivery, found in handled.items()
        }


def _from_roots(far: Neighbours, roots: Sequence[int], members: set[int]) -> Neighbours:
    """From 0 to the roots, from there on as ever; ``members`` are all that are found."""

    async def neighbours(ids: list[int]) -> dict[int, list[int]]:
        others = [each for each in ids if each]
        found = await far(others) if others else {}
        for of_one in found.values():
            members.update(of_one)
        return {**found, 0: [*roots]} if len(others) < len(ids) else found

    return neighbours


def _last_that_led(
    publish: Happened,
    received: Sequence[Happened],
    via: Via,
    shared: Mapping[int, set[bytes]],
) -> int | None:
    """What the publisher was handed last before a publish, in the same conversation."""
    if via is Via.any:
        return received[-1].id if received else None
    its = shared.get(publish.id, set())
    return next((each.id for each in reversed(received) if its & shared.get(each.id, set())), None)
