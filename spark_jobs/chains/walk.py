"""Evidence between two events, found by going from event to event through the index.

The driver goes from both ends (`model.ways`), a statement or a few for each step, whatever the
store's size. Joins in Spark would read the whole span once for each step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import pyarrow as pa

from model.ways import MOST_REACHED, Frontier, in_turns
from model.words import IS_CONVERSATION, EdgeKind, EventType, Via
from spark_jobs.chains.in_memory import SpanColumns
from spark_jobs.chains.span_columns import columns_for, span_of
from spark_jobs.events.history import lists_of
from spark_jobs.spark.columns import restore, select
from spark_jobs.spark.database import Connection

# Ids in one statement.
CHUNK = 2_000
# A walk that reaches more events from both ends costs more than reading the span: a step takes as
# long as reading some 100 events of it. Chains by clocks say, too, whether the one event caused the
# other, which must not cost much more: `model.ways.MOST_REACHED`.
MOST_WALKED = 100_000

_NAMES = f"g.kind <> {int(EdgeKind.candidate)} AND NOT e.quiet"
# SQLite takes its index by event for the first, word for word, and for nothing else.
_SHARES = f"(s.roles & {IS_CONVERSATION}) <> 0 AND NOT e.quiet"
_SHARES_KEY = f"(s.roles & {IS_CONVERSATION}) = {IS_CONVERSATION} AND NOT e.quiet"


class Ways:
    """The walk between two events of a trace, which holds both and all ids between."""

    def __init__(self, connection: Connection, trace: int, ends: tuple[int, int], via: Via) -> None:
        self._connection = connection
        self._trace = trace
        self._ends = ends
        self._via = via

    def span(self, limit: int | None = MOST_WALKED) -> SpanColumns | None:
        """Events among which are all that lie between the ends; None if no way leads there.

        Raises `TooFarError` where that takes more than ``limit`` events.
        """
        *_, side = self._steps(self._sides(), limit)
        return self._span(side.reached) if side.has_arrived else None

    def lead(self, limit: int | None = MOST_REACHED) -> bool:
        """Tell whether a way leads from one end to the other; raises as `between`."""
        sides = self._sides()
        for side in self._steps(sides, limit):
            opposite = sides[side is sides[0]]
            if not side.level.isdisjoint(opposite.reached):
                return True
        return False

    def _sides(self) -> tuple[_StoredFrontier, _StoredFrontier]:
        first, last = self._ends
        converses = self._via is Via.conversation
        return (
            _StoredFrontier(self._connection, self._trace, last, first, converses=converses),
            _StoredFrontier(self._connection, self._trace, first, last, converses=converses),
        )

    def _steps(
        self, sides: tuple[_StoredFrontier, _StoredFrontier], limit: int | None
    ) -> Iterator[_StoredFrontier]:
        """The side that took each step, up to when one is complete."""
        for side in in_turns(sides, limit):
            side.move(side.neighbours(limit))
            yield side

    def _span(self, ids: Collection[int]) -> SpanColumns:
        return span_of(self._read(sorted(ids)), self._via)[0]

    def _read(self, ids: Iterable[int]) -> Iterator[pa.RecordBatch]:
        columns = columns_for(self._via)
        statement = select(columns, self._connection.database.dialect)
        for chunk in lists_of(ids, CHUNK):
            ids_text = _ids_text(chunk)
            sql = f"{statement} WHERE e.id IN ({ids_text}) ORDER BY e.id"
            for raw in self._connection.query(sql):
                if raw.num_rows:  # SQLite's driver makes up the types of no rows
                    yield restore(raw, columns)


class _StoredFrontier(Frontier):
    """The events reached from one end, with those that they lead to looked up in the store."""

    def __init__(
        self, connection: Connection, trace: int, start: int, bound: int, *, converses: bool
    ) -> None:
        super().__init__(start, bound)
        self._connection = connection
        self._trace = trace
        self._converses = converses
        # By participant and conversation: the nearest event that led there.
        self._nearest: dict[tuple[int, bytes], int] = {}

    def neighbours(self, limit: int | None) -> set[int]:
        """Find what the level leads to, not much more than ``limit`` events."""
        ids: set[int] = set()
        for chunk in lists_of(sorted(self.level), CHUNK):
            ids |= self._ids(self._evident(_ids_text(chunk)), limit)
            if self._converses:
                for parts in lists_of(self._parts(_ids_text(chunk)), CHUNK):
                    ids |= self._ids(self._conversation_steps(parts), limit)
        return ids

    def _ids(self, sql: str, maximum: int | None) -> set[int]:
        limit = "" if maximum is None else f" LIMIT {maximum + 1}"
        return {row["id"] for row in self._connection.rows(sql + limit)}

    def _evident(self, ids: str) -> str:
        """The query for what messages and links lead to from there."""
        if self.direction == 1:
            return (
                f"SELECT e.id FROM events e WHERE e.cause_id IN ({ids}) AND e.id <= {self.goal}"
                " AND NOT e.quiet UNION SELECT g.effect_id"
                " FROM edges g JOIN events e ON e.id = g.effect_id"
                f" WHERE g.trace_id = {self._trace} AND g.cause_id IN ({ids})"
                f" AND g.effect_id <= {self.goal} AND {_NAMES}"
            )
        return (
            f"SELECT e.cause_id AS id FROM events e WHERE e.id IN ({ids})"
            f" AND e.cause_id >= {self.goal} AND NOT e.quiet UNION SELECT g.cause_id"
            " FROM edges g JOIN events e ON e.id = g.effect_id"
            f" WHERE g.effect_id IN ({ids}) AND g.cause_id >= {self.goal} AND {_NAMES}"
        )

    def _parts(self, ids: str) -> Iterator[tuple[int, bytes, int, int]]:
        """Yield parts of conversations left to read: (participant, conversation, after, before)."""
        leads = EventType.received if self.direction == 1 else EventType.published
        rows = self._connection.rows(
            "SELECT s.event_id, e.participant, s.key FROM keys s JOIN events e ON e.id = s.event_id"
            f" WHERE s.trace_id = {self._trace} AND s.event_id IN ({ids})"
            f" AND e.type = {int(leads)} AND {_SHARES}"
        )
        rows.sort(key=lambda row: self.direction * row["event_id"])
        for row in rows:
            part, event = (row["participant"], row["key"]), row["event_id"]
            reached = self._nearest.get(part, self.goal + self.direction)
            if self.direction * event < self.direction * reached:
                self._nearest[part] = event
                yield (*part, min(event, reached), max(event, reached))

    def _conversation_steps(self, parts: list[tuple[int, bytes, int, int]]) -> str:
        """The query for what conversations lead to in these parts."""
        follows = EventType.published if self.direction == 1 else EventType.received
        values = ", ".join(
            f"({participant}, {self._blob(key)}, {low}, {high})"
            for participant, key, low, high in parts
        )
        # SQLite keeps the order of a CROSS JOIN: parts outside, their events inside.
        return (
            f"WITH asked (participant, part, low, high) AS (VALUES {values})"
            " SELECT DISTINCT e.id FROM asked CROSS JOIN searched_keys s"
            " JOIN events e ON e.id = s.event_id"
            f" WHERE s.trace_id = {self._trace} AND s.key = asked.part"
            " AND s.event_id > asked.low AND s.event_id < asked.high"
            " AND s.run BETWEEN -(asked.high >> 16) AND -(asked.low >> 16)"
            f" AND e.participant = asked.participant AND e.type = {int(follows)} AND {_SHARES_KEY}"
        )

    def _blob(self, key: bytes) -> str:
        if self._connection.database.dialect == "sqlite":
            return f"x'{key.hex()}'"
        return f"'\\x{key.hex()}'::bytea"


def _ids_text(ids: Iterable[int]) -> str:
    return ", ".join(map(str, ids))
