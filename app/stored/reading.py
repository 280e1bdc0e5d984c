"""Filters on events, and answers: pages, periods, participants."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import msgspec

from model.described import INNER
from model.event import Event
from model.gaps import Gap
from model.sound import Evidence
from model.times import LATEST, Duration, Microseconds
from model.words import Disposition, EventType, Match

CONVERSATION = "conversation"
HEADER = "header."
"""The prefix of a header's name in `EventFilter.message_names`."""


class VhostFilter(msgspec.Struct, frozen=True, kw_only=True):
    """A condition on virtual hosts; ``vhosts`` are those that the caller may see, None for all."""

    vhosts: frozenset[str] | None = None
    vhost: str | None = None

    @property
    def visible(self) -> frozenset[str] | None:
        """The virtual hosts that it lets through; None for all."""
        if self.vhost is None:
            return self.vhosts
        single = frozenset({self.vhost})
        return single if self.vhosts is None else single & self.vhosts


class EventFilter(VhostFilter, frozen=True, kw_only=True):
    """Conditions on an event; None is no condition.

    ``channel`` is the AMQP channel's number, ``participant`` the number within its trace. Times in
    µs: from ``since`` on, before ``until``. ``routing_key`` is one of the event's keys, ``q`` a
    part of the exchange's or the queue's name, of a routing key or of the stored payload, or
    ``in_properties``. With ``use_regex`` exchange, queue, connection, user, participant_name and
    routing_key are regular expressions (RE2's), found anywhere in the name. ``message_id``,
    ``correlation_id`` and the values of ``headers`` (name, value) are whole; ``conversation`` is a
    value that a conversation's messages share, such as a trace id.
    """

    type: EventType | None = None
    match: Match | None = None
    settlement: Disposition | None = None
    exchange: str | None = None
    queue: str | None = None
    connection: str | None = None
    channel: int | None = None
    user: str | None = None
    routing_key: str | None = None
    participant: int | None = None
    participant_name: str | None = None
    redelivered: bool | None = None
    since: int | None = None
    until: int | None = None
    q: str | None = None
    in_properties: bool = False
    message_id: str | None = None
    correlation_id: str | None = None
    conversation: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    use_regex: bool = False

    @property
    def names_traces_alone(self) -> bool:
        """Tell whether it has no conditions but on virtual hosts."""
        return self == EventFilter(vhosts=self.vhosts, vhost=self.vhost, use_regex=self.use_regex)

    @property
    def is_of_times_alone(self) -> bool:
        """Tell whether it has no conditions but on virtual hosts and times."""
        return msgspec.structs.replace(self, since=None, until=None).names_traces_alone

    @property
    def asks_content(self) -> bool:
        """Tell whether it depends on messages' content, so that answers reveal some of it."""
        return bool(self.q or self.message_names)

    @property
    def message_names(self) -> list[tuple[str, str]]:
        """The conditions on a message's own names, as (field, value)."""
        plain = {
            "message_id": self.message_id,
            "correlation_id": self.correlation_id,
            CONVERSATION: self.conversation,
        }
        names = [(field, value) for field, value in plain.items() if value is not None]
        return names + [(f"{HEADER}{name}", value) for name, value in self.headers]


# From this position on, a page is located by arithmetic if possible, else by counting rows: at
# 2,500,000, counting takes three times as long as the rest of the answer.
DEEP = 1_000
# Lists with a filter, deep pages and long walks at a time; each has a connection to the database.
SEARCHES = 4


class Sort(enum.StrEnum):
    """The order of a page; equal events are ordered by id."""

    id = "id"
    recorded_at = "recorded_at"
    lamport = "lamport"


class EventList(msgspec.Struct, frozen=True):
    """Events in order.

    Those in ``heavy``, with the bytes of their large fields, come without these, to be read some at
    a time. ``truncated``: a walk has more.
    """

    items: list[Event]
    heavy: dict[int, int] = {}
    truncated: bool = False


def shares(ids: Sequence[int], sizes: Mapping[int, int], limit: int) -> Iterator[list[int]]:
    """Ids in order, in groups of at most ``limit`` bytes; at least one in each."""
    share: list[int] = []
    size = 0
    for event_id in ids:
        if share and size + sizes[event_id] > limit:
            yield share
            share, size = [], 0
        share.append(event_id)
        size += sizes[event_id]
    if share:
        yield share


