"""The tables. Alembic's migrations must equal them; a test compares the two on both databases.

Numbers within a trace (participants, channels, copies) are assigned by the tracker and are keys
together with ``trace_id``. Times are microseconds since the epoch, UTC. JSON is stored as text:
people and Spark read it, and no query looks into it.

The columns of an event are those of `model.event`. Its clock is the event component alone, packed
by ``itc.pack``: the id component is the participant's interval, stored once in ``participants``.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    and_,
    column,
    false,
    table,
    text,
    true,
)
from sqlalchemy.types import TypeEngine

from app.store.database import searched
from app.store.database.searched import keys as keys
from model.event import FIELDS, UNREAD, Field, Kind

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _table(name: str, *parts: Column[Any] | Index, **of_sqlite: Any) -> Table:
    return Table(name, metadata, *parts, **of_sqlite)


def _partial(name: str, condition: str, *columns: str) -> Index:
    """An index of the rows for which a condition holds."""
    return Index(name, *columns, sqlite_where=text(condition), postgresql_where=text(condition))


# Only an INTEGER key is SQLite's fast rowid.
BigId = BigInteger().with_variant(Integer, "sqlite")

traces = _table(
    "traces",
    Column("id", Integer, primary_key=True),
    Column("vhost", Text, nullable=False, unique=True),
    Column("policy", Text, nullable=False),  # `app.tracker.Policy`
    Column("quiet", Text, nullable=False),  # patterns of quiet traffic, a JSON array
    Column("wanted", Boolean, nullable=False),  # run it when the service starts
    Column("created_at", BigInteger, nullable=False),
    Column("checkpoint", LargeBinary, nullable=True),  # the tracker's Checkpoint.state
    Column("window", LargeBinary, nullable=True),  # digests of the last committed trace messages
    Column("ledger", LargeBinary, nullable=True),  # counts of trace messages, and their audit
    # The batch stored last: an append whose commit was in doubt is recognised when repeated.
    Column("batch", LargeBinary, nullable=True),
    Column("events", BigInteger, nullable=False),  # stored ones; counting them is slow
    Column("last_event_id", BigInteger, nullable=False),  # 0: none yet
    Column("holder", Text, nullable=True),  # the service that runs it: `services.id`
    # Counts who took the trace: what an earlier holder still wants to write is refused. No foreign
    # key to the holder: dead ones are forgotten.
    Column("epoch", Integer, nullable=False, server_default=text("0")),
    Column("bodies", Boolean, nullable=False, server_default=true()),  # they are stored and read
    Column("taken", Text, nullable=True),  # `app.tracker.Taken` as JSON; null: everything is
    Column("pruned", Boolean, nullable=False, server_default=false()),  # events were removed
)

# The services on this database. One that was silent for too long holds nothing any more. Times are
# the database's where several services can use it.
services = _table(
    "services",
    Column("id", Text, primary_key=True),  # of this run of it, never used again
    Column("name", Text, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
    Column("until", BigInteger, nullable=False),  # the end of its lease
    Column("idle_since", BigInteger, nullable=False),  # when it last took a trace, or started
    Column("snapshots", LargeBinary, nullable=True),  # states of its traces, JSON
)

participants = _table(
    "participants",
    Column("trace_id", Integer, ForeignKey("traces.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("key", Text, nullable=False),  # its identity by the policy
    Column("name", Text, nullable=False),  # the shown name: of what follows, or an alias
    Column("user", Text, nullable=False),
    Column("place", Text, nullable=True),
    Column("client", Text, nullable=True),
    Column("assumed", Boolean, nullable=False),
    Column("interval", Text, nullable=False),  # path of 0 and 1 from the seed
    Column("seq", BigInteger, nullable=False),
    Column("published", BigInteger, nullable=False),
    Column("lamport", BigInteger, nullable=False),
    Column("height", BigInteger, nullable=False),
    Column("base", BigInteger, nullable=False),
    Column("first_event_id", BigInteger, nullable=False),
    Column("last_event_id", BigInteger, nullable=False),
    # `model.sound.Evidence`; what spans tell is counted where their links are stored.
    Column("reactions", BigInteger, nullable=False, server_default=text("0")),
    Column("explained", BigInteger, nullable=False, server_default=text("0")),
    Column("known", BigInteger, nullable=False, server_default=text("0")),
    Column("missed", BigInteger, nullable=False, server_default=text("0")),
    Column("hidden", BigInteger, nullable=False, server_default=text("0")),
    Column("spanned", BigInteger, nullable=False, server_default=text("0")),
    Index(None, "trace_id", "last_event_id"),
)

# Names that people give to participants. They outlive the participants' rows: a participant that
# comes back, or is found again by a restamp, has the same key.
aliases = _table(
    "aliases",
    Column("trace_id", Integer, ForeignKey("traces.id"), primary_key=True),
    Column("key", Text, primary_key=True),
    Column("alias", Text, nullable=False),
)

channels = _table(
    "channels",
    Column("trace_id", Integer, ForeignKey("traces.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("participant", Integer, nullable=False),
    Column("node", Text, nullable=False),
    Column("connection", Text, nullable=False),
    Column("channel", Integer, nullable=False),
    Column("user", Text, nullable=False),
    # Only where channels may share a participant, which then outlives them; otherwise the
    # participant has it.
    Column("last_event_id", BigInteger, nullable=True),
    Column("replies_to", Text, nullable=True),  # its name for direct replies
)

# One row, with the name by which our queues say whose they are.
installation = _table("installation", Column("name", Text, primary_key=True))

# One row, one column: the next event id. Its row lock makes id order commit order.
event_ids = _table("event_ids", Column("next", BigId, primary_key=True))

_NUMBERS: dict[int, type[TypeEngine[Any]]] = {32: Integer, 64: BigInteger}
_TYPES: dict[Kind, type[TypeEngine[Any]]] = {
    "text": Text,
    "flag": Boolean,
    "time": BigInteger,
    "word": SmallInteger,
    "words": Text,  # a JSON array
    "table": Text,  # a JSON object
    "bytes": LargeBinary,
}
# The primary key, which the table of fields does not name. It has no foreign key to the trace: the
# trace's row is locked while events are stored, and PostgreSQL took a third of its time to look for
# each.
_KEYS = {"id": Column("id", BigId, primary_key=True, autoincrement=False)}

OF_EVENTS: tuple[Field, ...] = tuple(
    field for field in (*FIELDS, *UNREAD) if field.table == "events"
)
"""The fields that have a column in `events`, in the order of its columns."""

USUAL: dict[str, int | None] = {
    "candidates": None,
    "doubtful": 0,
    "redelivered": 0,
    "quiet": 0,
    "settlement": None,
    "settled_at": None,
    "payload_sha256": None,
    "redactions": None,
    "hold": None,
}
"""Values that nearly all events have, in the order of the columns."""

EVENT_ROWS = table(
    "events",
    *(column(field.column) for field in OF_EVENTS if field.column not in USUAL),
    *map(column, USUAL),
)
"""The columns of `events` in the order of `app.store.capture.rows.event_rows`."""


def _column(field: Field) -> Column[Any]:
    if field.column in _KEYS:
        return _KEYS[field.column]
    kind = _NUMBERS[field.stored.bits] if field.kind == "number" else _TYPES[field.kind]
    return Column(field.column, kind, nullable=field.stored.null)


FAILURES = {
    "died": "match = 3 AND NOT quiet",
    "came_back": "match = 2 AND NOT quiet",
    "unroutable": "routed_queues = '[]' AND NOT quiet",
}
"""Conditions on events that are signs of failures: a query in these words can use an index."""

ENDED = "hold IS NOT NULL AND (settlement IS NULL OR settlement > 1)"
"""The condition on deliveries whose time in a consumer's hands is over, for the index."""

