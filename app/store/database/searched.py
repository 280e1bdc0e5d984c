"""Keys, in the order in which they are looked up: each database stores them in its own way.

Keys are digests, so each new one goes to a random place in an index of them all. SQLite writes
every touched page as a whole: 4 µs a key in a small index, 43 µs with three million in it, more
than capture takes for everything else. So there keys are in runs of 65,536 ids, of which only the
newest grows, and the table itself is in this order: a table by event, with an index by key beside
it, took half as much again. A look-up asks the runs one after another, at 3 µs each. `runs` lists
them, and is kept with `blocks`. PostgreSQL takes 11 µs at worst, and keeps its table by event with
a plain index.

Look-ups by key, or by key and event, ask the view `searched_keys`. By event alone SQLite finds
conversations only (`is_conversation`). Writers of keys take the dialect's `Writing`.

SQLAlchemy has no words for most of this, so it is made by statements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from model.words import IS_CONVERSATION

keys = sa.table(
    "keys",
    sa.column("trace_id", sa.Integer),
    sa.column("event_id", sa.BigInteger),
    sa.column("key", sa.LargeBinary),
    sa.column("roles", sa.SmallInteger),
)
"""Keys by which events are found, or belong together (`model.words.IS_CONVERSATION` …)."""

searched_keys = sa.table(
    "searched_keys",
    sa.column("run", sa.BigInteger),
    sa.column("turn", sa.BigInteger),
    sa.column("trace_id", sa.Integer),
    sa.column("event_id", sa.BigInteger),
    sa.column("key", sa.LargeBinary),
    sa.column("roles", sa.SmallInteger),
)
"""The keys, each with its run: 0 for the first 65,536 ids, -1 for the next.

They fall so that the newest comes first where SQLite goes through the runs as they rise: whoever
asks whether there is an event rather finds a recent one. With a bound on ids, say the one on runs
that follows from it (`run_of`), and only those are asked. Events are in order by ``turn``, which
is the run where the keys have runs, and then by their id.
"""

# SQLite keeps the order of a CROSS JOIN: first the runs. With the plus it asks each of them for the
# keys of that run, and without it for those of all runs within a bound. With the roles the index by
# event holds the whole answer.
_STATEMENTS: Mapping[str, Sequence[str]] = {
    "sqlite": (
        "CREATE TABLE IF NOT EXISTS keys (trace_id INTEGER NOT NULL, run INTEGER NOT NULL,"
        " key BLOB NOT NULL, event_id BIGINT NOT NULL, roles SMALLINT NOT NULL,"
        " CONSTRAINT pk_keys PRIMARY KEY (trace_id, run, key, event_id)) WITHOUT ROWID",
        "CREATE INDEX IF NOT EXISTS ix_keys_conversations"
        " ON keys (trace_id, event_id, key, roles) WHERE (roles & 1) <> 0",
        "CREATE TABLE IF NOT EXISTS runs (number INTEGER NOT NULL PRIMARY KEY)",
        "CREATE TRIGGER IF NOT EXISTS runs_begin AFTER INSERT ON blocks BEGIN"
        " INSERT OR IGNORE INTO runs VALUES (-(new.number / 16)); END",
        "CREATE TRIGGER IF NOT EXISTS runs_end AFTER DELETE ON blocks BEGIN"
        " DELETE FROM runs WHERE number = -(old.number / 16) AND NOT EXISTS (SELECT 1 FROM blocks"
        " WHERE number BETWEEN old.number / 16 * 16 AND old.number / 16 * 16 + 15); END",
        "CREATE VIEW IF NOT EXISTS searched_keys AS SELECT runs.number AS run, runs.number AS turn,"
        " keys.trace_id, keys.event_id, keys.key, keys.roles"
        " FROM runs CROSS JOIN keys ON keys.run = +runs.number",
    ),
    "postgresql": (
        "CREATE TABLE IF NOT EXISTS keys (trace_id INTEGER NOT NULL, event_id BIGINT NOT NULL,"
        " key BYTEA NOT NULL, roles SMALLINT NOT NULL,"
        " CONSTRAINT pk_keys PRIMARY KEY (trace_id, event_id, key))",
        "CREATE INDEX IF NOT EXISTS ix_keys_search ON keys (trace_id, key, event_id, roles)",
        "CREATE OR REPLACE VIEW searched_keys AS"
        " SELECT -(event_id >> 16) AS run, 0 AS turn, trace_id, event_id, key, roles FROM keys",
    ),
}

_IN_ROLES = sa.literal_column(str(int(IS_CONVERSATION)), sa.SmallInteger)


def run_of(event_id: int) -> int:
    return -(event_id >> 16)


def run_in_sql(event_id: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    return -event_id.bitwise_rshift(sa.literal_column("16", sa.Integer))


def is_conversation(roles: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
    """The condition that keys, looked up by event, are of conversations.

    SQLite uses its index by event only for the index's own condition, word for word: with a
    parameter in it, it goes through all of the trace.
    """
    return roles.bitwise_and(_IN_ROLES) != sa.literal_column("0", sa.SmallInteger)


def is_searched_conversation(roles: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
    """The condition that keys, looked up by key, are of conversations.

    It differs from `is_conversation`, so that SQLite does not look them up by event.
    """
    return roles.bitwise_and(_IN_ROLES) == _IN_ROLES


class Writing:
    """SQL that writes a trace's keys: with ``with_runs`` each with its run, as on SQLite."""

    def __init__(self, *, with_runs: bool) -> None:
        self._with_runs = with_runs

    def insert(self, event_id: str, key: str, roles: str) -> str:
        """The beginning of an INSERT from a query, up to its FROM."""
        columns, values = "trace_id, event_id, key, roles", f":trace, {event_id}, {key}, {roles}"
        if self._with_runs:
            columns, values = f"{columns}, run", f"{values}, -({event_id} >> 16)"
        return f"INSERT INTO keys ({columns}) SELECT {values}"

    @property
    def in_span(self) -> str:
        """The condition on keys whose events are from ``:first`` to ``:last``."""
        span = "keys.trace_id = :trace AND keys.event_id BETWEEN :first AND :last"
        runs = "keys.run BETWEEN -(:last >> 16) AND -(:first >> 16)"
        return f"{span} AND {runs}" if self._with_runs else span


def is_of_metadata(name: str | None, kind: str, parents: Mapping[str, str | None]) -> bool:
    """Tell whether Alembic can compare a table or an index: only those that are not made here."""
    return name not in ("keys", "runs")


def attach(metadata: sa.MetaData) -> None:
    for dialect, statements in _STATEMENTS.items():
        for statement in statements:
            definition: sa.ExecutableDDLElement = sa.DDL(statement)  # type: ignore[no-untyped-call]
            sa.event.listen(metadata, "after_create", definition.execute_if(dialect=dialect))
