"""An event, described once: where each field is stored, how it is shown, what it means.

Everything else comes from this: the tables' columns, the select lists of the service and of Spark,
the API's object and its schema, the columns of tables on the page and in a terminal, the fields of
exports. A new field is a line here, a line in `app.store.capture.rows`, and a migration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter, itemgetter
from types import NoneType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeAlias,
    get_args,
    get_origin,
    get_type_hints,
)

from itc import Stamp, packed_text, unpack
from model.described import INNER
from model.payloads import Encoding, payload_text
from model.times import Microseconds, iso_time
from model.words import Disposition, EventType, Match

Kind: TypeAlias = Literal["number", "text", "flag", "time", "word", "words", "table", "bytes"]


class Storage(NamedTuple):
    """The place where a field is stored: ``column`` is its table and column.

    ``null``: it may be missing. ``bits``: the size of a number. ``large``: read on demand.
    """

    column: str
    null: bool = False
    bits: Literal[32, 64] = 64
    large: bool = False


class Display(NamedTuple):
    """The way a field is shown: its label, and its meaning in a sentence.

    ``usual``: among a table's columns by default. ``width``: of its column in a terminal, 0 for
    none. ``content``: shown only to users to whom the broker would hand the message.
    """

    label: str
    meaning: str
    usual: bool = False
    width: int = 0
    content: bool = False


class Event(NamedTuple):
    """A stored event. Times in µs; large fields are None unless they were asked for.

    ``payload`` is the beginning of the body, None if none is kept; ``payload_sha256`` is that of
    the whole body where the payload is cut.
    """

    id: Annotated[
        int,
        Storage("events.id"),
        Display("Event", "Its id. Ids grow in the order of stamping.", usual=True, width=8),
    ]
    vhost: Annotated[
        str,
        Storage("traces.vhost"),
        Display("Virtual host", "The virtual host it was traced in."),
    ]
    type: Annotated[
        EventType,
        Storage("events.type"),
        Display("Type", "Published, or received.", usual=True, width=9),
    ]
    match: Annotated[
        Match,
        Storage("events.match"),
        Display("Match", "How a received event found its cause.", usual=True, width=13),
    ]
    cause: Annotated[
        int | None,
        Storage("events.cause_id", null=True),
        Display("Cause", "The publish that was received.", usual=True, width=8),
    ]
    candidates: Annotated[
        int | None,
        Storage("events.candidates", null=True, bits=32),
        Display(
            "Candidates",
            "How many equal messages it may be; then its cause is not certain, and `null`.",
        ),
    ]
    doubtful: Annotated[
        bool,
        Storage("events.doubtful"),
        Display(
            "Doubtful",
            "What led to it is not known, or not all of it: it may be an effect of anything.",
        ),
    ]
    participant: Annotated[
        int,
        Storage("events.participant", bits=32),
        Display("Number", "Who acted: the participant's number within the trace."),
    ]
    participant_name: Annotated[
        str,
        Storage("participants.name"),
        Display("Participant", "Who acted: client, user and place.", usual=True, width=24),
    ]
    seq: Annotated[
        int,
        Storage("events.seq"),
        Display("Seq", "Its place among the participant's events, from 1."),
    ]
    lamport: Annotated[
        int,
        Storage("events.lamport"),
        Display("Lamport", "Its Lamport time.", usual=True),
    ]
    recorded_at: Annotated[
        Microseconds,
        Storage("events.recorded_at"),
        Display("Time", "When its trace message reached the service.", usual=True, width=27),
    ]
    exchange: Annotated[
        str,
        Storage("events.exchange"),
        Display("Exchange", "The exchange; empty for the default one.", usual=True, width=20),
    ]
    queue: Annotated[
        str | None,
        Storage("events.queue", null=True),
        Display("Queue", "The queue it was received from.", usual=True, width=20),
    ]
    routing_keys: Annotated[
        tuple[str, ...],
        Storage("events.routing_keys"),
        Display("Routing keys", "The routing key, and those in CC and BCC.", usual=True, width=24),
    ]
    routed_queues: Annotated[
        tuple[str, ...] | None,
        Storage("events.routed_queues", null=True),
        Display("Routed queues", "The queues that a publish was routed to."),
    ]
    redelivered: Annotated[
        bool,
        Storage("events.redelivered"),
        Display("Redelivered", "The broker's own flag: handed over before."),
    ]
    quiet: Annotated[
        bool,
        Storage("events.quiet"),
        Display("Quiet", "Of quiet traffic: matched, and never joined into clocks."),
    ]
    settlement: Annotated[
        Disposition | None,
        Storage("events.settlement", null=True),
        Display(
            "Settlement",
            "What became of a received event at its consumer; `null` where it is not known, as it "
            "is without the broker plugin.",
            width=12,
        ),
    ]
    settled_at: Annotated[
        Microseconds | None,
        Storage("events.settled_at", null=True),
        Display("Settled", "When, by the clock of the broker's node; `null` while in hand."),
    ]
    node: Annotated[str, Storage("channels.node"), Display("Node", "The broker's node.")]
    connection: Annotated[
        str, Storage("channels.connection"), Display("Connection", "The broker's name for it.")
    ]
    channel: Annotated[
        int, Storage("channels.channel", bits=32), Display("Channel", "The AMQP channel's number.")
    ]
    user: Annotated[
        str, Storage("channels.user"), Display("User", "The broker's user.", usual=True)
    ]
    properties: Annotated[
        dict[str, Any] | None,
        Storage("events.properties", large=True),
        Display("Properties", "The message's properties, headers among them.", content=True),
    ]
    payload: Annotated[
        bytes | None,
        Storage("events.payload", null=True, large=True),
        Display("Payload", "The body's beginning, as text.", content=True),
    ]
    payload_bytes: Annotated[
        int,
        Storage("events.payload_bytes"),
        Display("Size", "How many bytes the whole body has.", usual=True),
    ]
    payload_sha256: Annotated[bytes | None, Storage("events.payload_sha256", null=True)]
    redactions: Annotated[
        tuple[str, ...] | None,
        Storage("events.redactions", null=True),
        Display(
            "Redactions",
            "The rules by which values in it were replaced before it was stored, and what was left "
            "out whole; `null` for none.",
        ),
    ]
    trace_id: Annotated[int, Storage("events.trace_id", bits=32)]
    interval: Annotated[str, Storage("participants.interval")]
    height: Annotated[int, Storage("events.height")]
    clock: Annotated[bytes | None, Storage("events.clock", large=True)]

    @property
    def settled_by(self) -> int | None:
        """The number of the participant that settled it."""
        return None if self.settled_at is None else self.participant

    @property
    def payload_truncated(self) -> bool:
        """Tell whether a part of the body is not stored."""
        return self.payload_sha256 is not None

    @property
    def payload_text(self) -> tuple[str | None, Encoding]:
        """The payload as text, and how (`model.payloads`)."""
        return payload_text(self.payload, self.payload_truncated)

    @property
    def stamp(self) -> Stamp:
        """The event's stamp, with the participant's interval as its id."""
        if self.clock is None:
            raise ValueError(f"event {self.id} was read without its clock")
        return unpack(self.clock, self.interval)

    @property
    def stamp_text(self) -> str | None:
        """The stamp in the paper's notation, made without building it; None without the clock.

        A page of 100 events among 1,000 participants took 223 ms of processor time through
        `stamp`, and takes 9.
        """
        return None if self.clock is None else packed_text(self.clock, self.interval)


def partial_event(*names: str) -> Callable[[Iterable[Any]], Event]:
    """The function from these fields' values to an event whose other fields are None.

    For readers that take no more than this from the store: a whole event takes a third longer.
    """
    pick = itemgetter(*(names.index(n) if n in names else -1 for n in Event._fields))
    return lambda values: Event._make(pick((*values, None)))


class Field(NamedTuple):
    """A stored field, as its line in `Event` describes it; ``type`` is that of its value."""

    name: str
    type: Any
    kind: Kind
    stored: Storage
    display: Display | None = None

    @property
    def table(self) -> str:
        """The table that it is stored in."""
        return self.stored.column.partition(".")[0]

    @property
    def column(self) -> str:
        """The name of its column there."""
        return self.stored.column.partition(".")[2]


Large: TypeAlias = frozenset[str]
"""Names of the large fields to read; the other fields are always read."""

NOTHING_LARGE: Large = frozenset()
CLOCK_ALONE: Large = frozenset({"clock"})


class ShownField(NamedTuple):
    """A field of the event object.

    ``value`` takes an event to the field's JSON; ``large`` are the large fields that it is made of.
    """

    name: str
    type: Annotated[Any, INNER]
    kind: Kind
    nullable: Annotated[bool, INNER]
    display: Annotated[Display, INNER]
    value: Annotated[Callable[[Event], Any], INNER]
    large: Annotated[Large, INNER] = NOTHING_LARGE

    @property
    def label(self) -> str:
        """Its heading in a table."""
        return self.display.label

    @property
    def meaning(self) -> str:
        """Its meaning, in a sentence."""
        return self.display.meaning

    @property
    def usual(self) -> bool:
        """Among a table's columns by default."""
        return self.display.usual


