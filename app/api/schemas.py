"""What goes over the wire, as pydantic models: the OpenAPI document is made of these.

Field names are the interface; ``docs/api.md`` shows each object with an example.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema


def iso_time(microseconds: int) -> str:
    """Microseconds since the epoch as ISO 8601, UTC, always with six decimals."""
    time = datetime.fromtimestamp(microseconds // 1_000_000, UTC).replace(
        microsecond=microseconds % 1_000_000
    )
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _to_iso(value: object) -> object:
    return iso_time(value) if isinstance(value, int) else value


Time = Annotated[
    str, BeforeValidator(_to_iso), WithJsonSchema({"type": "string", "format": "date-time"})
]
EventId = Annotated[int, Field(ge=1, le=2**63 - 1)]
Tree = Annotated[
    Any,
    WithJsonSchema(
        {
            "description": "The paper's tree as nested arrays: an id is 0, 1 or [left, right], "
            "an event a count or [count, left, right].",
            "anyOf": [{"type": "integer"}, {"type": "array"}],
        }
    ),
]


class Model(BaseModel):
    """What all have in common: made from the service's own values by attribute."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


class Problem(Model):
    """An error."""

    error: str = Field(description="A word for programs.")
    reason: str = Field(description="A sentence for people.")


class Gap(Model):
    """A span that may lack events: behind one event, before another (null while it lasts)."""

    id: int
    after_event_id: int
    before_event_id: int | None
    since: Time
    until: Time | None
    reason: str


class Counters(Model):
    """Events of a trace since it was made, by kind."""

    published: int
    received: int
    unmatched: int
    redelivered: int
    dead_lettered: int
    quarantined: int
    copies_dropped: int


TraceState = Literal["starting", "running", "waiting", "stopping", "stopped", "failed"]
Participant = Literal["channel", "connection", "user"]


class Trace(Model):
    """The capture of one virtual host."""

    vhost: str
    state: TraceState
    participant: Participant
    waiting_for: str | None
    last_error: str | None
    wanted: bool
    created_at: Time
    restarts: int
    counters: Counters
    events: int
    participants: int
    pending_copies: int
    last_event_id: int = Field(description="0 before the first.")
    rate: float
    lag: int | None
    gaps: list[Gap]


class TraceRequest(BaseModel):
    """How to start a trace."""

    model_config = ConfigDict(extra="forbid")

    participant: Participant | None = Field(
        default=None, description="Who counts as a participant; `channel` for a new trace."
    )


class PruneResult(Model):
    """What was removed, or would be; participants are those all of whose events go."""

    vhost: str
    events: int
    participants: int
    dry_run: bool


class Channel(Model):
    """Where on the broker a participant was seen."""

    node: str
    connection: str
    channel: int
    user: str


class ParticipantInfo(Model):
    """A participant: it owns one interval of the ITC id space."""

    vhost: str
    participant: int
    name: str
    interval: str
    events: int
    lamport: int
    first_event_id: int
    last_event_id: int
    channels: list[Channel]


class Quarantined(Model):
    """A trace message that could not be read."""

    id: int
    vhost: str
    recorded_at: Time
    reason: str
    routing_key: str
    headers: str = Field(description="What could be shown of its header table, as JSON, cut.")
    body: str
    body_encoding: Literal["string", "base64"]
    body_bytes: int


class Whoami(Model):
    """The signed-in user."""

    name: str
    tags: list[str]
    vhosts: list[str]
    may_write: bool


EventType = Literal["published", "received"]
MatchKind = Literal["none", "routed", "redelivered", "dead_lettered", "unmatched"]


class Event(Model):
    """A stored, stamped occurrence."""

    id: int
    vhost: str
    type: EventType
    match: MatchKind
    cause: int | None
    participant: int
    seq: int
    lamport: int
    recorded_at: Time
    exchange: str
    queue: str | None
    routing_keys: list[str]
    routed_queues: list[str] | None
    redelivered: bool
    node: str
    connection: str
    channel: int
    user: str
    properties: dict[str, Any]
    payload: str | None
    payload_encoding: Literal["string", "base64"]
    payload_bytes: int
    payload_truncated: bool
    stamp: str


class VectorEntry(Model):
    """How many events of a participant are at or before the event."""

    participant: int
    name: str
    events: int


class ItcClock(Model):
    """The stamp in each form: the paper's text, its trees, its bit code."""

    text: str
    id: Tree
    event: Tree
    code: str = Field(description="Hexadecimal.")


