"""Deliveries after which a copy was back in its queue: where it may wait still."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "r0007"
down_revision: str | None = "r0006"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_BACK = sa.text("settlement IN (4, 6)")


def upgrade() -> None:
    op.create_index(
        *("ix_events_back", "events", ["trace_id", "id"]),
        sqlite_where=_BACK,
        postgresql_where=_BACK,
    )


def downgrade() -> None:
    raise NotImplementedError("migrations go forward only: restore a backup")