_KINDS: dict[Any, Kind] = {
    int: "number",
    str: "text",
    bool: "flag",
    Microseconds: "time",
    EventType: "word",
    Match: "word",
    Disposition: "word",
    tuple: "words",
    dict: "table",
    bytes: "bytes",
}


def _stored_fields() -> Iterator[Field]:
    for name, annotation in get_type_hints(Event, include_extras=True).items():
        type_, stored, *display = get_args(annotation)
        options = get_args(type_) if NoneType in get_args(type_) else (type_,)
        [plain] = [option for option in options if option is not NoneType]
        kind = _KINDS[get_origin(plain) or plain]
        yield Field(name, plain, kind, stored, *display)


FIELDS: tuple[Field, ...] = tuple(_stored_fields())
"""The fields that are read of an event, in the order of `Event`."""

UNREAD: tuple[Field, ...] = (
    Field("channel_key", int, "number", Storage("events.channel", bits=32)),
    Field("fingerprint", bytes, "bytes", Storage("events.fingerprint")),
    Field("ids", bytes, "bytes", Storage("events.ids", null=True)),
    Field("hold", int, "number", Storage("events.hold", null=True)),
)
"""Fields that restore the tracker; ``hold`` also tells what was in hand when."""

ALL_LARGE: Large = frozenset(field.name for field in FIELDS if field.stored.large)

