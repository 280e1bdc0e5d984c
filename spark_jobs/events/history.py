"""Questions of the planner: single events, who took part, the first event from a height on.

Every question is answered from an index, and a question about many participants is one statement
for all of them: a step of a bisection costs one round trip. Only our own numbers go into the SQL
text, nothing that a user wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from model.blocks import MAX_ID, ids_of_blocks
from model.doubtful import DoubtfulDelivery, DoubtfulSpan
from model.gaps import Gap, widen
from model.jobs import Problem
from model.ranges import Dot, ParticipantSpan, RangeEnd
from model.sound import (
    AssumedParticipant,
    Client,
    Late,
    Misfit,
    MissedLinks,
    OpenedConnection,
    Soundness,
    SplitParticipant,
    doubts_of,
    misfit_of,
    strangers_of,
)
from model.words import ACTS, EdgeKind
from spark_jobs.errors import JobError
from spark_jobs.events.ranges import Longs, Ranges
from spark_jobs.spark.database import Connection
from statements import (
    Question,
    acting_sql,
    assumed_sql,
    clients_sql,
    connections_sql,
    doubtful_sql,
    gaps_sql,
    late_links_sql,
    late_sql,
    missed_sql,
    missing_sql,
    quiet_sql,
    range_ends_sql,
)

# Participants per statement: SQLite takes a million characters, one participant takes up to 45.
STATEMENT_ROWS = 4000
# At most this many equal messages are sent to each task.
MOST_EQUAL = 100_000

Item = TypeVar("Item")


@dataclass(frozen=True)
class ChainEnd:
    """One end of a chain: its position and its clock."""

    id: int
    trace: int
    vhost: str
    participant: int
    height: int
    interval: str
    clock: bytes
    candidates: int | None = None

    @property
    def dot(self) -> Dot:
        """Its position in causal order."""
        return Dot(self.interval, self.height)


class History:
    """The questions, on one connection."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def event(self, event_id: int) -> ChainEnd:
        """One event; raises JobError (not_found) if there is none."""
        rows = self.connection.rows(
            "SELECT e.id, e.trace_id AS trace, t.vhost, e.participant, e.height,"
            ' p."interval", e.clock, e.candidates FROM events e'
            " JOIN traces t ON t.id = e.trace_id"
            " JOIN participants p ON p.trace_id = e.trace_id AND p.number = e.participant"
            f" WHERE e.id = {int(event_id)}"
        )
        if not rows:
            raise JobError(Problem.not_found, f"There is no event {event_id} in the store.")
        return ChainEnd(**rows[0])

    def find(self, event_id: int) -> tuple[int, str] | None:
        """The trace and the virtual host of an event; None if there is no such event."""
        rows = self.connection.rows(
            "SELECT e.trace_id AS trace, t.vhost FROM events e JOIN traces t ON t.id = e.trace_id"
            f" WHERE e.id = {int(event_id)}"
        )
        return (rows[0]["trace"], rows[0]["vhost"]) if rows else None

    def exists(self, event_id: int) -> bool:
        """Tell whether the store still has an event."""
        return bool(self.connection.rows(f"SELECT id FROM events WHERE id = {int(event_id)}"))

    def participants(self, trace: int, first_id: int, last_id: int) -> list[ParticipantSpan]:
        """The participants with events in a span of ids."""
        return [
            ParticipantSpan(*row)
            for batch in self.connection.query(acting_sql(Question(trace, first_id, last_id)))
            for row in zip(*batch.to_pydict().values(), strict=True)
        ]

    def last_at_or_below(
        self, trace: int, heights: Iterable[tuple[int, int]]
    ) -> dict[int, RangeEnd]:
        """For each (participant, height) its last event not above that height, if it has one."""
        return self._range_ends(trace, heights, forward=False)

    def first_at_or_above(
        self, trace: int, heights: Sequence[tuple[int, int]]
    ) -> dict[int, RangeEnd]:
        """For each (participant, height) its first event not below that height."""
        marks = self._range_ends(trace, heights, forward=True)
        if len(marks) < len(heights):
            raise JobError(
                Problem.failed,
                "Events went away while the chain was planned: the store is being pruned or was"
                " restored. Ask again.",
            )
        return marks

    def _range_ends(
        self, trace: int, heights: Iterable[tuple[int, int]], *, forward: bool
    ) -> dict[int, RangeEnd]:
        marks: dict[int, RangeEnd] = {}
        for chunk in lists_of(heights, STATEMENT_ROWS):
            for row in self.connection.rows(range_ends_sql(trace, chunk, forward=forward)):
                mark = RangeEnd(row["height"], row["seq"], row["id"], row["clock"])
                marks[row["participant"]] = mark
        return marks

    def clocks(self, trace: int, first_id: int, last_id: int) -> Iterator[pa.RecordBatch]:
        """Id, participant, height, seq and clock of every event of a span of ids."""
        return self.connection.query(
            "SELECT id, participant, height, seq, clock FROM events"
            f" WHERE trace_id = {trace} AND id BETWEEN {first_id} AND {last_id}"
        )

    def members(self, trace: int, ranges: Ranges) -> tuple[Longs, Longs, Longs]:
        """Ids, participants and heights of all events in the ranges, by id."""
        parts = [
            batch
            for chunk in ranges.chunks(STATEMENT_ROWS)
            for batch in self.connection.query(
                members_sql(trace, chunk, "m.id, m.participant, m.height"), batch_rows=65536
            )
        ]
        ids, participants, heights = (
            np.concatenate([part.column(k).to_numpy() for part in parts]) for k in range(3)
        )
        order = np.argsort(ids)
        return ids[order], participants[order], heights[order]

    def trace(self, vhost: str) -> int:
        """The number of a virtual host's trace; raises JobError (not_found)."""
        for row in self.connection.rows("SELECT id, vhost FROM traces"):
            if row["vhost"] == vhost:
                return int(row["id"])
        raise JobError(Problem.not_found, f"Nothing was ever traced in virtual host {vhost}.")

    def ids_between(self, trace: int, since: int, until: int) -> tuple[int, int] | None:
        """First and last id of a trace that may be recorded in a period; None if there is none.

        From ``since`` up to but not including ``until``, in µs.
        """
        blocks = self.connection.rows(
            "SELECT coalesce(min(number), -1) AS first, coalesce(max(number), -1) AS last"
            f" FROM blocks WHERE latest >= {since} AND earliest < {until}"
        )[0]
        if blocks["first"] < 0:
            return None
        first, end = ids_of_blocks(blocks["first"], blocks["last"])
        ids = self.connection.rows(
            "SELECT coalesce(min(id), -1) AS first, coalesce(max(id), -1) AS last FROM events"
            f" WHERE trace_id = {trace} AND id >= {first} AND id < {end}"
        )[0]
        return None if ids["first"] < 0 else (ids["first"], ids["last"])

    def prefix_before(
        self, trace: int, bound_at: int, after_id: int
    ) -> tuple[int, int, int] | None:
        """A trace's events after an id, up to the first recorded at ``bound_at`` (µs) or later.

        As (first id, last id, number); None if there are none.
        """
        block = self.connection.rows(
            f"SELECT coalesce(min(number), -1) AS first FROM blocks WHERE latest >= {bound_at}"
        )[0]["first"]
        end = -1
        if block >= 0:
            end = self.connection.rows(
                f"SELECT coalesce(min(id), -1) AS first FROM events WHERE trace_id = {trace}"
                f" AND id >= {ids_of_blocks(block, block)[0]} AND recorded_at >= {bound_at}"
            )[0]["first"]
        prefix = self.connection.rows(
            "SELECT coalesce(min(id), -1) AS first, coalesce(max(id), -1) AS last,"
            f" count(*) AS events FROM events WHERE trace_id = {trace} AND id > {after_id}"
            + (f" AND id < {end}" if end >= 0 else "")
        )[0]
        return (prefix["first"], prefix["last"], prefix["events"]) if prefix["events"] else None

    def gaps_in_time(self, trace: int, first: int, last: int) -> list[Gap]:
        """As `gaps`, with all times at which what they lack would have been recorded."""
        gaps = []
        for gap in self.gaps(trace, first, last):
            begins = self.newest_until(trace, gap.after_event_id)
            end = MAX_ID if gap.before_event_id is None else gap.before_event_id - 1
            ends = self.newest_until(trace, end)
            gaps.append(widen(gap, begins and begins[1], ends and ends[1]))
        return gaps

    def newest_until(self, trace: int, event_id: int) -> tuple[int, int] | None:
        """Id and time (µs) of a trace's newest event up to an id; None if there is none."""
        rows = self.connection.rows(
            f"SELECT id, recorded_at FROM events WHERE trace_id = {trace} AND id <= {event_id}"
            " ORDER BY id DESC LIMIT 1"
        )
        return (rows[0]["id"], rows[0]["recorded_at"]) if rows else None

    def oldest(self, trace: int) -> int:
        """The first id that a trace still has; 0 if there is none."""
        sql = f"SELECT coalesce(min(id), 0) AS id FROM events WHERE trace_id = {trace}"
        return int(self.connection.rows(sql)[0]["id"])

    def is_pruned(self, trace: int) -> bool:
        """Tell whether events of a trace were removed."""
        return bool(
            self.connection.rows(f"SELECT pruned FROM traces WHERE id = {trace}")[0]["pruned"]
        )

    def names(self, trace: int, numbers: Iterable[int]) -> Mapping[int, tuple[str, str]]:
        """Name and interval of participants."""
        rows = self._participants(trace, numbers, 'name, "interval"')
        return {row["number"]: (row["name"], row["interval"]) for row in rows}

    def users(self, trace: int, numbers: Iterable[int]) -> dict[int, str]:
        """The broker's users of participants."""
        return {row["number"]: row["user"] for row in self._participants(trace, numbers, '"user"')}

    def _participants(
        self, trace: int, numbers: Iterable[int], columns: str
    ) -> Iterator[dict[str, Any]]:
        query = f"SELECT number, {columns} FROM participants WHERE trace_id = {trace} AND number IN"
        for chunk in lists_of(numbers, STATEMENT_ROWS):
            yield from self.connection.rows(f"{query} ({', '.join(map(str, chunk))})")

    def gaps(self, trace: int, first_id: int, last_id: int) -> list[Gap]:
        """The gaps in which events between two events may be missing."""
        question = Question.between(trace, first_id, last_id)
        rows = self.connection.rows(
            "SELECT id, after_event_id, coalesce(before_event_id, -1) AS before_event_id, since,"
            f' coalesce("until", -1) AS "until", reason,'
            " CASE WHEN suspected THEN 1 ELSE 0 END AS suspected,"
            " CASE WHEN declared THEN 1 ELSE 0 END AS declared, quarantined, channel FROM gaps"
            f" WHERE trace_id = {trace} AND {gaps_sql(question)}"
            " ORDER BY after_event_id, id"
        )
        # NULL comes as -1: SQLite's driver cannot tell the type of a column of NULLs.
        values: list[dict[str, Any]] = [
            {name: None if value == -1 else value for name, value in row.items()} for row in rows
        ]
        flags = ("suspected", "declared")
        return [Gap(**{**row, **{flag: bool(row[flag]) for flag in flags}}) for row in values]

    def assumed_participants(
        self, trace: int, first_id: int, last_id: int
    ) -> list[AssumedParticipant]:
        """The assumed participants in an answer's span."""
        query = assumed_sql(Question.between(trace, first_id, last_id))
        return [AssumedParticipant(**row) for row in self.connection.rows(query)]

    def misfit(self, trace: int) -> Misfit | None:
        """The misfit of a trace's policy, if there may be one."""
        clients = [Client(**row) for row in self.connection.rows(clients_sql(trace))]
        numbers = strangers_of(clients)
        rows = self.connection.rows(connections_sql(trace, numbers)) if numbers else []
        return misfit_of(clients, [OpenedConnection(**row) for row in rows])

    def late(self, trace: int, first_id: int, last_id: int) -> Late | None:
        """The links of a span that clocks do not have."""
        rows = self.connection.rows(late_sql(Question.between(trace, first_id, last_id)))
        return Late(**rows[0]) if rows else None

    def late_links(self, trace: int, first_id: int, last_id: int) -> set[tuple[int, int]]:
        """These links, as (effect, cause), `MOST_LATE` at the most."""
        rows = self.connection.rows(late_links_sql(Question.between(trace, first_id, last_id)))
        return {(row["effect_id"], row["cause_id"]) for row in rows}

    def doubtful(self, trace: int, first_id: int, last_id: int) -> DoubtfulSpan:
        """The doubtful deliveries after one event and up to another."""
        rows = self.connection.rows(doubtful_sql(Question.between(trace, first_id, last_id)))
        return DoubtfulSpan([DoubtfulDelivery(**row) for row in rows])

    def with_equals(self, trace: int, first_id: int) -> frozenset[int] | None:
        """The publishes from an event on that are like others, so that deliveries may be of either.

        None if they are more than `MOST_EQUAL`.
        """
        rows = self.connection.rows(
            f"SELECT DISTINCT cause_id FROM edges WHERE trace_id = {trace}"
            f" AND cause_id >= {first_id} AND rule = '{ACTS[EdgeKind.candidate]}'"
            f" LIMIT {MOST_EQUAL + 1}"
        )
        publishes = frozenset(row["cause_id"] for row in rows)
        return publishes if len(publishes) <= MOST_EQUAL else None

    def split_participants(self, trace: int, first_id: int, last_id: int) -> list[SplitParticipant]:
        """The participants in an answer's span that miss what their programs were told."""
        query = missing_sql(Question.between(trace, first_id, last_id))
        return [SplitParticipant(**row) for row in self.connection.rows(query)]

    def missed_links(
        self, trace: int, participants: Sequence[SplitParticipant]
    ) -> list[MissedLinks]:
        """The links that these participants missed, by rule."""
        if not participants:
            return []
        return [MissedLinks(**row) for row in self.connection.rows(missed_sql(trace, participants))]

    def soundness(self, trace: int, first_id: int, last_id: int) -> Soundness:
        """The soundness of an answer's span."""
        uninformed = self.split_participants(trace, first_id, last_id)
        doubts = doubts_of(
            self.assumed_participants(trace, first_id, last_id),
            self.misfit(trace),
            uninformed,
            self.missed_links(trace, uninformed),
            self.late(trace, first_id, last_id),
        )
        return Soundness(doubts, self.quiet(trace, first_id, last_id))

    def quiet(self, trace: int, first_id: int, last_id: int) -> int:
        """The number of events of quiet traffic in a span, counted up to `MOST_QUIET`."""
        return int(
            self.connection.rows(quiet_sql(Question.between(trace, first_id, last_id)))[0]["quiet"]
        )

    def row_bytes(self, trace: int, first_id: int, last_id: int) -> int:
        """About how many bytes a row of the span has, estimated from a few."""
        step = max(1, (last_id - first_id) // 200)
        ids = ", ".join(str(event_id) for event_id in range(first_id, last_id + 1, step))
        rows = self.connection.rows(
            "SELECT CAST(avg(length(clock) + length(properties) + coalesce(length(payload), 0))"
            " AS BIGINT) AS mean"
            f" FROM events WHERE trace_id = {trace} AND id IN ({ids})"
        )
        return int(rows[0]["mean"] or 0)


def lists_of(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """The items in lists of at most ``size``."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


def members_sql(trace: int, ranges: Ranges, items: str = "m.id") -> str:
    """The query for the events ``m`` in height ranges, through the index on heights."""
    columns = (ranges.participants.tolist(), ranges.low.tolist(), ranges.high.tolist())
    values = ", ".join(f"({p}, {low}, {high})" for p, low, high in zip(*columns, strict=True))
    # SQLite keeps the order of a CROSS JOIN: ranges outside, their events inside.
    return (
        f"WITH asked (participant, low, high) AS (VALUES {values})"
        f" SELECT {items} FROM asked CROSS JOIN events m"
        f" WHERE m.trace_id = {trace} AND m.participant = asked.participant"
        " AND m.height BETWEEN asked.low AND asked.high"
    )
