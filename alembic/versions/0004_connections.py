"""Connections to the broker, and the programs behind them."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "connections",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("vhost", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("client", sa.Text(), nullable=True),
        sa.Column("given_name", sa.Text(), nullable=True),
        sa.Column("process", sa.Text(), nullable=True),
        sa.Column("pid", sa.Text(), nullable=True),
        sa.Column("opened_at", sa.BigInteger(), nullable=False),
        sa.Column("closed_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_connections")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        op.f("ix_connections_name_opened_at_node"),
        "connections",
        ["name", "opened_at", "node"],
        unique=True,
    )
    op.create_index(op.f("ix_connections_closed_at"), "connections", ["closed_at"])


def downgrade() -> None:
    op.drop_table("connections")