class Clocks(Model):
    """The three clocks of one event."""

    lamport: int
    vector: list[VectorEntry]
    itc: ItcClock


class EventDetail(Event):
    """One event with its clocks."""

    clocks: Clocks


class EventColumns(Event):
    """An event of which only some columns were asked for."""

    model_config = ConfigDict(
        json_schema_extra=lambda schema: schema.pop("required", None),
    )


class EventPage(Model):
    """RabbitMQ's page envelope."""

    total_count: int
    item_count: int
    filtered_count: int
    page: int
    page_size: int
    page_count: int
    items: list[Event] | list[EventColumns]


class EventWalk(Model):
    """Causes or effects of an event, nearest first."""

    event: int
    items: list[Event] | list[EventColumns]
    truncated: bool


class QueueFate(Model):
    """What became of the copy that one queue got."""

    queue: str
    state: Literal["handed_over", "waiting", "dead_lettered"]
    deliveries: list[Event] | list[EventColumns]
    dead_letters: list[Event] | list[EventColumns]
    dead_lettered_to: list[str]


class Deliveries(Model):
    """A publish's fate, queue by queue."""

    event: int
    routed_queues: int
    handed_over: int
    sentence: str
    queues: list[QueueFate]


RelationWord = Literal["before", "after", "equal", "concurrent"]


class Comparison(Model):
    """How two events stand to each other."""

    a: int
    b: int
    vhost: str
    relation: RelationWord
    sentence: str
    complete: bool
    gaps: list[Gap]


class Plan(BaseModel):
    """How a chain was found."""

    model_config = ConfigDict(extra="allow")

    form: str
    reason: str


class ChainSummary(BaseModel):
    """The answer of a chain job."""

    model_config = ConfigDict(populate_by_name=True, extra="allow")

    job: int
    vhost: str
    from_: int = Field(alias="from")
    to: int
    relation: RelationWord
    file: str | None
    location: str | None
    format: str | None
    events: int
    participants: int
    bytes: int
    sha256: str | None
    complete: bool
    gaps: list[Gap]
    plan: Plan | None
    seconds: dict[str, float]


class Waits(Model):
    """Seconds from publish to first delivery, as seen at the tap."""

    p50: float
    p95: float
    p99: float


class PublishFlow(Model):
    """Who publishes to which exchange."""

    publisher: str
    exchange: str
    messages: int
    unroutable: int


class RouteFlow(Model):
    """What an exchange sends to a queue."""

    exchange: str
    queue: str
    messages: int
    dead_lettered: int
    unmatched: int


class DeliveryFlow(Model):
    """What a queue hands to whom, and whose it was."""

    publisher: str | None
    exchange: str
    queue: str
    receiver: str
    messages: int
    redelivered: int
    dead_lettered: int
    unmatched: int
    seconds: Waits | None


class Topology(Model):
    """Who sent what where in a time, the busiest flows first."""

    vhost: str
    since: Time
    until: Time
    complete: bool
    gaps: list[Gap]
    publishes: list[PublishFlow]
    routes: list[RouteFlow]
    deliveries: list[DeliveryFlow]


class ArchiveSummary(Model):
    """What a job has archived, and up to which event everything is."""

    job: int
    vhost: str
    through: int
    events: int
    files: int
    bytes: int


class Archive(Model):
    """What of a virtual host is archived: every event up to ``through``, recorded at ``until``."""

    vhost: str
    through: int
    until: Time
    events: int
    files: int
    bytes: int


JobState = Literal["queued", "running", "succeeded", "failed", "cancelled"]


class Job(Model):
    """A job of the service."""

    id: int
    kind: Literal["chain", "archive", "topology"]
    state: JobState
    stage: str | None
    percent: float
    vhost: str
    rows_read: int
    rows_written: int
    created_at: Time
    started_at: Time | None
    finished_at: Time | None
    request: dict[str, Any]
    result: dict[str, Any] | None
    error: str | None


class Export(BaseModel):
    """A file that a chain job wrote."""

    model_config = ConfigDict(populate_by_name=True)

    from_: int = Field(alias="from")
    to: int
    file: str
    location: str
    vhost: str
    bytes: int
    created_at: Time
    events: int


class Format(Model):
    """A form that an export can have."""

    extension: str
    media_type: str
    title: str


Condition = Literal["ok", "unavailable"]


class Health(Model):
    """A probe's answer."""

    status: Condition
    checks: dict[str, Condition]
