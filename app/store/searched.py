"""Keys to be looked up by key: a view, because how that is done is each database's own affair.

Keys are digests, so each new one goes to a place of its own in an index of them all. SQLite writes
every page so touched as a whole: 4 µs a key in a small index, 43 µs with three million in it, which
is more than capture takes for everything else. So there the index is one of runs of 65,536 ids, of
which only the newest grows: 7 µs a key, however many there are. A look-up asks the runs one after
another, at 3 µs each. `runs` says which there are, and is kept with `blocks`. PostgreSQL takes 11
µs at worst, and keeps a plain index.

SQLAlchemy has no words for most of this, so it is made by statements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import (
    DDL,
    BigInteger,
    ColumnElement,
    ExecutableDDLElement,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    column,
    event,
    literal_column,
    table,
)

searched_keys = table(
    "searched_keys",
    column("run", BigInteger),
    column("turn", BigInteger),
    column("trace_id", Integer),
    column("event_id", BigInteger),
    column("key", LargeBinary),
    column("roles", SmallInteger),
)
"""The keys, each with its run: 0 for the first 65,536 ids, -1 for the next.

They fall so that the newest comes first where SQLite goes through the runs as they rise: whoever
asks whether there is an event rather finds a recent one. With a bound on ids, say the one on runs
that follows from it (`run_of`), and only those are asked. Events are in order by ``turn``, which
is the run where the index has runs, and then by their id.
"""

# With the roles an index holds the whole answer, or SQLite would rather go through all of a trace.
# A number with a sign has no type, and neither has the index's expression: only so SQLite
# compares the two by the index. It keeps the order of a CROSS JOIN: first the runs.
_STATEMENTS: Mapping[str, Sequence[str]] = {
    "sqlite": (
        "CREATE TABLE IF NOT EXISTS runs (number INTEGER NOT NULL PRIMARY KEY)",
        "CREATE TRIGGER IF NOT EXISTS runs_begin AFTER INSERT ON blocks BEGIN"
        " INSERT OR IGNORE INTO runs VALUES (-(new.number / 16)); END",
        "CREATE TRIGGER IF NOT EXISTS runs_end AFTER DELETE ON blocks BEGIN"
        " DELETE FROM runs WHERE number = -(old.number / 16) AND NOT EXISTS (SELECT 1 FROM blocks"
        " WHERE number BETWEEN old.number / 16 * 16 AND old.number / 16 * 16 + 15); END",
        "CREATE INDEX IF NOT EXISTS ix_keys_search"
        " ON keys (trace_id, event_id >> 16, key, event_id, roles)",
        "CREATE VIEW IF NOT EXISTS searched_keys AS SELECT runs.number AS run, runs.number AS turn,"
        " keys.trace_id, keys.event_id, keys.key, keys.roles"
        " FROM runs CROSS JOIN keys ON keys.event_id >> 16 = -runs.number",
    ),
    "postgresql": (
        "CREATE INDEX IF NOT EXISTS ix_keys_search ON keys (trace_id, key, event_id, roles)",
        "CREATE OR REPLACE VIEW searched_keys AS"
        " SELECT -(event_id >> 16) AS run, 0 AS turn, trace_id, event_id, key, roles FROM keys",
    ),
}


def run_of(event_id: int) -> int:
    """The run that an id is in."""
    return -(event_id >> 16)


def run_in_sql(event_id: ColumnElement[int]) -> ColumnElement[int]:
    """The run that an id in a statement is in."""
    return -event_id.bitwise_rshift(literal_column("16", Integer))


def is_of_metadata(name: str | None, kind: str, parents: Mapping[str, str | None]) -> bool:
    """Whether a table or an index is one that Alembic can compare, and not made here."""
    return name not in ("ix_keys_search", "runs")


def attach(metadata: MetaData) -> None:
    """Have it made with the tables."""
    for dialect, statements in _STATEMENTS.items():
        for each in statements:
            made: ExecutableDDLElement = DDL(each)  # type: ignore[no-untyped-call]
            event.listen(metadata, "after_create", made.execute_if(dialect=dialect))
