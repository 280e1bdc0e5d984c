"""Brings the events of each conversation of a period together, for jobs that look at all of them.

Here a conversation is everything that messages and links join, and with ``via=conversation``
shared keys too, in whichever direction: so whatever led to one of its events, or was led to, is in
it as well. A publish that made a queue too long is not joined with the message that had to go: else
all that ever went through a full queue would be one conversation. A conversation is of the period
if its first event was recorded then; what belongs to it is looked for up to a later time. The
driver finds what is joined, from three numbers an event. Spark brings the events themselves
together, and hands them to a function a conversation at a time.
"""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import LongType

from model.conversations import MOST_PUBLISHES, Conversation, PublisherRecord, conversation_of
from model.deaths import Loss, deaths_of
from model.error_queues import forward_of
from model.gaps import Gap
from model.happened import Cause, ConversationEvent, causes_of, keys_in
from model.jobs import Problem
from model.message_types import type_of
from model.words import IS_CONVERSATION, Disposition, EdgeKind, EventType, Match, Via
from spark_jobs.chains.causes import named_in
from spark_jobs.chains.executors import slices_of, tasks_at_a_time
from spark_jobs.chains.history import MAX_ID, History
from spark_jobs.chains.ranges import Longs
from spark_jobs.chains.slices import MOST_ROWS, Slice
from spark_jobs.chains.source import Batches, read
from spark_jobs.errors import JobError
from spark_jobs.reports.period import Period
from spark_jobs.spark.columns import spark_schema
from spark_jobs.spark.database import Connection, DatabaseAddress
from statements import REACTIONS

Row: TypeAlias = dict[str, Any]

# Events that the driver joins, at about 60 bytes each.
MOST_EVENTS = 20_000_000
# Of a conversation, so many events are looked at, the first: a task holds them all.
MOST_EACH = 10_000
# What Spark sends to each task instead of moving events.
BROADCAST_ROWS = 2_000_000

COLUMNS = (
    "id",
    "type",
    "match",
    "cause_id",
    "participant",
    "participant_name",
    "recorded_at",
    "exchange",
    "routing_keys",
    "queue",
    "routed_queues",
    "redelivered",
    "settlement",
    "settled_at",
    "properties",
    "envelope",
    "links",
    "conversations",
)
"""What `told` needs of an event."""


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


