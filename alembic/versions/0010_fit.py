"""How causes that messages name are known to their publishers: links, participants."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0010"
down_revision: str | None = "0009"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

EVIDENCE = ("reactions", "explained", "known", "missed", "hidden")


def upgrade() -> None:
    op.add_column(
        "edges", sa.Column("way", sa.SmallInteger(), nullable=False, server_default=sa.text("0"))
    )
    op.create_index(
        "ix_edges_beside",
        "edges",
        ["trace_id", "way", "effect_id"],
        sqlite_where=sa.text("way <> 0"),
        postgresql_where=sa.text("way <> 0"),
    )
    for name in EVIDENCE:
        op.add_column(
            "participants",
            sa.Column(name, sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        )
    op.create_table(
        "restamped_ways",
        sa.Column("effect_id", sa.BigInteger(), nullable=False),
        sa.Column("cause_id", sa.BigInteger(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("way", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("effect_id", "cause_id", "rule", name=op.f("pk_restamped_ways")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("restamped_ways")
    for name in reversed(EVIDENCE):
        op.drop_column("participants", name)
    op.drop_index("ix_edges_beside", "edges")
    op.drop_column("edges", "way")
