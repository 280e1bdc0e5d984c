"""Who took part in a trace."""

from __future__ import annotations

from pydantic import Field

from app.api.schemas.common import Model


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
    name: str = Field(description="What people read: client, user and place, or an alias.")
    user: str
    place: str | None = Field(description="Where it acts from; null if it may be several places.")
    client: str | None = Field(description="How its client names itself.")
    assumed: bool = Field(
        description="A connection at a shared place without a name, taken for a program."
    )
    key: str = Field(description="What makes it this participant, within its trace.")
    published: int = Field(description="How many publishes it made since the trace began.")
    received: int
    interval: str
    events: int
    lamport: int
    first_event_id: int
    last_event_id: int
    channels: list[Channel]
