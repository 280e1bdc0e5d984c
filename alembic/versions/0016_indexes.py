"""Keys are looked up by way of a view, on SQLite in runs of 65,536 ids; heights with their `seq`.

Indexes are built anew: a few seconds each for five million events.
"""

from __future__ import annotations

from collections.abc import Sequence

from alembic import op

revision: str = "0016"
down_revision: str | None = "0015"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_PLAIN = "CREATE INDEX ix_keys_search ON keys (trace_id, key, event_id, roles)"

_SQLITE = (
    "DROP INDEX ix_keys_search",
    "CREATE TABLE runs (number INTEGER NOT NULL PRIMARY KEY)",
    "INSERT INTO runs SELECT DISTINCT -(number / 16) FROM blocks",
    "CREATE TRIGGER runs_begin AFTER INSERT ON blocks BEGIN"
    " INSERT OR IGNORE INTO runs VALUES (-(new.number / 16)); END",
    "CREATE TRIGGER runs_end AFTER DELETE ON blocks BEGIN"
    " DELETE FROM runs WHERE number = -(old.number / 16) AND NOT EXISTS (SELECT 1 FROM blocks"
    " WHERE number BETWEEN old.number / 16 * 16 AND old.number / 16 * 16 + 15); END",
    "CREATE INDEX ix_keys_search ON keys (trace_id, event_id >> 16, key, event_id, roles)",
    "CREATE VIEW searched_keys AS SELECT runs.number AS run, runs.number AS turn,"
    " keys.trace_id, keys.event_id, keys.key, keys.roles"
    " FROM runs CROSS JOIN keys ON keys.event_id >> 16 = -runs.number",
)
_POSTGRESQL = (
    "CREATE VIEW searched_keys AS"
    " SELECT -(event_id >> 16) AS run, 0 AS turn, trace_id, event_id, key, roles FROM keys",
)


def upgrade() -> None:
    _index_heights("trace_id_participant_height", ["seq"])
    for statement in _SQLITE if _is_sqlite() else _POSTGRESQL:
        op.execute(statement)


def downgrade() -> None:
    _index_heights("trace_id_participant_height_seq", [])
    op.execute("DROP VIEW searched_keys")
    if _is_sqlite():
        for name in ("TRIGGER runs_end", "TRIGGER runs_begin", "TABLE runs"):
            op.execute(f"DROP {name}")
        op.execute("DROP INDEX ix_keys_search")
        op.execute(_PLAIN)


def _index_heights(instead_of: str, more: list[str]) -> None:
    columns = ["trace_id", "participant", "height", *more]
    op.drop_index(op.f(f"ix_events_{instead_of}"), "events")
    op.create_index(op.f(f"ix_events_{'_'.join(columns)}"), "events", columns, unique=True)


def _is_sqlite() -> bool:
    return op.get_context().dialect.name == "sqlite"
