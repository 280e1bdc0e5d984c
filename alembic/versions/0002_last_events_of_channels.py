"""The last event of each channel that may share its participant with others."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("channels", sa.Column("last_event_id", sa.BigInteger(), nullable=True))
    # It was not recorded, and looking it up would read all events. It is at most the trace's last:
    # retention removes the channel when that one goes, unless the channel acts again.
    op.execute(
        "UPDATE channels SET last_event_id = "
        "(SELECT traces.last_event_id FROM traces WHERE traces.id = channels.trace_id) "
        "WHERE trace_id IN (SELECT id FROM traces WHERE policy <> 'channel')"
    )


def downgrade() -> None:
    op.drop_column("channels", "last_event_id")
