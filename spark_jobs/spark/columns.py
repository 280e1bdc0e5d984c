"""Columns of an event that a job may read: one table, from SQL to Arrow to Spark.

Jobs name the columns they need and nothing else is read: a diagram needs no payloads, a comparison
of clocks nothing but clocks. Most are the fields of `model.event`; from them
`spark_jobs.formats.fields` makes the event object that exports show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from model.event import FIELDS, Field, Kind
from model.words import IS_CONVERSATION, EdgeKind, EventType, Match
from spark_jobs.spark.database import Dialect

JOINS = {
    "traces": "JOIN traces t ON t.id = e.trace_id",
    "participants": ("JOIN participants p ON p.trace_id = e.trace_id AND p.number = e.participant"),
    "channels": "JOIN channels c ON c.trace_id = e.trace_id AND c.number = e.channel",
    "causes": "LEFT JOIN events k ON k.id = e.cause_id",
    "cause channels": (
        "LEFT JOIN channels kc ON kc.trace_id = k.trace_id AND kc.number = k.channel"
    ),
}
# The join that another one needs before it.
PREREQUISITES = {"cause channels": "causes"}


@dataclass(frozen=True)
class EventColumn:
    """One column: its SQL, its type, the table it needs beside ``events e``.

    What the two databases call by different names stands in braces in the SQL (`WORDS`).

    ``mark`` stands for NULL on SQLite: its driver takes a column's type from the first rows, and a
    run of NULLs would make it a number. A mark is a value that the column never has.
    """

    sql: str
    type: pa.DataType
    join: str | None = None
    mark: int | str | None = None

    def select(self, name: str, dialect: Dialect) -> str:
        """The item of the select list."""
        sql = self.sql.format_map(WORDS[dialect])
        if self.mark is None or dialect != "sqlite":
            return f'{sql} AS "{name}"'
        mark = f"'{self.mark}'" if isinstance(self.mark, str) else str(self.mark)
        return f'coalesce({sql}, {mark}) AS "{name}"'

    def restore(self, values: pa.Array) -> pa.Array:
        """The answer's values in this column's type, with NULL in place of the mark."""
        values = values.cast(self.type)
        if self.mark is None:
            return values
        is_null = pc.equal(values, pa.scalar(self.mark, self.type))
        return pc.if_else(is_null, pa.scalar(None, self.type), values)


WORDS: dict[Dialect, dict[str, str]] = {
    "sqlite": {
        "row": "json_array",
        "rows": "json_group_array",
        "keys": "group_concat(lower(hex(s.key)))",
        "late": "group_concat(l.cause_id)",
        "empty": "x''",
    },
    "postgresql": {
        "row": "json_build_array",
        "rows": "json_agg",
        "keys": "string_agg(encode(s.key, 'hex'), ',')",
        "late": "string_agg(CAST(l.cause_id AS TEXT), ',')",
        "empty": "CAST('' AS bytea)",
    },
}

# Further causes of an event, each with its rule and position, in no order; candidates among them.
_LINKS = (
    "(SELECT CAST({rows}({row}(g.cause_id, g.rule, g.kind,"
    " n.participant, n.height, n.seq, n.recorded_at)) AS TEXT)"
    " FROM edges g LEFT JOIN events n ON n.id = g.cause_id"
    " WHERE g.effect_id = e.id HAVING count(*) > 0)"
)
_CONVERSATIONS = (
    "(SELECT {keys} FROM keys s WHERE s.trace_id = e.trace_id AND s.event_id = e.id"
    f" AND (s.roles & {IS_CONVERSATION}) <> 0)"
)

# The deliveries among these, each with when, from which queue and to whom it was handed over.
_DELIVERIES = (
    '(SELECT CAST({rows}({row}(g.cause_id, n.recorded_at, n.queue, nc."user")) AS TEXT)'
    " FROM edges g JOIN events n ON n.id = g.cause_id"
    " JOIN channels nc ON nc.trace_id = n.trace_id AND nc.number = n.channel"
    f" WHERE g.effect_id = e.id AND n.type = {int(EventType.received)}"
    f" AND g.kind <> {int(EdgeKind.candidate)} HAVING count(*) > 0)"
)
# The properties of a delivery where the broker wrote something into them that a topology shows.
_BY_BROKER = (
    f"(CASE WHEN e.type = {int(EventType.received)} AND (e.match = {int(Match.dead_lettered)}"
    " OR e.properties LIKE '%\"timestamp_in_ms\"%') THEN e.properties END)"
)

# A body that says the message's type (`model.message_types.is_in_body`), as far as SQL can tell;
# otherwise empty.
_ENVELOPE = (
    "coalesce((CASE WHEN e.properties LIKE '%\"content_type\"%application/vnd.masstransit+json%'"
    " OR e.properties LIKE '%\"content_type\"%application/cloudevents+json%' THEN e.payload END),"
    " {empty})"
)

# The causes among these that its clock does not have: spans told of them later.
_LATE = "(SELECT {late} FROM late_edges l WHERE l.trace_id = e.trace_id AND l.effect_id = e.id)"

# A body that is stored whole and is not large; otherwise empty.
MOST_BODY = 64 * 1024
_BODY = (
    f"coalesce((CASE WHEN e.payload_sha256 IS NULL AND length(e.payload) <= {MOST_BODY}"
    " THEN e.payload END), {empty})"
)

LONG, TEXT, BYTES, FLAG = pa.int64(), pa.string(), pa.binary(), pa.bool_()

ALIASES = {"events": "e", "traces": "t", "participants": "p", "channels": "c"}
TYPES: dict[Kind, pa.DataType] = {
    "number": LONG,
    "text": TEXT,
    "flag": FLAG,
    "time": LONG,
    "word": LONG,
    "words": TEXT,
    "table": TEXT,
    "bytes": BYTES,
}
MARKS: dict[Kind, int | str] = {
    "number": -1,
    "time": -1,
    "word": -1,
    "text": "",
    "words": "",
    "table": "",
}


def _column_of(field: Field) -> tuple[str, EventColumn]:
    """A field's column; one of the table ``events`` has its name there."""
    name = field.column if field.table == "events" else field.name
    return name, EventColumn(
        f'{ALIASES[field.table]}."{field.column}"',
        TYPES[field.kind],
        None if field.table == "events" else field.table,
        MARKS.get(field.kind) if field.stored.null else None,
    )


