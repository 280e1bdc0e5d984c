"""Steps by evidence: messages, links, what the broker did, and conversations.

All of it is looked up by index, for a walk that goes from the nearest event on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import BigInteger, bindparam, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.database import tables
from app.store.database.chunks import chunks, rows_with
from app.store.database.engine import Dialect
from app.store.database.searched import (
    is_conversation,
    is_searched_conversation,
    run_of,
    searched_keys,
)
from app.stored.causality import CausalPath, EventLinks, Named, NamedBy, Naming, PathStep
from app.stored.likely import NO_OVERLAY, Overlay
from model.ways import MOST_REACHED, MOST_STEPS, Direction
from model.words import ACTS, BY_BROKER, EdgeKind, EventType
from statements import PARAMETERS, Question, late_sql

# How many events of a conversation one query reads.
PAGE = 64
# Of the links to one event the first so many are read.
MOST_NAMING = 100
_EQUAL = ACTS[EdgeKind.candidate]
NO_KIND = -1  # which is left out where nothing is

# From some ids to their neighbours.
Neighbours: TypeAlias = Callable[[list[int]], Awaitable[dict[int, list[int]]]]

# What is received from these, and what names them; an effect may name several of these causes, and
# is still one. In one statement, because a walk asks for it again and again.
_LED_ON = text(
    "SELECT * FROM (SELECT cause_id, id FROM events"
    " WHERE cause_id IN :ids AND NOT quiet ORDER BY id LIMIT :most) AS received"
    " UNION ALL SELECT * FROM (SELECT DISTINCT cause_id, effect_id FROM edges"
    " WHERE trace_id = :trace AND cause_id IN :ids AND kind <> :candidate AND effect_id IN ("
    "SELECT DISTINCT effect_id FROM edges"
    " WHERE trace_id = :trace AND cause_id IN :ids AND kind <> :candidate"
    " AND NOT EXISTS (SELECT 1 FROM events WHERE id = effect_id AND quiet)"
    " ORDER BY effect_id LIMIT :most)) AS naming"
).bindparams(bindparam("ids", expanding=True))
_CAUSES = text(
    "SELECT id AS effect, cause_id AS cause, NULL AS rule, NULL AS kind"
    " FROM events WHERE id IN :ids AND cause_id >= :first AND NOT quiet"
    " UNION ALL SELECT effect_id, cause_id, rule, kind"
    " FROM edges WHERE effect_id IN :ids AND cause_id >= :first AND kind <> :candidate"
    " AND NOT EXISTS (SELECT 1 FROM events WHERE id = effect_id AND quiet)"
).bindparams(bindparam("ids", expanding=True))

_NAMED = text(
    "SELECT cause_id, effect_id, rule, kind FROM edges"
    " WHERE effect_id IN :ids AND kind <> :candidate ORDER BY effect_id, cause_id, rule"
).bindparams(bindparam("ids", expanding=True), candidate=int(EdgeKind.candidate))
# What led to one event beside its message, and what it led to.
_OF_ONE = (
    "SELECT cause_id, effect_id, rule, kind FROM edges WHERE effect_id = :id AND kind <> :candidate"
    " ORDER BY cause_id, rule",
    "SELECT cause_id, effect_id, rule, kind FROM edges WHERE trace_id = :trace AND cause_id = :id"
    " AND kind <> :candidate ORDER BY effect_id, rule LIMIT :most",
)

_LATE = text(late_sql(PARAMETERS)).bindparams(
    *(bindparam(name, type_=BigInteger) for name in Question._fields)
)


async def named_by(connection: AsyncConnection, ids: Sequence[int]) -> dict[int, list[Named]]:
    """The causes of these events beside their messages; those that have none are left out."""
    found: dict[int, list[Named]] = {}
    for some in chunks(ids):
        for cause, effect, rule, kind in await connection.execute(_NAMED, {"ids": some}):
            found.setdefault(effect, []).append(Named(cause, *_named(rule, kind)))
    return found


async def of_event(
    connection: AsyncConnection, dialect: Dialect, trace_id: int, event_id: int
) -> EventLinks:
    asked = {"trace": trace_id, "id": event_id}
    bounds = {"candidate": int(EdgeKind.candidate), "most": MOST_NAMING + 1}
    found = await dialect.rows_of(connection, _OF_ONE, asked | bounds)
    named, naming = found
    links = [Named(cause, *_named(rule, kind)) for cause, _, rule, kind in named]
    of_others = [Naming(effect, *_named(rule, kind)) for _, effect, rule, kind in naming]
    by = NamedBy(of_others[:MOST_NAMING], truncated=len(of_others) > MOST_NAMING)
    return EventLinks(links, by)


async def with_equals(connection: AsyncConnection, trace_id: int, ids: Collection[int]) -> set[int]:
    """Those of some publishes that deliveries may be of, as they may be of others like them."""
    its = tables.edges.c
    query = select(its.cause_id).where(its.trace_id == trace_id, its.rule == _EQUAL)
    return {row.cause_id for row in await rows_with(connection, query, its.cause_id, ids)}


def _named(rule: str, kind: int) -> tuple[str | None, EdgeKind]:
    """The rule of an edge and its kind; what the broker did has no rule."""
    what = EdgeKind(kind)
    return None if what in BY_BROKER else rule, what


async def late_between(connection: AsyncConnection, trace_id: int, a: int, b: int) -> int:
    """The number of links between two events, in either order, that clocks do not have."""
    asked = Question.between(trace_id, a, b)
    found = (await connection.execute(_LATE, asked._asdict())).one_or_none()
    return 0 if found is None else int(found.links)


@dataclass(eq=False)
class Evident:
    """Messages, links and what the broker did, in one direction.

    ``first`` is the first event that is stored, ``most`` the most that are wanted of one step.
    Candidates are ``left_out``, but for whoever asks for all that may be. An ``overlay`` has steps
    that are likely, and not evident.
    """

    connection: AsyncConnection
    trace_id: int
    first: int
    most: int
    towards: Direction
    left_out: int = int(EdgeKind.candidate)
    overlay: Overlay = NO_OVERLAY

    async def neighbours(self, ids: list[int]) -> dict[int, list[int]]:
        """The events that they lead to, or that lead to them."""
        found: dict[int, list[int]] = {
            event_id: self.overlay.neighbours(event_id, self.towards) for event_id in ids
        }
        if self.towards == -1:
            for step in await steps_to(self.connection, ids, self.first, self.left_out):
                found[step.effect].append(step.cause)
            return found
        # The limit may cut off what a walk would have reached, but only if the answer already holds
        # that many smaller ids.
        asked = {"trace": self.trace_id, "ids": ids, "most": self.most, "candidate": self.left_out}
        for cause, event in await self.connection.execute(_LED_ON, asked):
            found[cause].append(event)
        return found

    async def spread(
        self, starts: Iterable[int], most: int
    ) -> tuple[dict[int, set[int]], set[int]]:
        """Up to ``most`` events that each start leads to; and of which starts that is not all."""
        reached: dict[int, set[int]] = {start: set() for start in starts}
        cut: set[int] = set()
        known: dict[int, list[int]] = {}
        level = {start: {start} for start in reached}  # events, and the starts that lead there
        while level:
            for some in chunks(sorted(level.keys() - known.keys())):
                found = await self.neighbours([*some])
                known |= found
                if sum(map(len, found.values())) >= self.most:
                    cut.update(start for each in some for start in level[each])
            following: defaultdict[int, set[int]] = defaultdict(set)
            for event_id, owners in level.items():
                for each in known[event_id]:
                    for start in owners:
                        if each in reached[start]:
                            continue
                        if len(reached[start]) >= most:
                            cut.add(start)
                            continue
                        reached[start].add(each)
                        following[each].add(start)
            level = following
        return reached, cut


async def steps_to(
    connection: AsyncConnection,
    ids: Sequence[int],
    first: int,
    left_out: int = int(EdgeKind.candidate),
) -> list[PathStep]:
    steps = []
    for some in chunks(ids):
        asked = {"ids": some, "first": first, "candidate": left_out}
        for effect, cause, rule, kind in await connection.execute(_CAUSES, asked):
            steps.append(PathStep.along(cause, effect, rule, kind))
    return steps


async def conversations_of(
    connection: AsyncConnection, trace_id: int, ids: Collection[int]
) -> list[Any]:
    """Rows of events in conversations: the event's id, type and participant, and the ``key``."""
    keys, events = tables.keys.c, tables.events.c
    query = (
        select(keys.event_id, events.type, events.participant, keys.key)
        .join_from(tables.keys, tables.events, events.id == keys.event_id)
        .where(keys.trace_id == trace_id, is_conversation(keys.roles), ~events.quiet)
    )
    return await rows_with(connection, query, keys.event_id, ids)


