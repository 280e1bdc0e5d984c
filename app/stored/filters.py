"""Which events are asked for."""

from __future__ import annotations

import msgspec

from model.words import EventType, Match

CONVERSATION = "conversation"
HEADER = "header."
"""What the fields of `EventFilter.named` for a header's value begin with."""


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What an event must be; a field that is None asks for nothing.

    ``vhosts`` are those that the caller may see. ``channel`` is the AMQP channel's number,
    ``participant`` the number within its trace. Times in µs: from ``since`` on, before ``until``.
    ``routing_key`` asks for one of the event's keys, ``q`` for a part of the exchange's or the
    queue's name, of a routing key or of the stored payload. With ``use_regex`` exchange, queue,
    connection, user, participant_name and routing_key are regular expressions (RE2's), found
    anywhere in the name. ``message_id``, ``correlation_id`` and the values of ``headers`` (name,
    value) are the message's, whole; ``conversation`` is a value that it shares with what belongs
    together, such as a trace id.
    """

    vhosts: frozenset[str] | None = None
    vhost: str | None = None
    type: EventType | None = None
    match: Match | None = None
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
    message_id: str | None = None
    correlation_id: str | None = None
    conversation: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    use_regex: bool = False

    @property
    def names_traces_alone(self) -> bool:
        """Whether every event of the virtual hosts it names is asked for."""
        return self == EventFilter(vhosts=self.vhosts, vhost=self.vhost, use_regex=self.use_regex)

    @property
    def is_of_times_alone(self) -> bool:
        """As `names_traces_alone`, whatever the times."""
        return msgspec.structs.replace(self, since=None, until=None).names_traces_alone

    @property
    def asks_content(self) -> bool:
        """Whether it depends on what messages hold, so that its answers tell of it."""
        return bool(self.q or self.named)

    @property
    def named(self) -> list[tuple[str, str]]:
        """What it asks of a message's own names, as (field, value)."""
        plain = {
            "message_id": self.message_id,
            "correlation_id": self.correlation_id,
            CONVERSATION: self.conversation,
        }
        found = [(field, value) for field, value in plain.items() if value is not None]
        return found + [(f"{HEADER}{name}", value) for name, value in self.headers]

    @property
    def visible(self) -> frozenset[str] | None:
        """The virtual hosts that it lets through; None for all."""
        if self.vhost is None:
            return self.vhosts
        only = frozenset({self.vhost})
        return only if self.vhosts is None else only & self.vhosts
