"""Walks from events to causes or effects along stored evidence, each step an index look-up."""

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

_edges = tables.edges.c
_events = tables.events.c
_keys = tables.keys.c
_index = searched_keys.c

# Events of a conversation that one query reads.
PAGE = 64
# Links to one event that are read, the first.
MOST_NAMING = 100
_EQUAL = ACTS[EdgeKind.candidate]
NO_KIND = -1  # excludes nothing

# From some ids to their neighbours.
Neighbours: TypeAlias = Callable[[list[int]], Awaitable[dict[int, list[int]]]]

# Deliveries of these, and events that name them; an effect that names several counts once. One
# statement, because each step of a walk needs it.
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
# Quiet traffic included: a copy that was handed over does not wait.
DELIVERIES = text(
    "SELECT id FROM events WHERE cause_id IN :ids ORDER BY id LIMIT :most"
).bindparams(bindparam("ids", expanding=True))
_CAUSES = text(
    "SELECT id AS effect, cause_id AS cause, NULL AS rule, NULL AS kind"
    " FROM events WHERE id IN :ids AND cause_id >= :first AND NOT quiet"
    " UNION ALL SELECT effect_id, cause_id, rule, kind"
    " FROM edges WHERE effect_id IN :ids AND cause_id >= :first AND kind <> :candidate"
    " AND NOT EXISTS (SELECT 1 FROM events WHERE id = effect_id AND quiet)"
).bindparams(bindparam("ids", expanding=True))

_CAUSES_BY_EDGES = text(
    "SELECT cause_id, effect_id, rule, kind FROM edges"
    " WHERE effect_id IN :ids AND kind <> :candidate ORDER BY effect_id, cause_id, rule"
).bindparams(bindparam("ids", expanding=True), candidate=int(EdgeKind.candidate))
# An event's causes beside its message, and its effects.
_OF_ONE = (
    "SELECT cause_id, effect_id, rule, kind FROM edges WHERE effect_id = :id AND kind <> :candidate"
    " ORDER BY cause_id, rule",
    "SELECT cause_id, effect_id, rule, kind FROM edges WHERE trace_id = :trace AND cause_id = :id"
    " AND kind <> :candidate ORDER BY effect_id, rule LIMIT :most",
)

_LATE = text(late_sql(PARAMETERS)).bindparams(
    *(bindparam(name, type_=BigInteger) for name in Question._fields)
)


async def edge_causes(connection: AsyncConnection, ids: Sequence[int]) -> dict[int, list[Named]]:
    """The causes of these events beside their messages; those that have none are left out."""
    causes: dict[int, list[Named]] = {}
    for chunk in chunks(ids):
        for cause, effect, rule, kind in await connection.execute(_CAUSES_BY_EDGES, {"ids": chunk}):
            causes.setdefault(effect, []).append(Named(cause, *_rule_and_kind(rule, kind)))
    return causes


async def of_event(
    connection: AsyncConnection, dialect: Dialect, trace_id: int, event_id: int
) -> EventLinks:
    binds = {"trace": trace_id, "id": event_id, "candidate": int(EdgeKind.candidate)}
    rows = await dialect.rows_of(connection, _OF_ONE, binds | {"most": MOST_NAMING + 1})
    causes = [Named(cause, *_rule_and_kind(rule, kind)) for cause, _, rule, kind in rows[0]]
    effects = [Naming(effect, *_rule_and_kind(rule, kind)) for _, effect, rule, kind in rows[1]]
    named_by = NamedBy(effects[:MOST_NAMING], truncated=len(effects) > MOST_NAMING)
    return EventLinks(causes, named_by)


async def with_equals(connection: AsyncConnection, trace_id: int, ids: Collection[int]) -> set[int]:
    """The publishes with candidates: deliveries that may be of them, or of others like them."""
    query = select(_edges.cause_id).where(_edges.trace_id == trace_id, _edges.rule == _EQUAL)
    return {row.cause_id for row in await rows_with(connection, query, _edges.cause_id, ids)}


