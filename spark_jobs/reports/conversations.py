"""Gathering the events of each conversation of a period, for jobs that read whole conversations.

A conversation is here all events joined by messages and links, and with ``via=conversation`` by
shared keys too, in either direction. A publish that overflows a queue is not joined with the
message that had to go: else all that ever went through a full queue would be one conversation. A
conversation is of the period in which its first event was recorded; its other events may be later.
The driver joins events by three numbers each; Spark brings the events themselves together, and
hands them to a function one conversation at a time.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from model.blocks import MAX_ID
from model.conversations.assembly import conversation_of
from model.conversations.consumers import MOST_PUBLISHES, PublisherRecord
from model.conversations.conversation import Conversation
from model.deaths import Loss, deaths_of
from model.error_queues import forward_of
from model.gaps import Gap
from model.happened import Cause, ConversationEvent, causes_of, keys_in
from model.jobs import Problem
from model.message_types import type_of
from model.movers import mover_of
from model.sound import Evidence
from model.spans import SpanFacts
from model.words import IS_CONVERSATION, Disposition, EdgeKind, EventType, Match, Via
from spark_jobs.errors import JobError
from spark_jobs.events.causes import causes_in
from spark_jobs.events.history import History
from spark_jobs.events.ranges import Longs
from spark_jobs.reports.period import Period
from spark_jobs.spark.database import Connection
from statements import MAY_BE_HALF, REACTIONS

Row: TypeAlias = dict[str, Any]

# Events that the driver joins, at about 60 bytes each.
MOST_EVENTS = 20_000_000
# The first events of a conversation, which a task holds; more are cut off.
MOST_EACH = 10_000

COLUMNS = (
    *("id", "type", "match", "cause_id", "participant", "participant_name"),
    *("recorded_at", "exchange", "routing_keys", "queue", "routed_queues", "redelivered"),
    *("settlement", "settled_at", "properties", "envelope", "links", "conversations"),
)
"""The columns that `conversation_of_rows` needs."""


class ConversationTable(NamedTuple):
    """Events by id, and the first event of the conversation of each."""

    ids: Longs
    roots: Longs


@dataclass(frozen=True)
class ConversationRows:
    """A conversation with its events' rows, by id; ``is_cut`` if these are only the first.

    ``open_at`` are its publishes that name a cause which is not among them.
    """

    conversation: Conversation
    rows: dict[int, Row]
    is_cut: bool
    open_at: frozenset[int] = frozenset()

    @property
    def span_facts(self) -> dict[int, SpanFacts]:
        """The facts that spans need of each event."""
        return {
            event_id: SpanFacts(row["properties"], row.get("payload_bytes"), row.get("connection"))
            for event_id, row in self.rows.items()
        }


def publisher_table(
    connection: Connection, trace: int, span: tuple[int, int], via: Via
) -> pa.Table:
    """The `PublisherRecord` of each participant, with its newest publishes of the span of ids."""
    participants, ids = _columns(
        connection,
        "SELECT participant, id FROM events"
        f" WHERE trace_id = {trace} AND id BETWEEN {span[0]} AND {span[1]}"
        f" AND type = {int(EventType.published)} AND NOT quiet ORDER BY id",
    )
    order = np.argsort(participants, kind="stable")
    numbers, starts = np.unique(participants[order], return_index=True)
    records: dict[int, Row] = {
        row["participant"]: row for row in _last_unnamed(connection, trace, via)
    }
    halves = f"SELECT number FROM participants WHERE trace_id = {trace} AND {MAY_BE_HALF}"
    for row in connection.rows(halves):
        records[row["number"]] = {"participant": row["number"], "may_be_half": 1}
    for number, publishes in zip(numbers.tolist(), np.split(ids[order], starts[1:]), strict=True):
        newest = publishes[-MOST_PUBLISHES:]
        floor = int(publishes[-MOST_PUBLISHES - 1]) if len(publishes) > MOST_PUBLISHES else 0
        record = records.setdefault(number, {"participant": number})
        record |= {"newest": newest.tolist(), "cutoff": floor}
    return pa.Table.from_pylist([*records.values()], schema=_PUBLISHERS)


def _last_unnamed(connection: Connection, trace: int, via: Via) -> Iterator[Row]:
    """The last publish that names no cause of each participant, if any, and its numbers."""
    names = f"SELECT 1 FROM edges WHERE effect_id = e.id AND kind <> {int(EdgeKind.candidate)}"
    shares = (
        f" AND NOT EXISTS (SELECT 1 FROM keys AS k WHERE k.trace_id = {trace}"
        f" AND k.event_id = e.id AND (k.roles & {IS_CONVERSATION}) <> 0)"
    )
    sql = (
        f"SELECT p.number AS participant, {REACTIONS} AS reactions, p.explained, p.spanned,"
        " max(e.id) AS unnamed"
        f" FROM events AS e JOIN participants AS p ON p.trace_id = {trace}"
        f" AND p.number = e.participant AND p.reactions > p.explained + p.spanned"
        f" WHERE e.trace_id = {trace}"
        f" AND e.type = {int(EventType.published)} AND NOT e.quiet AND NOT EXISTS ({names})"
        f"{shares if via is Via.conversation else ''}"
        " GROUP BY p.number, p.reactions, p.explained, p.spanned"
    )
    for batch in connection.query(sql, 65536):
        yield from batch.to_pylist()


def loss_table(connection: Connection, trace: int, span: tuple[int, int]) -> pa.Table:
    """The losses of publishes' copies, as JSON: time and reason by queue."""
    rows = connection.rows(
        f"SELECT event_id, queue, at, reason FROM lost_copies WHERE trace_id = {trace}"
        f" AND event_id BETWEEN {span[0]} AND {span[1]} ORDER BY event_id, queue"
    )
    losses: defaultdict[int, dict[str, tuple[int, str]]] = defaultdict(dict)
    for row in rows:
        losses[row["event_id"]][row["queue"]] = (row["at"], row["reason"])
    columns = [[*losses], [json.dumps(copies) for copies in losses.values()]]
    return pa.table([pa.array(c, t) for c, t in zip(columns, _LOSSES.types, strict=True)], _LOSSES)


