"""Who took part in a trace, and an event's vector clock."""

from __future__ import annotations

import msgspec


class ParticipantChannel(msgspec.Struct, frozen=True):
    """A channel that a participant acted through."""

    node: str
    connection: str
    channel: int
    user: str


class Participant(msgspec.Struct, frozen=True):
    """A participant. ``events`` is how many of its events are stored now.

    ``published`` and ``received`` count since the trace began; the fields from ``name`` to ``key``
    are those of `app.tracker.identity`.
    """

    vhost: str
    participant: int
    name: str
    user: str
    place: str | None
    client: str | None
    assumed: bool
    key: str
    published: int
    received: int
    interval: str
    events: int
    lamport: int
    first_event_id: int
    last_event_id: int
    channels: list[ParticipantChannel]


class VectorEntry(msgspec.Struct, frozen=True):
    """How many of a participant's events are at or before an event."""

    participant: int
    name: str
    events: int
