"""Indexes of the few events and links that tell of failures."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0012"
down_revision: str | None = "0011"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

# (name, table, column after the trace, condition)
INDEXES = (
    ("ix_events_died", "events", "id", "match = 3 AND NOT quiet"),
    ("ix_events_came_back", "events", "id", "match = 2 AND NOT quiet"),
    ("ix_events_unroutable", "events", "id", "routed_queues = '[]' AND NOT quiet"),
    ("ix_edges_forwarded", "edges", "effect_id", "kind = 2"),
)


def upgrade() -> None:
    for name, table, column, condition in INDEXES:
        where = sa.text(condition)
        op.create_index(
            name, table, ["trace_id", column], sqlite_where=where, postgresql_where=where
        )


def downgrade() -> None:
    for name, table, _, _ in reversed(INDEXES):
        op.drop_index(name, table)
