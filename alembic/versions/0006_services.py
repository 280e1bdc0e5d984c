"""Which service runs which trace, and which has which job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision: str = "0006"
down_revision: str | None = "0005"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def _new() -> dict[str, tuple[sa.Column[Any], ...]]:
    return {
        "traces": (
            sa.Column("holder", sa.Text(), nullable=True),
            sa.Column("epoch", sa.Integer(), nullable=False, server_default="0"),
        ),
        "jobs": (
            sa.Column("service", sa.Text(), nullable=True),
            sa.Column("unwanted", sa.Boolean(), nullable=False, server_default=sa.false()),
        ),
    }


def upgrade() -> None:
    for table, columns in _new().items():
        for column in columns:
            op.add_column(table, column)
    op.create_table(
        "services",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.Column("idle_since", sa.BigInteger(), nullable=False),
        sa.Column("exports", sa.Text(), nullable=True),
        sa.Column("snapshots", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_services")),
    )


def downgrade() -> None:
    op.drop_table("services")
    for table, columns in _new().items():
        for column in columns:
            op.drop_column(table, column.name)
