"""Imported spans, and the messages whose causes they tell."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0011"
down_revision: str | None = "0010"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def _partial(name: str, table: str, columns: list[str], where: str) -> None:
    condition = sa.text(where)
    op.create_index(name, table, columns, sqlite_where=condition, postgresql_where=condition)


def upgrade() -> None:
    op.create_table(
        "spans",
        sa.Column("context", sa.LargeBinary(), nullable=False),
        sa.Column("parent", sa.LargeBinary(), nullable=True),
        sa.Column("is_remote", sa.Boolean(), nullable=True),
        sa.Column("kind", sa.SmallInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=False),
        sa.Column("service", sa.Text(), nullable=True),
        sa.Column("delivery_id", sa.BigInteger(), nullable=True),
        sa.Column("is_new", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("context", name=op.f("pk_spans")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_spans_ended_at"), "spans", ["ended_at"])
    _partial("ix_spans_consumers", "spans", ["parent"], "kind = 5")
    _partial("ix_spans_new", "spans", ["context"], "is_new")
    op.create_table(
        "span_links",
        sa.Column("context", sa.LargeBinary(), nullable=False),
        sa.Column("linked", sa.LargeBinary(), nullable=False),
        sa.Column("is_remote", sa.Boolean(), nullable=True),
        sa.PrimaryKeyConstraint("context", "linked", name=op.f("pk_span_links")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_span_links_linked"), "span_links", ["linked"])
    op.create_table(
        "traceparents",
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("event_id", sa.BigInteger(), nullable=False),
        sa.Column("context", sa.LargeBinary(), nullable=False),
        sa.Column("is_new", sa.Boolean(), nullable=False),
        sa.Column("waits_for", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("trace_id", "event_id", name=op.f("pk_traceparents")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        op.f("ix_traceparents_context_event_id"), "traceparents", ["context", "event_id"]
    )
    _partial("ix_traceparents_new", "traceparents", ["event_id"], "is_new")
    _partial("ix_traceparents_waiting", "traceparents", ["waits_for"], "waits_for IS NOT NULL")
    op.create_table(
        "late_edges",
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("effect_id", sa.BigInteger(), nullable=False),
        sa.Column("cause_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("trace_id", "effect_id", "cause_id", name=op.f("pk_late_edges")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.execute("DELETE FROM edges WHERE rule = 'opentelemetry'")
    op.drop_table("late_edges")
    op.drop_table("traceparents")
    op.drop_table("span_links")
    op.drop_table("spans")