def gathered(
    spark: SparkSession,
    database: DatabaseAddress,
    period: Period,
    via: Via,
    *,
    through: int | None = None,
    columns: Sequence[str] = COLUMNS,
) -> DataFrame | None:
    """The events of a period's conversations, with the column ``root``; None if there are none.

    Each conversation is in one partition, its events together and by id (see `each`). They are
    looked for up to what was recorded before ``through`` (µs); without it, up to the newest event.
    Quiet traffic is left out. Raises `JobError` where the period has more events than the driver
    can join.
    """
    if period.ids is None:
        return None
    first, last = period.ids
    end = max(last, end_of(period, through))
    joined = join(period.history.connection, period.trace, (first, last), end, via)
    if not len(joined.ids):
        return None
    slices = slices_of(spark, period.trace, first, end)
    events = _read(spark, database, columns, slices, joined)
    parts = max(tasks_at_a_time(spark), -(-len(joined.ids) // MOST_ROWS))
    publishers = _publishers(period.history.connection, period.trace, (first, end), via)
    publishing = _frame(spark, publishers)
    events = events.join(F.broadcast(publishing), "participant", "left")
    losses = _losses(period.history.connection, period.trace, (first, end))
    lost = _frame(spark, losses)
    if len(losses) <= BROADCAST_ROWS:
        lost = F.broadcast(lost)
    events = events.join(lost, "id", "left")
    return events.repartition(parts, "root").sortWithinPartitions("root", "id")


def _read(
    spark: SparkSession,
    database: DatabaseAddress,
    columns: Sequence[str],
    slices: Sequence[Slice],
    joined: ConversationTable,
) -> DataFrame:
    """The slices' events that are joined, with the column ``root``.

    What is joined goes to the task that reads the slice: for Spark to bring both together it would
    have to move all events once more.
    """
    cuts = np.searchsorted(joined.ids, [part.last_id for part in slices], "right")[:-1]
    parts = zip(np.split(joined.ids, cuts), np.split(joined.roots, cuts), strict=True)
    texts = [zlib.compress(np.stack([ids, ids - roots]).tobytes(), 1) for ids, roots in parts]
    frame = _frame(spark, pa.table({"number": range(len(slices)), "joined": texts}))

    def rooted(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number, text in zip(*batch.to_pydict().values(), strict=True):
                ids, back = np.frombuffer(zlib.decompress(text), np.int64).reshape(2, -1)
                for some in read(database, columns, slices[number]) if len(ids) else ():
                    kept = some.filter(pa.array(_among(ids, some.column("id"))))
                    places = np.searchsorted(ids, kept.column("id"))
                    yield kept.append_column("root", pa.array(ids[places] - back[places]))

    schema = spark_schema(columns).add("root", LongType())
    return frame.repartition(len(slices)).mapInArrow(rooted, schema)


def _frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    """A table for Spark. Of an empty one Connect would not know the columns by itself."""
    return spark.createDataFrame(table, from_arrow_schema(table.schema))


def _publishers(connection: Connection, trace: int, span: tuple[int, int], via: Via) -> pa.Table:
    """The `PublisherRecord` of each participant, with its newest publishes of the span of ids."""
    participants, ids = _columns(
        connection,
        "SELECT participant, id FROM events"
        f" WHERE trace_id = {trace} AND id BETWEEN {span[0]} AND {span[1]}"
        f" AND type = {int(EventType.published)} AND NOT quiet ORDER BY id",
    )
    order = np.argsort(participants, kind="stable")
    numbers, starts = np.unique(participants[order], return_index=True)
    found: dict[int, Row] = {each["participant"]: each for each in _unnamed(connection, trace, via)}
    for number, its in zip(numbers.tolist(), np.split(ids[order], starts[1:]), strict=True):
        newest = its[-MOST_PUBLISHES:]
        since = int(its[-MOST_PUBLISHES - 1]) if len(its) > MOST_PUBLISHES else 0
        one = found.setdefault(number, {"participant": number})
        one |= {"newest": newest.tolist(), "since": since}
    return pa.Table.from_pylist([*found.values()], schema=_PUBLISHERS)


def _unnamed(connection: Connection, trace: int, via: Via) -> Iterator[Row]:
    """The last publish that names no cause of each participant that has one, and its numbers."""
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


def _losses(connection: Connection, trace: int, span: tuple[int, int]) -> pa.Table:
    """The losses of publishes' copies, as JSON: by queue, when and why."""
    rows = connection.rows(
        f"SELECT event_id, queue, at, reason FROM lost_copies WHERE trace_id = {trace}"
        f" AND event_id BETWEEN {span[0]} AND {span[1]} ORDER BY event_id, queue"
    )
    found: defaultdict[int, dict[str, tuple[int, str]]] = defaultdict(dict)
    for row in rows:
        found[row["event_id"]][row["queue"]] = (row["at"], row["reason"])
    columns = [[*found], [json.dumps(each) for each in found.values()]]
    return pa.table([pa.array(c, t) for c, t in zip(columns, _LOSSES.types, strict=True)], _LOSSES)


def end_of(period: Period, through: int | None) -> int:
    """The last id of what was recorded before ``through`` (µs); without it, of all."""
    if through is None:
        newest = period.history.newest_until(period.trace, MAX_ID)
        return newest[0] if newest else 0
    ids = period.history.ids_between(period.trace, period.since, through)
    return ids[1] if ids else 0


def join(
    connection: Connection, trace: int, within: tuple[int, int], end: int, via: Via
) -> ConversationTable:
    """The conversations that began within a span of ids, with their events up to the id ``end``.

    Left out is what an event before the span led to, or shares a key with.
    """
    first, last = within
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
    effects, named = _columns(
        connection,
        "SELECT effect_id, cause_id FROM edges"
        f" WHERE trace_id = {trace} AND effect_id BETWEEN {first} AND {end}"
        f" AND kind NOT IN ({int(EdgeKind.candidate)}, {int(EdgeKind.overflow)})",
    )
    led = np.flatnonzero(causes >= oldest)
    a = np.concatenate([ids[led], effects])
    b = np.concatenate([causes[led], named])
    kept = _among(ids, a) & (b >= oldest)
    a, b = a[kept], b[kept]
    is_before = b < first
    begun_before = np.searchsorted(ids, a[is_before])
    if via is Via.conversation:
        shared = _shared_before(connection, trace, (first, end))
        kept_shared = np.searchsorted(ids, shared[_among(ids, shared)])
        begun_before = np.concatenate([begun_before, kept_shared])
    inside = ~is_before & _among(ids, b)
    pairs = [np.searchsorted(ids, a[inside]), np.searchsorted(ids, b[inside])]
    if via is Via.conversation:
        pairs = _with_keys(connection, trace, (first, end), ids, pairs)
    labels = components(len(ids), *pairs)
    is_ours = np.ones(len(ids), dtype=bool)
    is_ours[labels[begun_before]] = False
    roots = ids[labels]
    wanted = is_ours[labels] & (roots <= last)
    return ConversationTable(ids[wanted], roots[wanted])


def components(count: int, a: Longs, b: Longs) -> Longs:
    """For each of so many places the least place that pairs of places join it with."""
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
    """The pairs, and one of each event that shares a key, with the first that has it."""
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
    kept = _among(ids, events)
    places, numbers = np.searchsorted(ids, events[kept]), numbers[kept]
    _, first, which = np.unique(numbers, return_index=True, return_inverse=True)
    return [np.concatenate([pairs[0], places]), np.concatenate([pairs[1], places[first][which]])]


def _shared_before(connection: Connection, trace: int, span: tuple[int, int]) -> Longs:
    """The events of a span that share a key with one before it which is still stored."""
    shared, _ = _columns(
        connection,
        f"SELECT k.event_id, 0 AS cause FROM keys AS k WHERE k.trace_id = {trace}"
        f" AND k.event_id BETWEEN {span[0]} AND {span[1]} AND (k.roles & {IS_CONVERSATION}) <> 0"
        " AND EXISTS (SELECT 1 FROM searched_keys AS b JOIN events AS e ON e.id = b.event_id"
        f" WHERE b.trace_id = {trace} AND b.key = k.key AND b.event_id < {span[0]}"
        f" AND b.run >= -({span[0]} >> 16)"
        f" AND (b.roles & {IS_CONVERSATION}) = {IS_CONVERSATION} AND NOT e.quiet)",
    )
    return np.unique(shared)


_PUBLISHERS = pa.schema(
    {name: pa.int64() for name in ("participant", *PublisherRecord._fields)}
    | {"newest": pa.list_(pa.int64())}
)
_LOSSES = pa.schema([("id", pa.int64()), ("losses", pa.string())])
_KEYS = pa.schema([("event_id", pa.int64()), ("key", pa.binary())])


def _columns(connection: Connection, sql: str) -> list[Longs]:
    """An answer of two columns of numbers."""
    batches = [*connection.query(sql, 65536)]
    return [
        np.concatenate(
            [np.empty(0, np.int64), *(np.asarray(b.column(k), np.int64) for b in batches)]
        )
        for k in range(2)
    ]


def _among(ids: Longs, some: Longs) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Flag those that are among the ids."""
    return np.isin(some, ids)


def each(
    batches: Iterable[pa.RecordBatch], via: Via, gaps: Sequence[Gap] = ()
) -> Iterator[ConversationRows]:
    """Each conversation of a partition of `gathered`; without ``gaps`` as if there were none."""
    rows = (row for batch in batches for row in batch.to_pylist())
    for root, its_rows in groupby(rows, key=lambda row: row["root"]):
        taken: dict[int, Row] = {}
        is_cut = False
        for row in its_rows:
            if len(taken) < MOST_EACH:
                taken[row["id"]] = row
            else:
                is_cut = True
        yield told(root, taken, via, gaps, is_cut=is_cut)


def told(
    root: int, rows: dict[int, Row], via: Via, gaps: Sequence[Gap] = (), *, is_cut: bool = False
) -> ConversationRows:
    """A conversation by the rows of its events, which may have more columns than `COLUMNS`."""
    for row in rows.values():
        row["properties"] = json.loads(row["properties"])
    events = {event_id: happened_in(row) for event_id, row in rows.items()}
    named = {
        event_id: [Cause(one.cause, one.rule, one.kind.name) for one in named_in(row["links"])]
        for event_id, row in rows.items()
        if row["links"]
    }
    shared = {
        event_id: row["conversations"].split(",")
        for event_id, row in rows.items()
        if row["conversations"]
    }
    causes = causes_of(events, named, via, roots={root}, members=events, shared=shared)
    conversation = conversation_of(
        events[root],
        events.values(),
        causes,
        via=via,
        origins=frozenset(events.keys() - causes.keys()),
        publishers={
            row["participant"]: PublisherRecord(
                **{name: row[name] for name in PublisherRecord._fields if row[name] is not None}
            )
            for row in rows.values()
            if "newest" in row
        },
        losses={
            event_id: {queue: Loss(*each) for queue, each in json.loads(row["losses"]).items()}
            for event_id, row in rows.items()
            if row.get("losses")
        },
        gaps=gaps,
        truncated=is_cut,
    )
    open_at = frozenset(
        event_id
        for event_id, found in named.items()
        if events[event_id].type is EventType.published
        and any(each.event not in events for each in found)
    )
    return ConversationRows(conversation, rows, is_cut, open_at)


@lru_cache(maxsize=4096)
def _names(text: str) -> tuple[str, ...]:
    """A list as the store has it; the same few come again and again."""
    return tuple(json.loads(text))


def happened_in(row: Row) -> ConversationEvent:
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
        () if is_publish else tuple(deaths_of(properties)),
        forward_of(properties, row["exchange"], routing_keys, row["envelope"])
        if is_publish
        else None,
        expiration if isinstance(expiration, str) else None,
        tuple(keys_in(properties)) if is_publish else (),
        None if row["settlement"] is None else Disposition(row["settlement"]),
        row["settled_at"],
    )
