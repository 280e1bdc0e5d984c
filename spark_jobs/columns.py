"""What a job may read of an event: one table of columns, from SQL to Arrow to Spark.

Jobs name the columns they need and nothing else is read: a diagram needs no payloads, a comparison
of clocks nothing but clocks. The names are those of the store's tables; `fields` makes the API's
event object of them.
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

from spark_jobs.database import Dialect

# The numbers that the store keeps, in order.
TYPES = ("published", "received")
MATCHES = ("none", "routed", "redelivered", "dead_lettered", "unmatched")

JOINS = {
    "traces": "JOIN traces t ON t.id = e.trace_id",
    "participants": ("JOIN participants p ON p.trace_id = e.trace_id AND p.number = e.participant"),
    "channels": "JOIN channels c ON c.trace_id = e.trace_id AND c.number = e.channel",
    "causes": "LEFT JOIN events k ON k.id = e.cause_id",
    "cause channels": (
        "LEFT JOIN channels kc ON kc.trace_id = k.trace_id AND kc.number = k.channel"
    ),
}
# What a join needs beside it, and before it.
NEEDED = {"cause channels": "causes"}


@dataclass(frozen=True)
class EventColumn:
    """One column: its SQL, its type, the table it needs beside ``events e``.

    ``mark`` stands for NULL where SQLite answers: its driver takes a column's type from the first
    rows, and a run of NULLs would make it a number. A mark is a value that the column never has.
    """

    sql: str
    type: pa.DataType
    join: str | None = None
    mark: int | str | None = None

    def select(self, name: str, dialect: Dialect) -> str:
        """The item of the select list."""
        if self.mark is None or dialect != "sqlite":
            return f'{self.sql} AS "{name}"'
        mark = f"'{self.mark}'" if isinstance(self.mark, str) else str(self.mark)
        return f'coalesce({self.sql}, {mark}) AS "{name}"'

    def restore(self, values: pa.Array) -> pa.Array:
        """The answer's values in this column's type, NULL where the mark stands."""
        values = values.cast(self.type)
        if self.mark is None:
            return values
        marked = pc.equal(values, pa.scalar(self.mark, self.type))
        return pc.if_else(marked, pa.scalar(None, self.type), values)


LONG, TEXT, BYTES, FLAG = pa.int64(), pa.string(), pa.binary(), pa.bool_()

COLUMNS: dict[str, EventColumn] = {
    "id": EventColumn("e.id", LONG),
    "trace_id": EventColumn("e.trace_id", LONG),
    "vhost": EventColumn("t.vhost", TEXT, "traces"),
    "type": EventColumn("e.type", LONG),
    "match": EventColumn('e."match"', LONG),
    "participant": EventColumn("e.participant", LONG),
    "participant_name": EventColumn("p.name", TEXT, "participants"),
    "interval": EventColumn('p."interval"', TEXT, "participants"),
    "channel_number": EventColumn("e.channel", LONG),
    "seq": EventColumn("e.seq", LONG),
    "lamport": EventColumn("e.lamport", LONG),
    "height": EventColumn("e.height", LONG),
    "clock": EventColumn("e.clock", BYTES),
    "cause_id": EventColumn("e.cause_id", LONG, mark=0),
    "recorded_at": EventColumn("e.recorded_at", LONG),
    "exchange": EventColumn("e.exchange", TEXT),
    "queue": EventColumn("e.queue", TEXT, mark=""),
    "routing_keys": EventColumn("e.routing_keys", TEXT),
    "routed_queues": EventColumn("e.routed_queues", TEXT, mark=""),
    "redelivered": EventColumn("e.redelivered", FLAG),
    "node": EventColumn("c.node", TEXT, "channels"),
    "connection": EventColumn("c.connection", TEXT, "channels"),
    "channel": EventColumn("c.channel", LONG, "channels"),
    "user": EventColumn('c."user"', TEXT, "channels"),
    "properties": EventColumn("e.properties", TEXT),
    # An empty payload is one, so NULL is told by its length.
    "payload": EventColumn("e.payload", BYTES),
    "payload_stored": EventColumn("coalesce(length(e.payload), -1)", LONG),
    "payload_bytes": EventColumn("e.payload_bytes", LONG),
    "payload_cut": EventColumn("(e.payload_sha256 IS NOT NULL)", FLAG),
    "cause_participant": EventColumn("k.participant", LONG, "causes", mark=-1),
    "cause_height": EventColumn("k.height", LONG, "causes", mark=-1),
    "cause_seq": EventColumn("k.seq", LONG, "causes", mark=-1),
    "cause_recorded_at": EventColumn("k.recorded_at", LONG, "causes", mark=-1),
    "cause_user": EventColumn('kc."user"', TEXT, "cause channels", mark=""),
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
    wanted = {join for name in names if (join := COLUMNS[name].join)}
    wanted |= {NEEDED[join] for join in wanted if join in NEEDED}
    joins = (join for join in JOINS if join in wanted)
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
