"""Virtual hosts have rules of redaction, and events say what was replaced in them."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "r0005"
down_revision: str | None = "r0004"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("events", sa.Column("redactions", sa.Text(), nullable=True))
    op.create_table(
        "redactions",
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("rules", sa.Text(), nullable=False),
        sa.Column("former", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["trace_id"], ["traces.id"], name=op.f("fk_redactions_trace_id_traces")
        ),
        sa.PrimaryKeyConstraint("trace_id", name=op.f("pk_redactions")),
    )


def downgrade() -> None:
    raise NotImplementedError("migrations go forward only: restore a backup")