COLUMNS: dict[str, EventColumn] = {
    **dict(_column_of(field) for field in FIELDS if field.name != "payload_sha256"),
    "channel_number": EventColumn("e.channel", LONG),
    # An empty payload is still a payload, so NULL is marked by its length.
    "payload_stored": EventColumn("coalesce(length(e.payload), -1)", LONG),
    "payload_cut": EventColumn("(e.payload_sha256 IS NOT NULL)", FLAG),
    "cause_participant": EventColumn("k.participant", LONG, "causes", mark=-1),
    "cause_height": EventColumn("k.height", LONG, "causes", mark=-1),
    "cause_seq": EventColumn("k.seq", LONG, "causes", mark=-1),
    "cause_recorded_at": EventColumn("k.recorded_at", LONG, "causes", mark=-1),
    "cause_user": EventColumn('kc."user"', TEXT, "cause channels", mark=""),
    "place": EventColumn("coalesce(p.place, '')", TEXT, "participants"),
    "links": EventColumn(_LINKS, TEXT, mark=""),
    "conversations": EventColumn(_CONVERSATIONS, TEXT, mark=""),
    "late": EventColumn(_LATE, TEXT, mark=""),
    "answered": EventColumn(_DELIVERIES, TEXT, mark=""),
    "by_broker": EventColumn(_BY_BROKER, TEXT, mark=""),
    "envelope": EventColumn(_ENVELOPE, BYTES),
    "body": EventColumn(_BODY, BYTES),
}

SPARK_TYPES: dict[pa.DataType, DataType] = {
    LONG: LongType(),
    TEXT: StringType(),
    BYTES: BinaryType(),
    FLAG: BooleanType(),
}


def select(names: Sequence[str], dialect: Dialect) -> str:
    """``SELECT … FROM events e JOIN …`` for the named columns, without a condition."""
    items = ", ".join(_item(name, dialect) for name in names)
    names_joined = {join for name in names if (join := COLUMNS[name].join)}
    names_joined |= {PREREQUISITES[join] for join in names_joined if join in PREREQUISITES}
    joins = (join for join in JOINS if join in names_joined)
    return " ".join([f"SELECT {items} FROM events e", *(JOINS[join] for join in joins)])


def _item(name: str, dialect: Dialect) -> str:
    if name == "payload" and dialect == "sqlite":
        return "coalesce(e.payload, x'') AS \"payload\""
    return COLUMNS[name].select(name, dialect)


def restore(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """An answer's batch in the types of the named columns."""
    arrays = [COLUMNS[name].restore(batch.column(name)) for name in names]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(names))


def arrow_schema(names: Sequence[str]) -> pa.Schema:
    """The named columns' Arrow types."""
    return pa.schema([pa.field(name, COLUMNS[name].type) for name in names])


def spark_schema(names: Sequence[str]) -> StructType:
    """The named columns' Spark types."""
    return StructType([StructField(name, SPARK_TYPES[COLUMNS[name].type]) for name in names])