def _rule_and_kind(rule: str, kind: int) -> tuple[str | None, EdgeKind]:
    edge_kind = EdgeKind(kind)
    return None if edge_kind in BY_BROKER else rule, edge_kind  # the broker's acts have no rule


async def late_between(connection: AsyncConnection, trace_id: int, a: int, b: int) -> int:
    """The number of links between two events, in either order, that clocks do not have."""
    question = Question.between(trace_id, a, b)
    row = (await connection.execute(_LATE, question._asdict())).one_or_none()
    return 0 if row is None else int(row.links)


@dataclass(eq=False)
class Evident:
    """Messages, links and what the broker did, in one direction; an ``overlay`` adds likely steps.

    ``first`` is the first event that is stored, ``limit`` the most that one step returns.
    """

    connection: AsyncConnection
    trace_id: int
    first: int
    limit: int
    direction: Direction
    excluded_kind: int = int(EdgeKind.candidate)
    overlay: Overlay = NO_OVERLAY

    async def neighbours(self, ids: list[int]) -> dict[int, list[int]]:
        neighbours: dict[int, list[int]] = {
            event_id: self.overlay.neighbours(event_id, self.direction) for event_id in ids
        }
        if self.direction == -1:
            for step in await steps_to(self.connection, ids, self.first, self.excluded_kind):
                neighbours[step.effect].append(step.cause)
            return neighbours
        # The limit cuts off what a walk would reach only if the answer has that many smaller ids.
        binds = {
            "trace": self.trace_id,
            "ids": ids,
            "most": self.limit,
            "candidate": self.excluded_kind,
        }
        for cause, event in await self.connection.execute(_LED_ON, binds):
            neighbours[cause].append(event)
        return neighbours

    async def spread(
        self, starts: Iterable[int], limit: int
    ) -> tuple[dict[int, set[int]], set[int]]:
        """Up to ``limit`` events that each start leads to, and the starts that lead to more."""
        reached: dict[int, set[int]] = {start: set() for start in starts}
        cut: set[int] = set()
        steps: dict[int, list[int]] = {}
        level = {start: {start} for start in reached}  # events, and which starts lead there
        while level:
            for chunk in chunks(sorted(level.keys() - steps.keys())):
                neighbours = await self.neighbours([*chunk])
                steps |= neighbours
                if sum(map(len, neighbours.values())) >= self.limit:
                    cut.update(start for event in chunk for start in level[event])
            next_level: defaultdict[int, set[int]] = defaultdict(set)
            for event_id, owners in level.items():
                for event in steps[event_id]:
                    for start in owners:
                        if event in reached[start]:
                            continue
                        if len(reached[start]) >= limit:
                            cut.add(start)
                            continue
                        reached[start].add(event)
                        next_level[event].add(start)
            level = next_level
        return reached, cut


async def steps_to(
    connection: AsyncConnection,
    ids: Sequence[int],
    first: int,
    excluded_kind: int = int(EdgeKind.candidate),
) -> list[PathStep]:
    steps = []
    for chunk in chunks(ids):
        binds = {"ids": chunk, "first": first, "candidate": excluded_kind}
        for effect, cause, rule, kind in await connection.execute(_CAUSES, binds):
            steps.append(PathStep.along(cause, effect, rule, kind))
    return steps


async def conversations_of(
    connection: AsyncConnection, trace_id: int, ids: Collection[int]
) -> list[Any]:
    """Rows (event id, type, participant, key) of events in conversations."""
    query = (
        select(_keys.event_id, _events.type, _events.participant, _keys.key)
        .join_from(tables.keys, tables.events, _events.id == _keys.event_id)
        .where(_keys.trace_id == trace_id, is_conversation(_keys.roles), ~_events.quiet)
    )
    return await rows_with(connection, query, _keys.event_id, ids)


