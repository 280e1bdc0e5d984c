"""Gaps say how many trace messages of theirs are in quarantine, and of which channel.

What was known of open channels is forgotten, as its form is another: a trace asks them anew where
they stand, and what they held then is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "r0003"
down_revision: str | None = "r0002"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    quarantined = sa.Column("quarantined", sa.BigInteger(), server_default="0", nullable=False)
    op.add_column("gaps", quarantined)
    op.add_column("gaps", sa.Column("channel", sa.Text(), nullable=True))
    op.execute("DELETE FROM open_channels")
    op.execute(
        "UPDATE events SET settlement = NULL, settled_at = NULL, hold = NULL WHERE settlement = 1"
    )


def downgrade() -> None:
    raise NotImplementedError("migrations go forward only: restore a backup")
