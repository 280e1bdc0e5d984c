"""Traces: their state, how to start one, what was pruned, what could not be read."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from app.api.schemas.common import Evidence, Gap, Model, Time, names_of
from app.traces.life import TraceState
from app.tracker import Policy
from app.tracker.quiet import MOST
from app.tracker.taken import LONGEST
from app.tracker.taken import MOST as MOST_TAKEN
from model.payloads import Encoding

TraceStateWord = Annotated[str, names_of(TraceState)]
PolicyWord = Annotated[str, names_of(Policy)]
# What it says is for clients to know beforehand; a pattern at fault is named by `Quiet`.
QuietPattern = Annotated[
    str, WithJsonSchema({"type": "string", "pattern": r"^(exchange|queue):[^\u0000]{1,300}$"})
]
# As with quiet traffic, what is wrong is said by who knows: `app.tracker.taken`.
TakenPattern = Annotated[
    str,
    WithJsonSchema({"type": "string", "pattern": r"^[^\u0000]*$", "maxLength": LONGEST}),
]
TakenPatterns = Annotated[
    list[TakenPattern], Field(json_schema_extra={"minItems": 1, "maxItems": MOST_TAKEN})
]


class Counters(Model):
    """Events of a trace since it was made, by kind."""

    published: int
    received: int
    unmatched: int
    redelivered: int
    dead_lettered: int
    quarantined: int
    copies_dropped: int
    untraced: int = Field(description="Direct replies, known from `reply_to` alone.")
    quiet: int = Field(description="Of quiet traffic; also counted above.")


class LinkCount(Model):
    """How often messages named causes by one rule, and whether these were found."""

    found: int
    known: int = Field(
        description="Of those found, those that the publisher's participant had received or "
        "published, or had heard of."
    )
    missed: int = Field(
        description="Of those found, those that reached another participant of the same program: "
        "where there are any, participants are finer than programs."
    )
    hidden: int = Field(description="Of those found, those that came by no way through the broker.")
    unseen: int = Field(description="Never seen in this virtual host while it was traced.")
    forgotten: int = Field(description="Perhaps seen, and forgotten since.")
    ambiguous: int = Field(description="Named by an id that several messages have.")
    early: int = Field(description="Perhaps from before the rule held, which is not long.")
    coverage: float | None = Field(
        description="`found` of all that were named, between 0 and 1; `null` without any."
    )
    fit: float | None = Field(
        description="`known` of `known` and `missed`, between 0 and 1; `null` without any."
    )


class Audited(Model):
    """What was traced in one direction, and what the broker counted since the trace began."""

    traced: int = Field(
        description="Trace messages seen by then, the service's own marks among them."
    )
    counted: int | None = Field(
        description="`null` while it is unknown, and where it counts what the trace leaves out."
    )


class Audit(Model):
    """The trace held against the broker's own counters."""

    publishes: Audited
    deliveries: Audited
    as_of: Time | None = Field(
        description="When they were compared: the counters stood still, and the trace queue was "
        "empty. `null` before, and what was traced is of now then."
    )
    read_at: Time | None = Field(description="When the counters were last read.")
    missing: int = Field(
        description="Proven to be missing in all; gaps say where. `0` says nothing of what is not "
        "compared."
    )
    suspected: int = Field(
        description="How many more were counted since `as_of` than have come: lost, or still "
        "inside the broker. The next comparison decides."
    )
    excess: int = Field(
        description="How many more came in all than were counted; they can hide a loss of as many."
    )
    sentence: str


class Trace(Model):
    """The capture of one virtual host."""

    vhost: str
    state: TraceStateWord
    participant: PolicyWord
    quiet: list[str] = Field(description="Patterns of traffic that joins no clocks.")
    bodies: bool = Field(description="Whether messages' bodies are stored, and read for links.")
    exchanges: list[str] | None = Field(
        description="The exchanges whose publishes are taken, as names and patterns; `null`: all."
    )
    queues: list[str] | None = Field(
        description="The queues whose deliveries are taken, as names and patterns; `null`: all."
    )
    waiting_for: str | None
    last_error: str | None
    wanted: bool
    created_at: Time
    restarts: int
    counters: Counters
    links: dict[str, LinkCount] = Field(description="By rule; only those that messages used.")
    evidence: Evidence = Field(
        description="What its messages say of their causes, of all participants that have events."
    )
    events: int
    participants: int
    pending_copies: int
    last_event_id: int = Field(description="0 before the first.")
    rate: float
    lag: int | None
    gaps: list[Gap]
    holder: str | None = Field(
        description="The service that runs it, where several may; null where none does."
    )
    sound: bool = Field(description="Whether participants are those who act, as far as is seen.")
    doubts: list[str] = Field(description="Why it is not sound, a sentence each.")
    audit: Audit | None = Field(description="`null` before the trace first runs.")
    remarks: list[str] = Field(
        description="What an operator should know of the trace queue and of the audit, a sentence "
        "each."
    )


class TraceRequest(BaseModel):
    """How to start a trace."""

    model_config = ConfigDict(extra="forbid")

    participant: PolicyWord | None = Field(
        default=None, description="Who counts as a participant; `client` for a new trace."
    )
    quiet: Annotated[list[QuietPattern], Field(max_length=MOST)] | None = Field(
        default=None,
        description="Traffic that joins no clocks, as `exchange:NAME` and `queue:NAME` with `*` "
        "for any characters; Celery's and kombu's control traffic for a new trace.",
    )
    bodies: bool | None = Field(
        default=None,
        description="Whether messages' bodies are stored, and read for links; yes for a new trace. "
        "May be changed while it runs, for what comes from then on.",
    )
    exchanges: TakenPatterns | None = Field(
        default=None,
        description="The exchanges whose publishes are taken: names, or patterns as topics "
        'have them (`*` for one word, `#` for any number, parted by dots). `""` is the default '
        'exchange, `["#"]` all. All too if only `queues` are given; as before without either. '
        "May be changed while it runs.",
    )
    queues: TakenPatterns | None = Field(
        default=None, description="The queues whose deliveries are taken, in the same way."
    )
    later: bool = Field(
        default=False,
        description="Whether exchanges and queues may be named that there are not yet.",
    )
    reset: bool = Field(
        default=False,
        description="Make a checkpoint that cannot be read anew instead, from the stored events. "
        "A gap says what is lost.",
    )


class PruneResult(Model):
    """What was removed, or would be; participants are those that have no events left."""

    vhost: str
    events: int
    participants: int
    dry_run: bool


class Quarantined(Model):
    """A trace message that could not be read."""

    id: int
    vhost: str
    recorded_at: Time
    reason: str
    routing_key: str
    headers: str | None = Field(
        description="What could be shown of its header table, as JSON, cut. `null`, as `body`, for "
        "whom the broker would not hand every message of the virtual host."
    )
    body: str | None
    body_encoding: Encoding
    body_bytes: int