class ConversationWalk:
    """Evident steps, and those of conversations: from deliveries to later publishes.

    A participant's part of a conversation is read a page at a time, from the event that led there:
    the next page when the walk has come to the end of the one before.
    """

    def __init__(
        self,
        connection: AsyncConnection,
        trace_id: int,
        evident: Evident | None,
        towards: Direction,
    ) -> None:
        """``evident`` is None for whoever follows that by itself."""
        self._connection = connection
        self._trace_id = trace_id
        self._evident = evident
        self._towards = towards
        leads, follows = EventType.received, EventType.published
        self._from, self._to = (leads, follows) if towards == 1 else (follows, leads)
        # Of a participant and a conversation: the nearest event from which its part is read.
        self._begun: dict[tuple[int, bytes], int] = {}
        self._asked: set[int] = set()
        # Parts that go on after the last event of a page: participant, conversation, up to where.
        self._more: defaultdict[int, list[tuple[int, bytes, int | None]]] = defaultdict(list)

    async def neighbours(self, ids: list[int]) -> dict[int, list[int]]:
        self._asked.update(ids)
        found: dict[int, list[int]] = {event_id: [] for event_id in ids}
        if self._evident is not None:
            found = await self._evident.neighbours(ids)
        sharing = await conversations_of(self._connection, self._trace_id, ids)
        sharing.sort(key=lambda row: self._towards * int(row.event_id))
        for event_id, event_type, participant, key in sharing:
            if event_type != self._from:
                continue
            begun = self._begun.get((participant, key))
            if begun is None or self._towards * event_id < self._towards * begun:
                self._begun[participant, key] = event_id
                found[event_id] += await self._page(event_id, participant, key, begun)
        for event_id in ids:
            for part in self._more.pop(event_id, ()):
                found[event_id] += await self._page(event_id, *part)
        return found

    async def _page(self, after: int, participant: int, key: bytes, until: int | None) -> list[int]:
        """The next of a participant's part of a conversation, before ``until``."""
        keys, events = searched_keys.c, tables.events.c
        forward = self._towards == 1
        query = (
            select(keys.event_id)
            .join_from(searched_keys, tables.events, events.id == keys.event_id)
            .where(keys.trace_id == self._trace_id, keys.key == key)
            .where(is_searched_conversation(keys.roles))
            .where(events.participant == participant, events.type == int(self._to), ~events.quiet)
            .where(keys.event_id > after if forward else keys.event_id < after)
            .where(keys.run <= run_of(after) if forward else keys.run >= run_of(after))
            .order_by(keys.turn.desc() if forward else keys.turn)
            .order_by(keys.event_id if forward else keys.event_id.desc())
            .limit(PAGE)
        )
        if until is not None:
            query = query.where(
                keys.event_id < until if forward else keys.event_id > until,
                keys.run >= run_of(until) if forward else keys.run <= run_of(until),
            )
        found = list((await self._connection.execute(query)).scalars())
        if len(found) < PAGE:
            return found
        if found[-1] in self._asked:  # the walk knows it already, and does not ask again
            return found + await self._page(found[-1], participant, key, until)
        self._more[found[-1]].append((participant, key, until))
        return found


async def path(connection: AsyncConnection, a: int, b: int) -> CausalPath:
    """A shortest way from an event to another, looked for from the later backwards.

    It is cut where the other's past is very large. Among equally short ways, that through the
    smallest ids.
    """
    if a >= b:
        return CausalPath(None)  # a cause has a smaller id than its effect
    towards_b: dict[int, PathStep] = {}
    level, seen = [b], 1
    for _ in range(MOST_STEPS):
        found = await steps_to(connection, level, a)
        found.sort(key=lambda step: (step.cause, step.effect, step.how, step.rule or ""))
        level = []
        for step in found:
            if step.cause not in towards_b:
                towards_b[step.cause] = step
                level.append(step.cause)
        if a in towards_b:
            return CausalPath([*_way(towards_b, a, b)])
        seen += len(level)
        if not level:
            return CausalPath(None)
        if seen > MOST_REACHED:
            break
    return CausalPath(None, cut=True)


def _way(towards: dict[int, PathStep], a: int, b: int) -> Iterator[PathStep]:
    at = a
    while at != b:
        yield towards[at]
        at = towards[at].effect
