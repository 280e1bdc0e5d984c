"""Which exchanges and queues a trace takes, and gaps that are there by choice."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0015"
down_revision: str | None = "0014"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("traces", sa.Column("taken", sa.Text(), nullable=True))
    op.add_column(
        "gaps", sa.Column("declared", sa.Boolean(), nullable=False, server_default=sa.false())
    )


def downgrade() -> None:
    op.drop_column("gaps", "declared")
    op.drop_column("traces", "taken")
