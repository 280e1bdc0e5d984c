"""Rules of links: those that a trace's events are read by, and those that people set for it."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0009"
down_revision: str | None = "0008"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "link_rules",
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("from_event_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["trace_id"], ["traces.id"], name=op.f("fk_link_rules_trace_id_traces")
        ),
        sa.PrimaryKeyConstraint("trace_id", "name", name=op.f("pk_link_rules")),
    )
    op.create_table(
        "own_link_rules",
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["trace_id"], ["traces.id"], name=op.f("fk_own_link_rules_trace_id_traces")
        ),
        sa.PrimaryKeyConstraint("trace_id", "name", name=op.f("pk_own_link_rules")),
    )
    op.add_column("restamped", sa.Column("ids", sa.LargeBinary(), nullable=True))
    op.create_table(
        "restamped_keys",
        sa.Column("event_id", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("roles", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("event_id", "key", name=op.f("pk_restamped_keys")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "restamped_edges",
        sa.Column("effect_id", sa.BigInteger(), nullable=False),
        sa.Column("cause_id", sa.BigInteger(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.SmallInteger(), nullable=False),
        sa.Column("way", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("effect_id", "cause_id", "rule", name=op.f("pk_restamped_edges")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("restamped_edges")
    op.drop_table("restamped_keys")
    op.drop_column("restamped", "ids")
    op.drop_table("own_link_rules")
    op.drop_table("link_rules")