def end_of(period: Period, end_at: int | None) -> int:
    """The last id of what was recorded before ``end_at`` (µs); without it, of all."""
    if end_at is None:
        newest = period.history.newest_until(period.trace, MAX_ID)
        return newest[0] if newest else 0
    ids = period.history.ids_between(period.trace, period.since, end_at)
    return ids[1] if ids else 0


def join_events(
    connection: Connection, trace: int, span: tuple[int, int], end: int, via: Via
) -> ConversationTable:
    """The conversations that began within a span of ids, with their events up to the id ``end``.

    Left out is what an event before the span led to, or shares a key with.
    """
    first, last = span
    ids, causes = _columns(
        connection,
        "SELECT id, coalesce(cause_id, 0) AS cause FROM events"
        f" WHERE trace_id = {trace} AND id BETWEEN {first} AND {end} AND NOT quiet ORDER BY id"
        f" LIMIT {MOST_EVENTS + 1}",
    )
    if len(ids) > MOST_EVENTS:
        raise JobError(
            Problem.bad_request,
            f"The period has more than {MOST_EVENTS:,} events; ask for a shorter one.",
        )
    oldest = History(connection).oldest(trace)
    effects, link_causes = _columns(
        connection,
        "SELECT effect_id, cause_id FROM edges"
        f" WHERE trace_id = {trace} AND effect_id BETWEEN {first} AND {end}"
        f" AND kind NOT IN ({int(EdgeKind.candidate)}, {int(EdgeKind.overflow)})",
    )
    with_cause = np.flatnonzero(causes >= oldest)
    a = np.concatenate([ids[with_cause], effects])
    b = np.concatenate([causes[with_cause], link_causes])
    is_stored = is_member(ids, a) & (b >= oldest)
    a, b = a[is_stored], b[is_stored]
    is_before = b < first
    begun_before = np.searchsorted(ids, a[is_before])
    if via is Via.conversation:
        key_events = _events_with_older_keys(connection, trace, (first, end))
        shared_indexes = np.searchsorted(ids, key_events[is_member(ids, key_events)])
        begun_before = np.concatenate([begun_before, shared_indexes])
    inside = ~is_before & is_member(ids, b)
    pairs = [np.searchsorted(ids, a[inside]), np.searchsorted(ids, b[inside])]
    if via is Via.conversation:
        pairs = _with_keys(connection, trace, (first, end), ids, pairs)
    labels = connected_components(len(ids), *pairs)
    is_ours = np.ones(len(ids), dtype=bool)
    is_ours[labels[begun_before]] = False
    roots = ids[labels]
    is_selected = is_ours[labels] & (roots <= last)
    return ConversationTable(ids[is_selected], roots[is_selected])