# Derived fields, by the field that they follow.
_DERIVED: dict[str, tuple[ShownField, ...]] = {
    "settled_at": (
        ShownField(
            "settled_by",
            int,
            "number",
            True,
            Display("Settled by", "The participant that it was handed to; by its number."),
            lambda event: event.settled_by,
        ),
    ),
    "payload": (
        ShownField(
            "payload_encoding",
            Encoding,
            "text",
            False,
            Display(
                "Encoding",
                "How the payload is shown: `string`, `base64` if not UTF-8, or `withheld`, as the "
                "properties then are, from a user to whom the broker would not hand the message.",
                content=True,
            ),
            lambda event: event.payload_text[1],
            frozenset({"payload"}),
        ),
    ),
    "payload_bytes": (
        ShownField(
            "payload_truncated",
            bool,
            "flag",
            False,
            Display("Truncated", "Whether a part of the body is not stored."),
            lambda event: event.payload_truncated,
        ),
        ShownField(
            "stamp",
            str,
            "text",
            False,
            Display("Stamp", "Its Interval Tree Clock, in the paper's notation."),
            lambda event: event.stamp_text,
            frozenset({"clock"}),
        ),
    ),
}


def _shown_fields() -> Iterator[ShownField]:
    for field in FIELDS:
        if field.display is not None:
            large = frozenset({field.name}) if field.stored.large else NOTHING_LARGE
            yield ShownField(
                field.name,
                field.type,
                "text" if field.kind == "bytes" else field.kind,
                field.stored.null or field.display.content,
                field.display,
                _value_of(field),
                large,
            )
        yield from _DERIVED.get(field.name, ())


def _value_of(field: Field) -> Callable[[Event], Any]:
    plain = attrgetter(field.name)
    if field.stored.null and field.kind in ("time", "word"):
        whole = _value_of(field._replace(stored=Storage(field.stored.column)))
        return lambda event: None if plain(event) is None else whole(event)
    if field.kind == "time":
        return lambda event: iso_time(plain(event))
    if field.kind == "word":
        return lambda event: plain(event).name
    if field.kind == "bytes":
        return lambda event: event.payload_text[0]
    return plain


EVENT_FIELDS: dict[str, ShownField] = {field.name: field for field in _shown_fields()}
"""The event object that the API and exports show, by name and in its order."""


def _withheld(field: ShownField) -> ShownField:
    replacement = "withheld" if field.type is Encoding else None
    return field._replace(value=lambda event: replacement) if field.display.content else field


WITHOUT_CONTENT: dict[str, ShownField] = {
    name: _withheld(field) for name, field in EVENT_FIELDS.items()
}
"""The same for users to whom the broker would not hand the message."""
