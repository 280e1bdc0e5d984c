"""Of fields that are indexed, whether deliveries have them by their publish alone."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0018"
down_revision: str | None = "0017"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column(
        "indexed_fields",
        sa.Column("by_publish", sa.Boolean(), nullable=False, server_default=sa.false()),
    )
    op.execute("UPDATE indexed_fields SET by_publish = true WHERE field = 'message_id'")


def downgrade() -> None:
    # Who does not ask publishes looks through the events that have it by these.
    op.execute(
        "UPDATE indexed_fields SET from_event_id = (SELECT next FROM event_ids)"
        " WHERE by_publish AND field <> 'message_id'"
    )
    op.drop_column("indexed_fields", "by_publish")
