"""What messages say of themselves and of their causes: keys, and the links that were found."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0008"
down_revision: str | None = "0007"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "keys",
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("event_id", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("roles", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("trace_id", "event_id", "key", name=op.f("pk_keys")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_keys_search",
        "keys",
        ["trace_id", "key", "event_id", "roles"],
    )
    op.add_column("events", sa.Column("ids", sa.LargeBinary(), nullable=True))
    op.create_index(
        "ix_events_named",
        "events",
        ["trace_id", "id"],
        sqlite_where=sa.text("ids IS NOT NULL"),
        postgresql_where=sa.text("ids IS NOT NULL"),
    )
    op.create_table(
        "edges",
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("effect_id", sa.BigInteger(), nullable=False),
        sa.Column("cause_id", sa.BigInteger(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("kind", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("effect_id", "cause_id", "rule", name=op.f("pk_edges")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_edges_trace_id_cause_id"), "edges", ["trace_id", "cause_id"])
    op.create_table(
        "indexed_fields",
        sa.Column("field", sa.Text(), nullable=False),
        sa.Column("from_event_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("field", name=op.f("pk_indexed_fields")),
    )
    for field in ("message_id", "correlation_id"):
        op.execute(f"INSERT INTO indexed_fields SELECT '{field}', next FROM event_ids")  # noqa: S608


def downgrade() -> None:
    op.drop_index("ix_events_named", "events")
    op.drop_column("events", "ids")
    op.drop_table("indexed_fields")
    op.drop_table("edges")
    op.drop_table("keys")