def connected_components(count: int, a: Longs, b: Longs) -> Longs:
    """The least position that each of ``count`` positions is joined with, by pairs of positions."""
    labels = np.arange(count, dtype=np.int64)
    while True:
        low = np.minimum(labels[a], labels[b])
        new = labels.copy()
        np.minimum.at(new, labels[a], low)
        np.minimum.at(new, labels[b], low)
        while (new[new] != new).any():
            new = new[new]
        if (new == labels).all():
            return labels
        labels = new


def _with_keys(
    connection: Connection, trace: int, span: tuple[int, int], ids: Longs, pairs: list[Longs]
) -> list[Longs]:
    """The pairs, and a pair of each event that shares a key with the first that has it."""
    sql = (
        f"SELECT event_id, key FROM keys WHERE trace_id = {trace}"
        f" AND event_id BETWEEN {span[0]} AND {span[1]} AND (roles & {IS_CONVERSATION}) <> 0"
        " ORDER BY event_id"
    )
    table = pa.Table.from_batches(
        [batch.cast(_KEYS) for batch in connection.query(sql, 65536)], schema=_KEYS
    )
    events = table.column("event_id").to_numpy()
    numbers = table.column("key").combine_chunks().dictionary_encode().indices.to_numpy()
    is_inside = is_member(ids, events)
    indexes, numbers = np.searchsorted(ids, events[is_inside]), numbers[is_inside]
    _, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    return [
        np.concatenate([pairs[0], indexes]),
        np.concatenate([pairs[1], indexes[first][inverse]]),
    ]


def _events_with_older_keys(connection: Connection, trace: int, span: tuple[int, int]) -> Longs:
    """The events of a span that share a key with an earlier event that is still stored."""
    events, _ = _columns(
        connection,
        f"SELECT k.event_id, 0 AS cause FROM keys AS k WHERE k.trace_id = {trace}"
        f" AND k.event_id BETWEEN {span[0]} AND {span[1]} AND (k.roles & {IS_CONVERSATION}) <> 0"
        " AND EXISTS (SELECT 1 FROM searched_keys AS b JOIN events AS e ON e.id = b.event_id"
        f" WHERE b.trace_id = {trace} AND b.key = k.key AND b.event_id < {span[0]}"
        f" AND b.run >= -({span[0]} >> 16)"
        f" AND (b.roles & {IS_CONVERSATION}) = {IS_CONVERSATION} AND NOT e.quiet)",
    )
    return np.unique(events)


_COUNTS = ("reactions", "explained", "spanned")
_FIELDS = tuple(name for name in PublisherRecord._fields if name != "evidence")
_PUBLISHERS = pa.schema(
    {name: pa.int64() for name in ("participant", *_COUNTS, *_FIELDS)}
    | {"newest": pa.list_(pa.int64())}
)
_LOSSES = pa.schema([("id", pa.int64()), ("losses", pa.string())])
_KEYS = pa.schema([("event_id", pa.int64()), ("key", pa.binary())])


