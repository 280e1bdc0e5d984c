"""What must hold in a trace, and what did not."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0013"
down_revision: str | None = "0012"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "assertions",
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("set_by", sa.Text(), nullable=False),
        sa.Column("set_at", sa.BigInteger(), nullable=False),
        sa.Column("from_event_id", sa.BigInteger(), nullable=False),
        sa.Column("judged_id", sa.BigInteger(), nullable=False),
        sa.Column("waiting", sa.BigInteger(), nullable=False),
        sa.Column("held", sa.BigInteger(), nullable=False),
        sa.Column("violated", sa.BigInteger(), nullable=False),
        sa.Column("unknown", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["trace_id"], ["traces.id"], name=op.f("fk_assertions_trace_id_traces")
        ),
        sa.PrimaryKeyConstraint("trace_id", "name", name=op.f("pk_assertions")),
    )
    op.create_table(
        "violations",
        sa.Column("id", BigId, nullable=False),
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("assertion", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("event_id", sa.BigInteger(), nullable=False),
        sa.Column("last_id", sa.BigInteger(), nullable=False),
        sa.Column("root", sa.BigInteger(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.Column("found_at", sa.BigInteger(), nullable=False),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("delivery", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", sa.BigInteger(), nullable=True),
        sa.Column("summary", sa.BigInteger(), nullable=True),
        sa.Column("delivered_at", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["trace_id"], ["traces.id"], name=op.f("fk_violations_trace_id_traces")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_violations")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        op.f("ix_violations_trace_id_assertion_event_id"),
        "violations",
        ["trace_id", "assertion", "event_id"],
        unique=True,
    )
    op.create_index(
        op.f("ix_violations_trace_id_kind_event_id"), "violations", ["trace_id", "kind", "event_id"]
    )
    op.create_index(op.f("ix_violations_trace_id_id"), "violations", ["trace_id", "id"])
    due = sa.text("delivery = 'due'")
    op.create_index(
        "ix_violations_due", "violations", ["next_at"], sqlite_where=due, postgresql_where=due
    )


def downgrade() -> None:
    op.drop_table("violations")
    op.drop_table("assertions")