BACK = "settlement IN (4, 6)"
"""The condition on deliveries after which a copy was back in its queue, for the index."""

events = _table(
    "events",
    *map(_column, OF_EVENTS),
    # With the fields of a vector clock, so that a query for it reads only this index.
    Index(None, "trace_id", "participant", "height", "seq", unique=True),
    # If several indexes fit, SQLite takes the newest, and migrations make them in the order of
    # their names: the partial ones must come after this one.
    Index("ix_events_by_id", "trace_id", "id"),
    _partial("ix_events_cause_id", "cause_id IS NOT NULL", "cause_id"),
    # The few quiet events, to count them in a span.
    _partial("ix_events_quiet", "quiet", "trace_id", "id"),
    # The few events that may be effects of anything.
    _partial("ix_events_doubtful", "doubtful", "trace_id", "id"),
    # Deliveries that consumers hold (`model.words.Disposition`).
    _partial("ix_events_in_hand", "settlement = 1", "trace_id", "id"),
    # Deliveries after which a copy was back in its queue (`model.words.BACK`).
    _partial("ix_events_back", BACK, "trace_id", "id"),
    # Deliveries that are settled, or that nobody knows of any more, by the last event before that.
    _partial("ix_events_ended", ENDED, "trace_id", "hold"),
    # Events that other messages may name: a tracker remembers the last of them.
    _partial("ix_events_named", "ids IS NOT NULL", "trace_id", "id"),
    # The few signs of failures (`model.words.Match`): dead letters, messages that came back,
    # and messages that went nowhere. One index per kind, so that a frequent kind does not slow down
    # the others.
    *(
        _partial(f"ix_events_{kind}", condition, "trace_id", "id")
        for kind, condition in FAILURES.items()
    ),
)

