"""The tables of the first release."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "r0001"
down_revision: str | None = None
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

# Only an INTEGER key is SQLite's fast rowid.
BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

# How keys are looked up is each database's own affair (`app.store.database.searched`).
KEYS = {
    "sqlite": (
        "CREATE TABLE keys (trace_id INTEGER NOT NULL, run INTEGER NOT NULL, key BLOB NOT"
        " NULL, event_id BIGINT NOT NULL, roles SMALLINT NOT NULL, CONSTRAINT pk_keys PRIMARY"
        " KEY (trace_id, run, key, event_id)) WITHOUT ROWID",
        "CREATE INDEX ix_keys_conversations ON keys (trace_id, event_id, key, roles) WHERE"
        " (roles & 1) <> 0",
        "CREATE TABLE runs (number INTEGER NOT NULL PRIMARY KEY)",
        "CREATE TRIGGER runs_begin AFTER INSERT ON blocks BEGIN INSERT OR IGNORE INTO runs"
        " VALUES (-(new.number / 16)); END",
        "CREATE TRIGGER runs_end AFTER DELETE ON blocks BEGIN DELETE FROM runs WHERE number ="
        " -(old.number / 16) AND NOT EXISTS (SELECT 1 FROM blocks WHERE number BETWEEN"
        " old.number / 16 * 16 AND old.number / 16 * 16 + 15); END",
        "CREATE VIEW searched_keys AS SELECT runs.number AS run, runs.number AS turn,"
        " keys.trace_id, keys.event_id, keys.key, keys.roles FROM runs CROSS JOIN keys ON"
        " keys.run = +runs.number",
    ),
    "postgresql": (
        "CREATE TABLE keys (trace_id INTEGER NOT NULL, event_id BIGINT NOT NULL, key BYTEA"
        " NOT NULL, roles SMALLINT NOT NULL, CONSTRAINT pk_keys PRIMARY KEY (trace_id,"
        " event_id, key))",
        "CREATE INDEX ix_keys_search ON keys (trace_id, key, event_id, roles)",
        "CREATE OR REPLACE VIEW searched_keys AS SELECT -(event_id >> 16) AS run, 0 AS turn,"
        " trace_id, event_id, key, roles FROM keys",
    ),
}


def upgrade() -> None:
    _tables()
    for statement in KEYS[op.get_context().dialect.name]:
        op.execute(statement)
    op.bulk_insert(_columns("event_ids", next=sa.BigInteger), [{"next": 1}])
    op.bulk_insert(_columns("installation", name=sa.Text), [{"name": secrets.token_hex(8)}])
    fields = {"field": sa.Text, "from_event_id": sa.BigInteger, "by_publish": sa.Boolean}
    op.bulk_insert(
        _columns("indexed_fields", **fields),
        [
            {"field": "message_id", "from_event_id": 1, "by_publish": True},
            {"field": "correlation_id", "from_event_id": 1, "by_publish": False},
        ],
    )


def downgrade() -> None:
    raise NotImplementedError("migrations go forward only: restore a backup")


def _columns(table: str, /, **columns: type[sa.types.TypeEngine[object]]) -> sa.TableClause:
    return sa.table(table, *(sa.column(each, kind) for each, kind in columns.items()))


def _tables() -> None:
    op.create_table(
        "blocks",
        sa.Column("number", BIG_ID, autoincrement=False, nullable=False),
        sa.Column("earliest", sa.BigInteger(), nullable=False),
        sa.Column("latest", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_blocks")),
    )
    op.create_table(
        "connections",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("vhost", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("client", sa.Text(), nullable=True),
        sa.Column("process", sa.Text(), nullable=True),
        sa.Column("pid", sa.Text(), nullable=True),
        sa.Column("opened_at", sa.BigInteger(), nullable=False),
        sa.Column("closed_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_connections")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_connections_closed_at"), "connections", ["closed_at"], unique=False)
    op.create_index(
        op.f("ix_connections_name_opened_at_node"),
        "connections",
        ["name", "opened_at", "node"],
        unique=True,
    )
    op.create_table(
        "edges",
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("effect_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("cause_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("kind", sa.SmallInteger(), nullable=False),
        sa.Column("way", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("effect_id", "cause_id", "rule", name=op.f("pk_edges")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_edges_beside",
        "edges",
        ["trace_id", "way", "effect_id"],
        unique=False,
        sqlite_where=sa.text("way <> 0"),
        postgresql_where=sa.text("way <> 0"),
    )
    op.create_index(
        op.f("ix_edges_trace_id_cause_id"), "edges", ["trace_id", "cause_id"], unique=False
    )
    op.create_table(
        "event_ids",
        sa.Column("next", BIG_ID, nullable=False),
        sa.PrimaryKeyConstraint("next", name=op.f("pk_event_ids")),
    )
    op.create_table(
        "indexed_fields",
        sa.Column("field", sa.Text(), nullable=False),
        sa.Column("from_event_id", sa.BigInteger(), nullable=False),
        sa.Column("by_publish", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.PrimaryKeyConstraint("field", name=op.f("pk_indexed_fields")),
    )
    op.create_table(
        "installation",
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_installation")),
    )
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
        sa.Column("service", sa.Text(), nullable=True),
        sa.Column("unwanted", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
    )
    op.create_index(op.f("ix_jobs_state"), "jobs", ["state"], unique=False)
    op.create_index(op.f("ix_jobs_vhost_id"), "jobs", ["vhost", "id"], unique=False)
    op.create_table(
        "late_edges",
        sa.Column("trace_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("effect_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("cause_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("trace_id", "effect_id", "cause_id", name=op.f("pk_late_edges")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "lost_copies",
        sa.Column("trace_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("event_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("trace_id", "event_id", "queue", name=op.f("pk_lost_copies")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "restamped",
        sa.Column("event_id", BIG_ID, autoincrement=False, nullable=False),
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("participant", sa.Integer(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("lamport", sa.BigInteger(), nullable=False),
        sa.Column("height", sa.BigInteger(), nullable=False),
        sa.Column("clock", sa.LargeBinary(), nullable=False),
        sa.Column("quiet", sa.Boolean(), nullable=False),
        sa.Column("ids", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("event_id", name=op.f("pk_restamped")),
    )
    op.create_table(
        "restamped_edges",
        sa.Column("effect_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("cause_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.SmallInteger(), nullable=True),
        sa.Column("way", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("effect_id", "cause_id", "rule", name=op.f("pk_restamped_edges")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "restamped_keys",
        sa.Column("event_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("roles", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("event_id", "key", name=op.f("pk_restamped_keys")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "services",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.Column("idle_since", sa.BigInteger(), nullable=False),
        sa.Column("snapshots", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_services")),
    )
    op.create_table(
        "span_links",
        sa.Column("context", sa.LargeBinary(), nullable=False),
        sa.Column("linked", sa.LargeBinary(), nullable=False),
        sa.Column("is_remote", sa.Boolean(), nullable=True),
        sa.PrimaryKeyConstraint("context", "linked", name=op.f("pk_span_links")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_span_links_linked"), "span_links", ["linked"], unique=False)
    op.create_table(
        "spans",
        sa.Column("context", sa.LargeBinary(), nullable=False),
        sa.Column("parent", sa.LargeBinary(), nullable=True),
        sa.Column("is_remote", sa.Boolean(), nullable=True),
        sa.Column("kind", sa.SmallInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=False),
        sa.Column("service", sa.Text(), nullable=True),
        sa.Column("delivery_id", sa.BigInteger(), nullable=True),
        sa.Column("is_new", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("context", name=op.f("pk_spans")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_spans_consumers",
        "spans",
        ["parent"],
        unique=False,
        sqlite_where=sa.text("kind = 5"),
        postgresql_where=sa.text("kind = 5"),
    )
    op.create_index(op.f("ix_spans_ended_at"), "spans", ["ended_at"], unique=False)
    op.create_index(
        "ix_spans_new",
        "spans",
        ["context"],
        unique=False,
        sqlite_where=sa.text("is_new"),
        postgresql_where=sa.text("is_new"),
    )
    op.create_table(
        "traceparents",
        sa.Column("trace_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("event_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("context", sa.LargeBinary(), nullable=False),
        sa.Column("is_new", sa.Boolean(), nullable=False),
        sa.Column("waits_for", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("trace_id", "event_id", name=op.f("pk_traceparents")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        op.f("ix_traceparents_context_event_id"),
        "traceparents",
        ["context", "event_id"],
        unique=False,
    )
    op.create_index(
        "ix_traceparents_new",
        "traceparents",
        ["event_id"],
        unique=False,
        sqlite_where=sa.text("is_new"),
        postgresql_where=sa.text("is_new"),
    )
    op.create_index(
        "ix_traceparents_waiting",
        "traceparents",
        ["waits_for"],
        unique=False,
        sqlite_where=sa.text("waits_for IS NOT NULL"),
        postgresql_where=sa.text("waits_for IS NOT NULL"),
    )
    op.create_table(
        "traces",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("vhost", sa.Text(), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("quiet", sa.Text(), nullable=False),
        sa.Column("wanted", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("checkpoint", sa.LargeBinary(), nullable=True),
        sa.Column("window", sa.LargeBinary(), nullable=True),
        sa.Column("ledger", sa.LargeBinary(), nullable=True),
        sa.Column("batch", sa.LargeBinary(), nullable=True),
        sa.Column("events", sa.BigInteger(), nullable=False),
        sa.Column("last_event_id", sa.BigInteger(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=True),
        sa.Column("epoch", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("bodies", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("taken", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_traces")),
        sa.UniqueConstraint("vhost", name=op.f("uq_traces_vhost")),
    )
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
    op.create_table(
        "assertions",
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("set_by", sa.Text(), nullable=False),
        sa.Column("set_at", sa.BigInteger(), nullable=False),
        sa.Column("from_event_id", sa.BigInteger(), nullable=False),
        sa.Column("judged_id", sa.BigInteger(), nullable=False),
        sa.Column("waiting", sa.BigInteger(), nullable=False),
        sa.Column("held", sa.BigInteger(), nullable=False),
        sa.Column("violated", sa.BigInteger(), nullable=False),
        sa.Column("unknown", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["trace_id"], ["traces.id"], name=op.f("fk_assertions_trace_id_traces")
        ),
        sa.PrimaryKeyConstraint("trace_id", "name", name=op.f("pk_assertions")),
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
        sa.Column("last_event_id", sa.BigInteger(), nullable=True),
        sa.Column("replies_to", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["trace_id"], ["traces.id"], name=op.f("fk_channels_trace_id_traces")
        ),
        sa.PrimaryKeyConstraint("trace_id", "number", name=op.f("pk_channels")),
    )
    op.create_table(
        "open_channels",
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("pid", sa.Text(), nullable=False),
        sa.Column("state", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["trace_id"], ["traces.id"], name=op.f("fk_open_channels_trace_id_traces")
        ),
        sa.PrimaryKeyConstraint("trace_id", "pid", name=op.f("pk_open_channels")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "copies",
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.LargeBinary(), nullable=False),
        sa.Column("event_id", sa.BigInteger(), nullable=False),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["trace_id"], ["traces.id"], name=op.f("fk_copies_trace_id_traces")
        ),
        sa.PrimaryKeyConstraint("trace_id", "number", name=op.f("pk_copies")),
    )
    op.create_table(
        "duration_places",
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("read_id", sa.BigInteger(), nullable=False),
        sa.Column("read_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["trace_id"], ["traces.id"], name=op.f("fk_duration_places_trace_id_traces")
        ),
        sa.PrimaryKeyConstraint("trace_id", name=op.f("pk_duration_places")),
    )
    op.create_table(
        "durations",
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("part", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("cells", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["trace_id"], ["traces.id"], name=op.f("fk_durations_trace_id_traces")
        ),
        sa.PrimaryKeyConstraint(
            "trace_id", "part", "at", "kind", "name", name=op.f("pk_durations")
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "events",
        sa.Column("id", BIG_ID, autoincrement=False, nullable=False),
        sa.Column("type", sa.SmallInteger(), nullable=False),
        sa.Column("match", sa.SmallInteger(), nullable=False),
        sa.Column("cause_id", sa.BigInteger(), nullable=True),
        sa.Column("candidates", sa.Integer(), nullable=True),
        sa.Column("doubtful", sa.Boolean(), nullable=False),
        sa.Column("participant", sa.Integer(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("lamport", sa.BigInteger(), nullable=False),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.Column("exchange", sa.Text(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=True),
        sa.Column("routing_keys", sa.Text(), nullable=False),
        sa.Column("routed_queues", sa.Text(), nullable=True),
        sa.Column("redelivered", sa.Boolean(), nullable=False),
        sa.Column("quiet", sa.Boolean(), nullable=False),
        sa.Column("settlement", sa.SmallInteger(), nullable=True),
        sa.Column("settled_at", sa.BigInteger(), nullable=True),
        sa.Column("properties", sa.Text(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=True),
        sa.Column("payload_bytes", sa.BigInteger(), nullable=False),
        sa.Column("payload_sha256", sa.LargeBinary(), nullable=True),
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("height", sa.BigInteger(), nullable=False),
        sa.Column("clock", sa.LargeBinary(), nullable=False),
        sa.Column("channel", sa.Integer(), nullable=False),
        sa.Column("fingerprint", sa.LargeBinary(), nullable=False),
        sa.Column("ids", sa.LargeBinary(), nullable=True),
        sa.Column("hold", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
    )
    op.create_index("ix_events_by_id", "events", ["trace_id", "id"], unique=False)
    op.create_index(
        "ix_events_came_back",
        "events",
        ["trace_id", "id"],
        unique=False,
        sqlite_where=sa.text("match = 2 AND NOT quiet"),
        postgresql_where=sa.text("match = 2 AND NOT quiet"),
    )
    op.create_index(
        "ix_events_cause_id",
        "events",
        ["cause_id"],
        unique=False,
        sqlite_where=sa.text("cause_id IS NOT NULL"),
        postgresql_where=sa.text("cause_id IS NOT NULL"),
    )
    op.create_index(
        "ix_events_died",
        "events",
        ["trace_id", "id"],
        unique=False,
        sqlite_where=sa.text("match = 3 AND NOT quiet"),
        postgresql_where=sa.text("match = 3 AND NOT quiet"),
    )
    op.create_index(
        "ix_events_doubtful",
        "events",
        ["trace_id", "id"],
        unique=False,
        sqlite_where=sa.text("doubtful"),
        postgresql_where=sa.text("doubtful"),
    )
    op.create_index(
        "ix_events_in_hand",
        "events",
        ["trace_id", "id"],
        unique=False,
        sqlite_where=sa.text("settlement = 1"),
        postgresql_where=sa.text("settlement = 1"),
    )
    op.create_index(
        "ix_events_named",
        "events",
        ["trace_id", "id"],
        unique=False,
        sqlite_where=sa.text("ids IS NOT NULL"),
        postgresql_where=sa.text("ids IS NOT NULL"),
    )
    op.create_index(
        "ix_events_quiet",
        "events",
        ["trace_id", "id"],
        unique=False,
        sqlite_where=sa.text("quiet"),
        postgresql_where=sa.text("quiet"),
    )
    op.create_index(
        "ix_events_settled",
        "events",
        ["trace_id", "hold"],
        unique=False,
        sqlite_where=sa.text("settlement IN (2, 3)"),
        postgresql_where=sa.text("settlement IN (2, 3)"),
    )
    op.create_index(
        op.f("ix_events_trace_id_participant_height_seq"),
        "events",
        ["trace_id", "participant", "height", "seq"],
        unique=True,
    )
    op.create_index(
        "ix_events_unroutable",
        "events",
        ["trace_id", "id"],
        unique=False,
        sqlite_where=sa.text("routed_queues = '[]' AND NOT quiet"),
        postgresql_where=sa.text("routed_queues = '[]' AND NOT quiet"),
    )
    op.create_table(
        "gaps",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("after_event_id", sa.BigInteger(), nullable=False),
        sa.Column("before_event_id", sa.BigInteger(), nullable=True),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("suspected", sa.Boolean(), nullable=False),
        sa.Column("declared", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.ForeignKeyConstraint(["trace_id"], ["traces.id"], name=op.f("fk_gaps_trace_id_traces")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gaps")),
    )
    op.create_index(
        op.f("ix_gaps_trace_id_after_event_id"),
        "gaps",
        ["trace_id", "after_event_id"],
        unique=False,
    )
    op.create_table(
        "link_rules",
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("from_event_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["trace_id"], ["traces.id"], name=op.f("fk_link_rules_trace_id_traces")
        ),
        sa.PrimaryKeyConstraint("trace_id", "name", name=op.f("pk_link_rules")),
    )
    op.create_table(
        "own_link_rules",
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["trace_id"], ["traces.id"], name=op.f("fk_own_link_rules_trace_id_traces")
        ),
        sa.PrimaryKeyConstraint("trace_id", "name", name=op.f("pk_own_link_rules")),
    )
    op.create_table(
        "participants",
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("place", sa.Text(), nullable=True),
        sa.Column("client", sa.Text(), nullable=True),
        sa.Column("assumed", sa.Boolean(), nullable=False),
        sa.Column("interval", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("published", sa.BigInteger(), nullable=False),
        sa.Column("lamport", sa.BigInteger(), nullable=False),
        sa.Column("height", sa.BigInteger(), nullable=False),
        sa.Column("base", sa.BigInteger(), nullable=False),
        sa.Column("first_event_id", sa.BigInteger(), nullable=False),
        sa.Column("last_event_id", sa.BigInteger(), nullable=False),
        sa.Column("reactions", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("explained", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("known", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("missed", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("hidden", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("spanned", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(
            ["trace_id"], ["traces.id"], name=op.f("fk_participants_trace_id_traces")
        ),
        sa.PrimaryKeyConstraint("trace_id", "number", name=op.f("pk_participants")),
    )
    op.create_index(
        op.f("ix_participants_trace_id_last_event_id"),
        "participants",
        ["trace_id", "last_event_id"],
        unique=False,
    )
    op.create_table(
        "proposals",
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("looked_at", sa.BigInteger(), nullable=False),
        sa.Column("publishes", sa.BigInteger(), nullable=False),
        sa.Column("programs", sa.Integer(), nullable=False),
        sa.Column("found", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["trace_id"], ["traces.id"], name=op.f("fk_proposals_trace_id_traces")
        ),
        sa.PrimaryKeyConstraint("trace_id", name=op.f("pk_proposals")),
    )
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
        sa.ForeignKeyConstraint(
            ["trace_id"], ["traces.id"], name=op.f("fk_quarantine_trace_id_traces")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quarantine")),
    )
    op.create_index(
        op.f("ix_quarantine_trace_id_id"), "quarantine", ["trace_id", "id"], unique=False
    )
    op.create_table(
        "violations",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("trace_id", sa.Integer(), nullable=False),
        sa.Column("assertion", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("event_id", sa.BigInteger(), nullable=False),
        sa.Column("last_id", sa.BigInteger(), nullable=False),
        sa.Column("root", sa.BigInteger(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.Column("found_at", sa.BigInteger(), nullable=False),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("delivery", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", sa.BigInteger(), nullable=True),
        sa.Column("summary", sa.BigInteger(), nullable=True),
        sa.Column("delivered_at", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["trace_id"], ["traces.id"], name=op.f("fk_violations_trace_id_traces")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_violations")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_violations_due",
        "violations",
        ["next_at"],
        unique=False,
        sqlite_where=sa.text("delivery = 'due'"),
        postgresql_where=sa.text("delivery = 'due'"),
    )
    op.create_index(
        op.f("ix_violations_trace_id_assertion_event_id"),
        "violations",
        ["trace_id", "assertion", "event_id"],
        unique=True,
    )
    op.create_index(
        op.f("ix_violations_trace_id_id"), "violations", ["trace_id", "id"], unique=False
    )
    op.create_index(
        op.f("ix_violations_trace_id_kind_event_id"),
        "violations",
        ["trace_id", "kind", "event_id"],
        unique=False,
    )
