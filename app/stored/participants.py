"""Who took part in a trace, and an event's vector clock."""

from __future__ import annotations

import msgspec

from model.sound import Evidence

LONGEST_ALIAS = 100  # characters


def check_alias(alias: str) -> str:
    """An alias without white space around it; raises `ValueError`."""
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
    """A channel that a participant acted through."""

    node: str
    connection: str
    channel: int
    user: str


class Participant(msgspec.Struct, frozen=True):
    """A participant. ``events`` is how many of its events are stored now.

    ``published`` and ``received`` count since the trace began; the fields from ``name`` to ``key``
    are those of `app.tracker.identity`. ``connections`` is how many ``channels`` are on,
    ``programs`` how many process ids the clients on these named. ``evidence`` is what its messages
    say of their causes.
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
    evidence: Evidence
    connections: int
    programs: int
    note: str | None
    channels: list[ParticipantChannel]


class VectorEntry(msgspec.Struct, frozen=True):
    """How many of a participant's events are at or before an event."""

    participant: int
    name: str
    events: int