# Conditions of joins: a participant's channels, and an event's channel and participant.
CHANNELS_OF_PARTICIPANT = and_(
    channels.c.trace_id == participants.c.trace_id, channels.c.participant == participants.c.number
)
CHANNEL_OF_EVENT = and_(
    channels.c.trace_id == events.c.trace_id, channels.c.number == events.c.channel
)
PARTICIPANT_OF_EVENT = and_(
    participants.c.trace_id == events.c.trace_id, participants.c.number == events.c.participant
)

# The channels whose deliveries are counted (`app.tracker.settlements.OpenChannel`).
open_channels = _table(
    "open_channels",
    Column("trace_id", Integer, ForeignKey("traces.id"), primary_key=True),
    Column("pid", Text, primary_key=True),
    Column("state", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

# `keys` is made by statements: its order is each database's own affair.
searched.attach(metadata)

# Links to events beside their causes (`model.words.EdgeKind`): to a publish from the delivery, or
# the publish, that it names; to a delivery from what the broker did.
edges = _table(
    "edges",
    Column("trace_id", Integer, nullable=False),
    Column("effect_id", BigInteger, primary_key=True, autoincrement=False),
    Column("cause_id", BigInteger, primary_key=True, autoincrement=False),
    Column("rule", Text, primary_key=True),
    Column("kind", SmallInteger, nullable=False),  # `model.words.EdgeKind`
    Column("way", SmallInteger, nullable=False, server_default=text("0")),  # `Awareness`
    Index(None, "trace_id", "cause_id"),
    # The few links that are not in the publisher's past by the policy.
    _partial("ix_edges_beside", "way <> 0", "trace_id", "way", "effect_id"),
    sqlite_with_rowid=False,
)

# Imported spans (`app.stored.spans`). A context is the trace's id and the span's, 24 bytes. Spans
# are new until traceparents are resolved by them.
spans = _table(
    "spans",
    Column("context", LargeBinary, primary_key=True),
    Column("parent", LargeBinary, nullable=True),
    Column("is_remote", Boolean, nullable=True),  # the parent; null if unknown
    Column("kind", SmallInteger, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger, nullable=False),
    Column("service", Text, nullable=True),
    Column("delivery_id", BigInteger, nullable=True),  # the message that it handled, by a link
    Column("is_new", Boolean, nullable=False),
    Index(None, "ended_at"),
    # By the message that they handled; 5 is `SpanKind.consumer`.
    _partial("ix_spans_consumers", "kind = 5", "parent"),
    _partial("ix_spans_new", "is_new", "context"),
    sqlite_with_rowid=False,
)

span_links = _table(
    "span_links",
    Column("context", LargeBinary, primary_key=True),
    Column("linked", LargeBinary, primary_key=True),
    Column("is_remote", Boolean, nullable=True),
    Index(None, "linked"),
    sqlite_with_rowid=False,
)

# The contexts in messages' traceparents: of publishes, and of deliveries without a known publish. A
# publish is new, then waits for a span; once it waits for none, it is resolved.
traceparents = _table(
    "traceparents",
    Column("trace_id", Integer, primary_key=True, autoincrement=False),
    Column("event_id", BigInteger, primary_key=True, autoincrement=False),
    Column("context", LargeBinary, nullable=False),
    Column("is_new", Boolean, nullable=False),
    Column("waits_for", LargeBinary, nullable=True),
    Index(None, "context", "event_id"),
    _partial("ix_traceparents_new", "is_new", "event_id"),
    _partial("ix_traceparents_waiting", "waits_for IS NOT NULL", "waits_for"),
    sqlite_with_rowid=False,
)

# Links that came after their effect was stamped, and are missing in its clock.
late_edges = _table(
    "late_edges",
    Column("trace_id", Integer, primary_key=True, autoincrement=False),
    Column("effect_id", BigInteger, primary_key=True, autoincrement=False),
    Column("cause_id", BigInteger, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
)

# The rules by which a trace's events are read, in order of position, and each one's first event.
# The trace's run writes them, with the first batch that it read by them.
link_rules = _table(
    "link_rules",
    Column("trace_id", Integer, ForeignKey("traces.id"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("position", Integer, nullable=False),
    Column("origin", Text, nullable=False),  # `app.tracker.links.Origin`
    Column("rule", Text, nullable=False),  # JSON
    Column("from_event_id", BigInteger, nullable=False),
)

# People's own rules for a trace, in order of position: its run takes them up.
own_link_rules = _table(
    "own_link_rules",
    Column("trace_id", Integer, ForeignKey("traces.id"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("position", Integer, nullable=False),
    Column("rule", Text, nullable=False),  # JSON
)

# People's rules of redaction for a trace, and the sets of rules before them, the latest first.
redactions = _table(
    "redactions",
    Column("trace_id", Integer, ForeignKey("traces.id"), primary_key=True),
    Column("rules", Text, nullable=False),  # `app.tracker.redaction.Redaction`, a JSON array
    Column("former", Text, nullable=False),  # of such arrays
)

# The rules that a trace's messages suggest, as of the last look beside capture, and the counts of
# that look.
proposals = _table(
    "proposals",
    Column("trace_id", Integer, ForeignKey("traces.id"), primary_key=True),
    Column("looked_at", BigInteger, nullable=False),
    Column("publishes", BigInteger, nullable=False),
    Column("programs", Integer, nullable=False),
    Column("found", Text, nullable=False),  # `app.stored.proposals.RuleProposal`, JSON
)

# Assertions about a trace (`model.assertions`), in order of position, judged by the events that are
# stored since each was set.
assertions = _table(
    "assertions",
    Column("trace_id", Integer, ForeignKey("traces.id"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("position", Integer, nullable=False),
    Column("text", Text, nullable=False),  # JSON
    Column("set_by", Text, nullable=False),
    Column("set_at", BigInteger, nullable=False),
    Column("from_event_id", BigInteger, nullable=False),
    Column("judged_id", BigInteger, nullable=False),  # everything up to here is judged
    Column("waiting", BigInteger, nullable=False),  # events that wait for their time
    # Events for which it held, did not, or that is unknown.
    Column("held", BigInteger, nullable=False),
    Column("violated", BigInteger, nullable=False),
    Column("unknown", BigInteger, nullable=False),
)

# Violations of assertions, one for each event, and their delivery to the webhook. Ids are never
# used again: they are in the names of events sent elsewhere.
violations = _table(
    "violations",
    Column("id", BigId, primary_key=True),
    Column("trace_id", Integer, ForeignKey("traces.id"), nullable=False),
    Column("assertion", Text, nullable=False),
    Column("text", Text, nullable=False),  # of the assertion when it was judged, JSON
    Column("event_id", BigInteger, nullable=False),
    Column("last_id", BigInteger, nullable=False),  # the last event that was looked at
    Column("root", BigInteger, nullable=True),  # of the event's conversation
    Column("kind", Text, nullable=False),  # `app.stored.assertions.ViolationKind`
    Column("type", Text, nullable=False),  # of the event's message
    Column("recorded_at", BigInteger, nullable=False),
    Column("found_at", BigInteger, nullable=False),
    Column("sentence", Text, nullable=False),
    Column("delivery", Text, nullable=False),  # `app.stored.assertions.WebhookState`
    Column("attempts", Integer, nullable=False),
    Column("next_at", BigInteger, nullable=True),  # when the webhook is told, or tried again
    Column("summary", BigInteger, nullable=True),  # the minute whose summary tells of it
    Column("delivered_at", BigInteger, nullable=True),
    Column("error", Text, nullable=True),
    Index(None, "trace_id", "assertion", "event_id", unique=True),
    Index(None, "trace_id", "kind", "event_id"),
    Index(None, "trace_id", "id"),
    _partial("ix_violations_due", "delivery = 'due'", "next_at"),
    sqlite_autoincrement=True,
)

# The fields whose values are among the keys, each from an event on. Earlier values, and those of
# all other fields, are looked for in the events themselves.
indexed_fields = _table(
    "indexed_fields",
    Column("field", Text, primary_key=True),  # message_id, correlation_id, header.NAME
    Column("from_event_id", BigInteger, nullable=False),
    # True if deliveries may be in it by their publish alone, or once were.
    Column("by_publish", Boolean, nullable=False, server_default=false()),
)

# Waiting and handling times (`model.durations`), by queue and by service: counts of each minute of
# an hour, and of each hour of a day.
durations = _table(
    "durations",
    Column("trace_id", Integer, ForeignKey("traces.id"), primary_key=True),
    Column("part", BigInteger, primary_key=True, autoincrement=False),  # a minute, an hour; µs
    Column("at", BigInteger, primary_key=True, autoincrement=False),  # the begin of that time
    Column("kind", SmallInteger, primary_key=True, autoincrement=False),  # `OwnerKind`
    Column("name", Text, primary_key=True),
    Column("cells", LargeBinary, nullable=False),
    Column("total", BigInteger, nullable=False, server_default=text("0")),  # of all counts
    # The first consumer's: places are shared among users.
    Column("user", Text, nullable=False, server_default=text("''")),
    sqlite_with_rowid=False,
)

# The last event of each trace whose durations are counted.
duration_places = _table(
    "duration_places",
    Column("trace_id", Integer, ForeignKey("traces.id"), primary_key=True),
    Column("read_id", BigInteger, nullable=False),
    Column("read_at", BigInteger, nullable=False),  # when that event was recorded
)

# The last event, and the time of the last loss, of each trace whose spans are sent to a collector,
# and counts since it began.
sent_spans = _table(
    "sent_spans",
    Column("trace_id", Integer, ForeignKey("traces.id"), primary_key=True),
    Column("read_id", BigInteger, nullable=False),
    Column("read_at", BigInteger, nullable=False),  # when that event was recorded
    Column("lost_at", BigInteger, nullable=False),
    Column("sent", BigInteger, nullable=False),
    Column("refused", BigInteger, nullable=False),
    Column("missed", BigInteger, nullable=False),  # events that retention removed before
    Column("cut", BigInteger, nullable=False),  # conversations
)

# Conversations, by their roots, whose spans are sent because they failed.
kept_roots = _table(
    "kept_roots",
    Column("trace_id", Integer, primary_key=True, autoincrement=False),
    Column("root", BigInteger, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
)

# The times of each 4096 consecutive ids: they turn "since" and "until" into bounds of ids. Times
# are only nearly in the order of ids: batches of several traces interleave, and clocks get set.
blocks = _table(
    "blocks",
    Column("number", BigId, primary_key=True, autoincrement=False),  # event id // 4096
    Column("earliest", BigInteger, nullable=False),  # least recorded_at of its events
    Column("latest", BigInteger, nullable=False),
)

copies = _table(
    "copies",
    Column("trace_id", Integer, ForeignKey("traces.id"), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("queue", Text, nullable=False),
    Column("fingerprint", LargeBinary, nullable=False),
    Column("event_id", BigInteger, nullable=False),
    Column("recorded_at", BigInteger, nullable=False),
)

FINAL_LOSSES = "reason IN ('queue_deleted', 'not_there')"
"""The condition on losses after which nobody is handed the copy any more, for the index."""

# Copies that left their queue without a known delivery (`LostCopy`).
lost_copies = _table(
    "lost_copies",
    Column("trace_id", Integer, primary_key=True, autoincrement=False),
    Column("event_id", BigInteger, primary_key=True, autoincrement=False),  # their publish
    Column("queue", Text, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),  # `LossWord`
    # The few that are final, for those who follow them.
    _partial("ix_lost_copies_final", FINAL_LOSSES, "trace_id", "at"),
    sqlite_with_rowid=False,
)

# A span in which trace messages may have been lost, somewhere between two events. If only a part of
# the broker was untraced, it has events in it.
gaps = _table(
    "gaps",
    Column("id", Integer, primary_key=True),
    Column("trace_id", Integer, ForeignKey("traces.id"), nullable=False),
    Column("after_event_id", BigInteger, nullable=False),  # 0: before the first event
    Column("before_event_id", BigInteger, nullable=True),  # open while null
    Column("since", BigInteger, nullable=False),
    Column("until", BigInteger, nullable=True),  # open while null
    Column("reason", Text, nullable=False),
    Column("suspected", Boolean, nullable=False),
    # Not a loss: messages in it were not asked for.
    Column("declared", Boolean, nullable=False, server_default=false()),
    Column("quarantined", BigInteger, nullable=False, server_default="0"),
    Column("channel", Text, nullable=True),  # null: any
    Index(None, "trace_id", "after_event_id"),
)

quarantine = _table(
    "quarantine",
    Column("id", Integer, primary_key=True),
    Column("trace_id", Integer, ForeignKey("traces.id"), nullable=False),
    Column("recorded_at", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("routing_key", Text, nullable=False),
    Column("headers", Text, nullable=False),  # JSON, cut
    Column("body", LargeBinary, nullable=False),  # first bytes
    Column("body_bytes", BigInteger, nullable=False),
    Index(None, "trace_id", "id"),
)

# New stamps of a trace's events, while it is restamped; any others are left over. Participants are
# numbered from 1 here, and get their numbers in the trace with the swap.
restamped = _table(
    "restamped",
    Column("event_id", BigId, primary_key=True, autoincrement=False),
    Column("trace_id", Integer, nullable=False),
    Column("participant", Integer, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("lamport", BigInteger, nullable=False),
    Column("height", BigInteger, nullable=False),
    Column("clock", LargeBinary, nullable=False),
    Column("quiet", Boolean, nullable=False),
    Column("ids", LargeBinary, nullable=True),  # null, too, where messages are not read again
)

# The keys and links of the same events, if their messages are read again by other rules.
restamped_keys = _table(
    "restamped_keys",
    Column("event_id", BigInteger, primary_key=True, autoincrement=False),
    Column("key", LargeBinary, primary_key=True),
    Column("trace_id", Integer, nullable=False),
    Column("roles", SmallInteger, nullable=False),
    sqlite_with_rowid=False,
)

# A link without a kind stays: only its way, by which the effect knows of its cause, is new.
restamped_edges = _table(
    "restamped_edges",
    Column("effect_id", BigInteger, primary_key=True, autoincrement=False),
    Column("cause_id", BigInteger, primary_key=True, autoincrement=False),
    Column("rule", Text, primary_key=True),
    Column("trace_id", Integer, nullable=False),
    Column("kind", SmallInteger, nullable=True),
    Column("way", SmallInteger, nullable=False),
    sqlite_with_rowid=False,
)

jobs = _table(
    "jobs",
    Column("id", Integer, primary_key=True),
    Column("kind", Text, nullable=False),  # chain | archive | topology | report | restamp
    Column("state", Text, nullable=False),  # queued | running | succeeded | failed | cancelled
    Column("vhost", Text, nullable=False),
    Column("request", Text, nullable=False),  # JSON
    Column("result", Text, nullable=True),  # JSON
    Column("error", Text, nullable=True),  # a sentence
    Column("stage", Text, nullable=True),
    Column("percent", Float, nullable=False),
    Column("rows_read", BigInteger, nullable=False),
    Column("rows_written", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("started_at", BigInteger, nullable=True),
    Column("finished_at", BigInteger, nullable=True),
    Column("service", Text, nullable=True),  # the service that has it: `services.id`
    Column("unwanted", Boolean, nullable=False, server_default=false()),  # it should be cancelled
    Index(None, "state"),
    Index(None, "vhost", "id"),
)

# Connections to the broker, of all virtual hosts, each once by its node, its name and when it was
# opened. Ids are never used again: participants may be named by them.
connections = _table(
    "connections",
    Column("id", BigId, primary_key=True),
    Column("node", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("vhost", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("client", Text, nullable=True),  # the program's name
    Column("process", Text, nullable=True),
    Column("pid", Text, nullable=True),  # of Erlang; the management API does not give it
    Column("opened_at", BigInteger, nullable=False),
    Column("closed_at", BigInteger, nullable=True),
    Index(None, "name", "opened_at", "node", unique=True),
    Index(None, "closed_at"),
    sqlite_autoincrement=True,
)
