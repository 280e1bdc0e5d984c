"""Whose the counts of durations are, and how many: places are shared among users."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "r0002"
down_revision: str | None = "r0001"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    total = sa.Column("total", sa.BigInteger(), nullable=False, server_default=sa.text("0"))
    user = sa.Column("user", sa.Text(), nullable=False, server_default=sa.text("''"))
    for column in (total, user):
        op.add_column("durations", column)
