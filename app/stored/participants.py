"""Who took part in a trace, and an event's vector clock."""

from __future__ import annotations

from typing import Annotated

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
    """Where on the broker a participant was seen."""

    node: str
    connection: str
    channel: int
    user: str


class Participant(msgspec.Struct, frozen=True):
    """A participant: it owns one interval of the ITC id space.

    The fields from ``name`` to ``key`` are those of `app.tracker.identity`.
    """

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
    evidence: Annotated[Evidence, "What its messages say of their causes."]
    connections: Annotated[int, "How many connections `channels` are on."]
    programs: Annotated[
        int, "How many processes these connections' clients named; 0 if none is known."
    ]
    note: Annotated[str | None, "What to know of it, in a sentence."]
    channels: list[ParticipantChannel]


class VectorEntry(msgspec.Struct, frozen=True):
    """How many of a participant's events are at or before an event."""

    participant: int
    name: str
    events: int