def _columns(connection: Connection, sql: str) -> list[Longs]:
    """Two columns of numbers, by a query."""
    batches = [*connection.query(sql, 65536)]
    return [
        np.concatenate(
            [np.empty(0, np.int64), *(np.asarray(b.column(k), np.int64) for b in batches)]
        )
        for k in range(2)
    ]


def is_member(ids: Longs, events: Longs) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.isin(events, ids)


def conversations_in(
    batches: Iterable[pa.RecordBatch], via: Via, gaps: Sequence[Gap] = ()
) -> Iterator[ConversationRows]:
    """The conversations in a partition's rows; ``gaps`` are those that they may lie in."""
    rows = (row for batch in batches for row in batch.to_pylist())
    for root, event_rows in groupby(rows, key=lambda row: row["root"]):
        members: dict[int, Row] = {}
        is_cut = False
        for row in event_rows:
            if len(members) < MOST_EACH:
                members[row["id"]] = row
            else:
                is_cut = True
        yield conversation_of_rows(root, members, via, gaps, is_cut=is_cut)


def conversation_of_rows(
    root: int, rows: dict[int, Row], via: Via, gaps: Sequence[Gap] = (), *, is_cut: bool = False
) -> ConversationRows:
    """A conversation by the rows of its events, which may have more columns than `COLUMNS`."""
    for row in rows.values():
        row["properties"] = json.loads(row["properties"])
    events = {event_id: event_in(row) for event_id, row in rows.items()}
    links = {
        event_id: [
            Cause(cause.cause, cause.rule, cause.kind.name) for cause in causes_in(row["links"])
        ]
        for event_id, row in rows.items()
        if row["links"]
    }
    keys = {
        event_id: row["conversations"].split(",")
        for event_id, row in rows.items()
        if row["conversations"]
    }
    causes = causes_of(events, links, via, roots={root}, members=events, shared_keys=keys)
    conversation = conversation_of(
        events[root],
        events.values(),
        causes,
        via=via,
        origins=frozenset(events.keys() - causes.keys()),
        publishers={
            row["participant"]: PublisherRecord(
                evidence=Evidence(**{name: row[name] or 0 for name in _COUNTS}),
                **{name: row[name] for name in _FIELDS if row[name] is not None},
            )
            for row in rows.values()
            if "newest" in row
        },
        losses={
            event_id: {queue: Loss(*loss) for queue, loss in json.loads(row["losses"]).items()}
            for event_id, row in rows.items()
            if row.get("losses")
        },
        gaps=gaps,
        truncated=is_cut,
    )
    open_at = frozenset(
        event_id
        for event_id, event_links in links.items()
        if events[event_id].type is EventType.published
        and any(link.event not in events for link in event_links)
    )
    return ConversationRows(conversation, rows, is_cut, open_at)


@lru_cache(maxsize=4096)
def _names(text: str) -> tuple[str, ...]:
    """The names in a stored list; the same few lists come again and again."""
    return tuple(json.loads(text))


def event_in(row: Row) -> ConversationEvent:
    """An event's row, whose properties were read, as `ConversationEvent`."""
    properties = row["properties"]
    routing_keys = _names(row["routing_keys"])
    is_publish = row["type"] == EventType.published
    expiration = properties.get("expiration")
    return ConversationEvent(
        row["id"],
        EventType(row["type"]),
        Match(row["match"]),
        row["cause_id"],
        row["participant"],
        row["participant_name"],
        row["recorded_at"],
        row["exchange"],
        routing_keys,
        row["queue"],
        _names(row["routed_queues"] or "[]"),
        row["redelivered"],
        type_of(properties, row["exchange"], routing_keys, row["envelope"]),
        () if is_publish else deaths_of(properties),
        forward_of(properties, row["exchange"], routing_keys, row["envelope"])
        if is_publish
        else None,
        expiration if isinstance(expiration, str) else None,
        tuple(keys_in(properties)) if is_publish else (),
        None if row["settlement"] is None else Disposition(row["settlement"]),
        row["settled_at"],
        mover_of(row["participant_name"], row.get("connection") or "", row["queue"], properties),
    )
