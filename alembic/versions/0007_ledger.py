"""What each trace has seen, for its audit; suspected gaps; whose the trace queues are."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0007"
down_revision: str | None = "0006"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("traces", sa.Column("ledger", sa.LargeBinary(), nullable=True))
    op.add_column(
        "gaps", sa.Column("suspected", sa.Boolean(), nullable=False, server_default=sa.false())
    )
    installation = op.create_table(
        "installation",
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_installation")),
    )
    op.bulk_insert(installation, [{"name": secrets.token_hex(8)}])


def downgrade() -> None:
    op.drop_table("installation")
    op.drop_column("gaps", "suspected")
    op.drop_column("traces", "ledger")