class EventPage(msgspec.Struct, frozen=True):
    """RabbitMQ's page envelope; ``heavy`` is that of `EventList`."""

    items: Annotated[list[Event], INNER]
    total_count: Annotated[int, "Of all events of the virtual hosts that the filter leaves."]
    filtered_count: int
    page: int
    page_size: int
    heavy: Annotated[dict[int, int], INNER] = {}

    @property
    def item_count(self) -> int:
        """The number of events on this page."""
        return len(self.items)

    @property
    def page_count(self) -> int:
        """The number of pages, at least one."""
        return max(1, math.ceil(self.filtered_count / self.page_size))


def is_quick(criteria: EventFilter, sort: Sort = Sort.id, offset: int = 0) -> bool:
    """Tell whether an index gives the answer directly."""
    return criteria.names_traces_alone and sort is Sort.id and offset < DEEP


class Bucket(msgspec.Struct, frozen=True):
    """One part of a period."""

    at: Annotated[Microseconds, "When it begins."]
    events: Annotated[int | None, "`null`: they were not counted."] = None
    published: Annotated[int | None, "`null` where `events` is an estimate, as the next."] = None
    received: int | None = None
    unmatched: int | None = None


class Histogram(msgspec.Struct, frozen=True):
    """Events over time."""

    since: Annotated[Microseconds | None, "When the first bucket begins; `null` without events."]
    width: Annotated[Duration, "How long each bucket is."] = msgspec.field(name="seconds")
    buckets: list[Bucket]
    counted_since: Annotated[
        Microseconds | None,
        "Events before were not looked at one by one: what is said of them is an estimate, or "
        "`null`. `null` if all were.",
    ] = None

    @property
    def until(self) -> Microseconds | None:
        """The end of the last bucket."""
        if self.since is None:
            return None
        return min(Microseconds(self.since + len(self.buckets) * self.width), LATEST)

    @property
    def events(self) -> int:
        """The sum over all buckets."""
        return sum(bucket.events or 0 for bucket in self.buckets)


NO_EVENTS = Histogram(None, Duration(0), [])


class TracePeriod(msgspec.Struct, frozen=True):
    """A trace's record of a period. Times in µs.

    ``gaps`` are its newest gaps, oldest first. ``oldest_at`` is when the trace's oldest event was
    recorded, in the period or not.
    """

    first: Annotated[int | None, "The first event in it; `null` if there is none."] = msgspec.field(
        name="first_event"
    )
    last: int | None = msgspec.field(name="last_event")
    gaps: Annotated[list[Gap], INNER]
    gap_count: Annotated[int, "How many gaps there are; `gaps` are the newest of them."]
    oldest_at: Annotated[Microseconds | None, INNER]


LONGEST_ALIAS = 100  # characters


def check_alias(alias: str) -> str:
    """A valid alias, stripped; raises `ValueError`."""
    alias = alias.strip()
    if not alias:
        raise ValueError("an alias has at least one character")
    if len(alias) > LONGEST_ALIAS:
        raise ValueError(f"an alias has at most {LONGEST_ALIAS} characters, not {len(alias)}")
    if not alias.isprintable():
        raise ValueError("an alias has no control characters, nor any that cannot be seen")
    if alias.isdigit():
        raise ValueError("an alias of digits alone would be taken for a participant's number")
    return alias


class ParticipantChannel(msgspec.Struct, frozen=True):
    """A channel on which a participant was seen."""

    node: str
    connection: str
    channel: int
    user: str


class Participant(msgspec.Struct, frozen=True):
    """A participant (`app.tracker.identity`): it owns one interval of the ITC id space."""

    vhost: str
    participant: int
    name: Annotated[str, "What people read: client, user and place, or an alias."]
    user: str
    place: Annotated[str | None, "Where it acts from; null if it may be several places."]
    client: Annotated[str | None, "How its client names itself."]
    assumed: Annotated[bool, "Connections at a shared place without a name, or one of too many."]
    key: Annotated[str, "What makes it this participant, within its trace."]
    published: Annotated[int, "How many publishes it made since the trace began."]
    received: int
    interval: str
    events: Annotated[int, "How many of its events are stored now."]
    lamport: int
    first_event_id: int
    last_event_id: int
    last_event_at: Annotated[Microseconds, "When that event was recorded."]
    evidence: Annotated[Evidence, "What its messages say of their causes."]
    connections: Annotated[int, "How many connections `channels` are on."]
    programs: Annotated[
        int, "How many processes these connections' clients named; 0 if none is known."
    ]
    note: Annotated[str | None, "What to know of it, in a sentence."]
    channels: list[ParticipantChannel]


class VectorEntry(msgspec.Struct, frozen=True):
    """The number of a participant's events that are at or before an event."""

    participant: int
    name: str
    events: int
