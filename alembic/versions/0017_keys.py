"""On SQLite keys are in the order in which they are looked up, and by event only conversations.

All keys are written anew: some ten seconds for five million events with a message id each, and
meanwhile the file holds them twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from alembic import op

revision: str = "0017"
down_revision: str | None = "0016"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_UP = (
    "DROP VIEW searched_keys",
    "ALTER TABLE keys RENAME TO keys_by_event",
    "CREATE TABLE keys (trace_id INTEGER NOT NULL, run INTEGER NOT NULL,"
    " key BLOB NOT NULL, event_id BIGINT NOT NULL, roles SMALLINT NOT NULL,"
    " CONSTRAINT pk_keys PRIMARY KEY (trace_id, run, key, event_id)) WITHOUT ROWID",
    # By the index of runs, which gives each run's keys in their order.
    "INSERT INTO keys (trace_id, run, key, event_id, roles)"
    " SELECT trace_id, -(event_id >> 16), key, event_id, roles FROM keys_by_event"
    " ORDER BY trace_id, event_id >> 16, key, event_id",
    "DROP TABLE keys_by_event",
    "CREATE INDEX ix_keys_conversations"
    " ON keys (trace_id, event_id, key, roles) WHERE (roles & 1) <> 0",
    "CREATE VIEW searched_keys AS SELECT runs.number AS run, runs.number AS turn,"
    " keys.trace_id, keys.event_id, keys.key, keys.roles"
    " FROM runs CROSS JOIN keys ON keys.run = +runs.number",
)
_DOWN = (
    "DROP VIEW searched_keys",
    "ALTER TABLE keys RENAME TO keys_by_run",
    "CREATE TABLE keys (trace_id INTEGER NOT NULL, event_id BIGINT NOT NULL,"
    " key BLOB NOT NULL, roles SMALLINT NOT NULL,"
    " CONSTRAINT pk_keys PRIMARY KEY (trace_id, event_id, key)) WITHOUT ROWID",
    "INSERT INTO keys (trace_id, event_id, key, roles)"
    " SELECT trace_id, event_id, key, roles FROM keys_by_run ORDER BY trace_id, event_id, key",
    "DROP TABLE keys_by_run",
    "CREATE INDEX ix_keys_search ON keys (trace_id, event_id >> 16, key, event_id, roles)",
    "CREATE VIEW searched_keys AS SELECT runs.number AS run, runs.number AS turn,"
    " keys.trace_id, keys.event_id, keys.key, keys.roles"
    " FROM runs CROSS JOIN keys ON keys.event_id >> 16 = -runs.number",
)


def upgrade() -> None:
    _on_sqlite(_UP)


def downgrade() -> None:
    _on_sqlite(_DOWN)


def _on_sqlite(statements: Sequence[str]) -> None:
    if op.get_context().dialect.name == "sqlite":
        for statement in statements:
            op.execute(statement)