@dataclass(eq=False)
class ConversationWalk:
    """Evident steps, and those of conversations: from deliveries to later publishes.

    A participant's part of a conversation is read a page at a time, from the event that led there;
    the next page once the walk has come to the end of the last. ``evident`` is None where the
    caller follows evident steps itself.
    """

    connection: AsyncConnection
    trace_id: int
    evident: Evident | None
    direction: Direction

    def __post_init__(self) -> None:
        ends = EventType.received, EventType.published
        self._lead_type, self._follow_type = ends[:: self.direction]
        # By participant and conversation: the nearest event from which its part is read.
        self._nearest: dict[tuple[int, bytes], int] = {}
        self._walked: set[int] = set()
        # By a page's last event, the parts that go on after it: participant, conversation, end.
        self._continuations: defaultdict[int, list[tuple[int, bytes, int | None]]] = defaultdict(
            list
        )

    async def neighbours(self, ids: list[int]) -> dict[int, list[int]]:
        self._walked.update(ids)
        neighbours: dict[int, list[int]] = {event_id: [] for event_id in ids}
        if self.evident is not None:
            neighbours = await self.evident.neighbours(ids)
        sharing = await conversations_of(self.connection, self.trace_id, ids)
        sharing.sort(key=lambda row: self.direction * int(row.event_id))
        for event_id, event_type, participant, key in sharing:
            if event_type != self._lead_type:
                continue
            nearest = self._nearest.get((participant, key))
            if nearest is None or self.direction * event_id < self.direction * nearest:
                self._nearest[participant, key] = event_id
                neighbours[event_id] += await self._page(event_id, participant, key, nearest)
        for event_id in ids:
            for part in self._continuations.pop(event_id, ()):
                neighbours[event_id] += await self._page(event_id, *part)
        return neighbours

    async def _page(self, cursor: int, participant: int, key: bytes, end: int | None) -> list[int]:
        """The next page of a participant's part of a conversation, before ``end``."""
        forward = self.direction == 1
        query = (
            select(_index.event_id)
            .join_from(searched_keys, tables.events, _events.id == _index.event_id)
            .where(_index.trace_id == self.trace_id, _index.key == key)
            .where(is_searched_conversation(_index.roles))
            .where(
                _events.participant == participant,
                _events.type == int(self._follow_type),
                ~_events.quiet,
            )
            .where(_index.event_id > cursor if forward else _index.event_id < cursor)
            .where(_index.run <= run_of(cursor) if forward else _index.run >= run_of(cursor))
            .order_by(_index.turn.desc() if forward else _index.turn)
            .order_by(_index.event_id if forward else _index.event_id.desc())
            .limit(PAGE)
        )
        if end is not None:
            query = query.where(
                _index.event_id < end if forward else _index.event_id > end,
                _index.run >= run_of(end) if forward else _index.run <= run_of(end),
            )
        ids = list((await self.connection.execute(query)).scalars())
        if len(ids) < PAGE:
            return ids
        if ids[-1] in self._walked:  # the walk knows it already, and does not ask again
            return ids + await self._page(ids[-1], participant, key, end)
        self._continuations[ids[-1]].append((participant, key, end))
        return ids


async def path(connection: AsyncConnection, a: int, b: int) -> CausalPath:
    """A shortest way, searched backwards, through the smallest ids; cut in a very large past."""
    if a >= b:
        return CausalPath(None)  # a cause has a smaller id than its effect
    towards_b: dict[int, PathStep] = {}
    level, reached = [b], 1
    for _ in range(MOST_STEPS):
        steps = await steps_to(connection, level, a)
        # A copy that was given back or rejected came by its holder, not straight from its publish.
        freed = {step.effect for step in steps if step.how in ("returned", "rejected")}
        steps = [step for step in steps if step.how != "message" or step.effect not in freed]
        steps.sort(key=lambda step: (step.cause, step.effect, step.how, step.rule or ""))
        level = []
        for step in steps:
            if step.cause not in towards_b:
                towards_b[step.cause] = step
                level.append(step.cause)
        if a in towards_b:
            return CausalPath([*_path(towards_b, a, b)])
        reached += len(level)
        if not level:
            return CausalPath(None)
        if reached > MOST_REACHED:
            break
    return CausalPath(None, cut=True)


def _path(steps: dict[int, PathStep], a: int, b: int) -> Iterator[PathStep]:
    event = a
    while event != b:
        yield steps[event]
        event = steps[event].effect
