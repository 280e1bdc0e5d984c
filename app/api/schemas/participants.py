"""Who took part in a trace."""

from __future__ import annotations

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
    name: str
    interval: str
    events: int
    lamport: int
    first_event_id: int
    last_event_id: int
    channels: list[Channel]
