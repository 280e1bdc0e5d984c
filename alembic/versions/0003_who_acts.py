"""Who acts: participants' users, places, clients and aliases; quiet traffic; direct replies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def _new() -> dict[str, tuple[sa.Column[Any], ...]]:
    return {
        "traces": (sa.Column("quiet", sa.Text(), nullable=False, server_default="[]"),),
        "events": (sa.Column("quiet", sa.Boolean(), nullable=False, server_default=sa.false()),),
        "channels": (sa.Column("replies_to", sa.Text(), nullable=True),),
        "participants": (
            sa.Column("name", sa.Text(), nullable=False, server_default=""),
            sa.Column("user", sa.Text(), nullable=False, server_default=""),
            sa.Column("place", sa.Text(), nullable=True),
            sa.Column("client", sa.Text(), nullable=True),
            sa.Column("assumed", sa.Boolean(), nullable=False, server_default=sa.false()),
            sa.Column("published", sa.BigInteger(), nullable=False, server_default="0"),
        ),
    }


def upgrade() -> None:
    op.alter_column("participants", "name", new_column_name="key")
    for table, columns in _new().items():
        for column in columns:
            op.add_column(table, column)
    op.create_table(
        "aliases",
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("alias", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["trace_id"], ["traces.id"], name=op.f("fk_aliases_trace_id_traces")
        ),
        sa.PrimaryKeyConstraint("trace_id", "key", name=op.f("pk_aliases")),
    )
    op.execute(
        "UPDATE participants SET published = (SELECT count(*) FROM events WHERE"
        " events.trace_id = participants.trace_id AND events.participant = participants.number"
        " AND events.type = 0)"
    )
    op.create_index(
        "ix_events_quiet",
        "events",
        ["trace_id", "id"],
        sqlite_where=sa.text("quiet"),
        postgresql_where=sa.text("quiet"),
    )
    # Places are not taken out of connections' names here: `rabbitmq-itc restamp` does it.
    op.execute(
        'UPDATE participants SET "user" = coalesce((SELECT "user" FROM channels'
        " WHERE channels.trace_id = participants.trace_id"
        " AND channels.participant = participants.number ORDER BY channels.number LIMIT 1), key)"
    )
    op.execute(
        'UPDATE participants SET name = "user" || CASE (SELECT policy FROM traces'
        " WHERE traces.id = participants.trace_id) WHEN 'user' THEN '' ELSE ' #' || number END"
    )


def downgrade() -> None:
    op.drop_index("ix_events_quiet", "events")
    op.drop_table("aliases")
    for table, columns in _new().items():
        for column in columns:
            op.drop_column(table, column.name)
    op.alter_column("participants", "key", new_column_name="name")
