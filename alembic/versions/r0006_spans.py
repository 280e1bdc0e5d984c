"""Spans are sent as events come: how far, and what tells of a delivery's end, and of a loss."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "r0006"
down_revision: str | None = "r0005"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_ENDED = "hold IS NOT NULL AND (settlement IS NULL OR settlement > 1)"
_FINAL = "reason IN ('queue_deleted', 'not_there')"


def upgrade() -> None:
    op.create_table(
        "sent_spans",
        sa.Column("trace_id", sa.Integer(), nullable=False),
        *(
            sa.Column(name, sa.BigInteger(), nullable=False)
            for name in ("read_id", "read_at", "lost_at", "sent", "refused", "missed", "cut")
        ),
        sa.ForeignKeyConstraint(
            ["trace_id"], ["traces.id"], name=op.f("fk_sent_spans_trace_id_traces")
        ),
        sa.PrimaryKeyConstraint("trace_id", name=op.f("pk_sent_spans")),
    )
    op.create_table(
        "kept_roots",
        sa.Column("trace_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("root", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("trace_id", "root", name=op.f("pk_kept_roots")),
        sqlite_with_rowid=False,
    )
    # In place of the index of what was handled: what was returned has its end, too.
    op.drop_index("ix_events_settled", "events")
    for name, table, condition, columns in (
        ("ix_events_ended", "events", _ENDED, ["trace_id", "hold"]),
        ("ix_lost_copies_final", "lost_copies", _FINAL, ["trace_id", "at"]),
    ):
        where = sa.text(condition)
        op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where)


def downgrade() -> None:
    raise NotImplementedError("migrations go forward only: restore a backup")
