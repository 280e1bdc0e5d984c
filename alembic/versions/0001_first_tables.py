"""The first tables."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0001"
down_revision: str | None = None
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _traces()
    _participants()
    _events()
    _notices()
    _jobs()
    op.bulk_insert(sa.table("event_ids", sa.column("next", sa.BigInteger)), [{"next": 1}])


def downgrade() -> None:
    for table in (
        "jobs",
        "quarantine",
        "gaps",
        "copies",
        "blocks",
        "events",
        "event_ids",
        "channels",
        "participants",
        "traces",
    ):
        op.drop_table(table)


def _of_trace(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["trace_id"], ["traces.id"], name=op.f(f"fk_{table}_trace_id_traces")
    )


def _traces() -> None:
    op.create_table(
        "traces",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("vhost", sa.Text(), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("wanted", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("checkpoint", sa.LargeBinary(), nullable=True),
        sa.Column("window", sa.LargeBinary(), nullable=True),
        sa.Column("batch", sa.LargeBinary(), nullable=True),
        sa.Column("events", sa.BigInteger(), nullable=False),
        sa.Column("last_event_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_traces")),
        sa.UniqueConstraint("vhost", name=op.f("uq_traces_vhost")),
    )


def _participants() -> None:
    op.create_table(
        "participants",
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("interval", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("lamport", sa.BigInteger(), nullable=False),
        sa.Column("height", sa.BigInteger(), nullable=False),
        sa.Column("base", sa.BigInteger(), nullable=False),
        sa.Column("first_event_id", sa.BigInteger(), nullable=False),
        sa.Column("last_event_id", sa.BigInteger(), nullable=False),
        _of_trace("participants"),
        sa.PrimaryKeyConstraint("trace_id", "number", name=op.f("pk_participants")),
    )
    op.create_index(
        op.f("ix_participants_trace_id_last_event_id"),
        "participants",
        ["trace_id", "last_event_id"],
    )
    op.create_table(
        "channels",
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("participant", sa.Integer(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("connection", sa.Text(), nullable=False),
        sa.Column("channel", sa.Integer(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        _of_trace("channels"),
        sa.PrimaryKeyConstraint("trace_id", "number", name=op.f("pk_channels")),
    )


def _events() -> None:
    op.create_table(
        "event_ids",
        sa.Column("next", BIG_ID, nullable=False),
        sa.PrimaryKeyConstraint("next", name=op.f("pk_event_ids")),
    )
    op.create_table(
        "events",
        sa.Column("id", BIG_ID, autoincrement=False, nullable=False),
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("type", sa.SmallInteger(), nullable=False),
        sa.Column("match", sa.SmallInteger(), nullable=False),
        sa.Column("participant", sa.Integer(), nullable=False),
        sa.Column("channel", sa.Integer(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("lamport", sa.BigInteger(), nullable=False),
        sa.Column("height", sa.BigInteger(), nullable=False),
        sa.Column("clock", sa.LargeBinary(), nullable=False),
        sa.Column("cause_id", sa.BigInteger(), nullable=True),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.Column("exchange", sa.Text(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=True),
        sa.Column("routing_keys", sa.Text(), nullable=False),
        sa.Column("routed_queues", sa.Text(), nullable=True),
        sa.Column("redelivered", sa.Boolean(), nullable=False),
        sa.Column("fingerprint", sa.LargeBinary(), nullable=False),
        sa.Column("properties", sa.Text(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=True),
        sa.Column("payload_bytes", sa.BigInteger(), nullable=False),
        sa.Column("payload_sha256", sa.LargeBinary(), nullable=True),
        _of_trace("events"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
    )
    op.create_index(
        op.f("ix_events_trace_id_participant_height"),
        "events",
        ["trace_id", "participant", "height"],
        unique=True,
    )
    op.create_index(op.f("ix_events_trace_id_id"), "events", ["trace_id", "id"])
    op.create_index(op.f("ix_events_cause_id"), "events", ["cause_id"])
    op.create_table(
        "blocks",
        sa.Column("number", BIG_ID, autoincrement=False, nullable=False),
        sa.Column("earliest", sa.BigInteger(), nullable=False),
        sa.Column("latest", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_blocks")),
    )
    op.create_table(
        "copies",
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.LargeBinary(), nullable=False),
        sa.Column("event_id", sa.BigInteger(), nullable=False),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        _of_trace("copies"),
        sa.PrimaryKeyConstraint("trace_id", "number", name=op.f("pk_copies")),
    )


def _notices() -> None:
    op.create_table(
        "gaps",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("after_event_id", sa.BigInteger(), nullable=False),
        sa.Column("before_event_id", sa.BigInteger(), nullable=True),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        _of_trace("gaps"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gaps")),
    )
    op.create_index(op.f("ix_gaps_trace_id_after_event_id"), "gaps", ["trace_id", "after_event_id"])
    op.create_table(
        "quarantine",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("routing_key", sa.Text(), nullable=False),
        sa.Column("headers", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("body_bytes", sa.BigInteger(), nullable=False),
        _of_trace("quarantine"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quarantine")),
    )
    op.create_index(op.f("ix_quarantine_trace_id_id"), "quarantine", ["trace_id", "id"])


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("vhost", sa.Text(), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("stage", sa.Text(), nullable=True),
        sa.Column("percent", sa.Float(), nullable=False),
        sa.Column("rows_read", sa.BigInteger(), nullable=False),
        sa.Column("rows_written", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
    )
    op.create_index(op.f("ix_jobs_state"), "jobs", ["state"])
    op.create_index(op.f("ix_jobs_vhost_id"), "jobs", ["vhost", "id"])
