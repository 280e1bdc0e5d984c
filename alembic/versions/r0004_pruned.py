"""Traces say whether events of theirs were removed.

Where the very first event is not there any more, some were, or the trace was restamped since: then
nothing is known of the time before the oldest event that is left.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "r0004"
down_revision: str | None = "r0003"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    pruned = sa.Column("pruned", sa.Boolean(), server_default=sa.false(), nullable=False)
    op.add_column("traces", pruned)
    op.execute(
        "UPDATE traces SET pruned = true WHERE last_event_id > 0 AND NOT EXISTS ("
        "SELECT 1 FROM events WHERE trace_id = traces.id AND participant = 1 AND seq = 1)"
    )


def downgrade() -> None:
    raise NotImplementedError("migrations go forward only: restore a backup")
