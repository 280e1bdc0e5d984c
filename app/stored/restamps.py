"""Stored events as a restamp reads them, and the stamps that it gives them."""

from __future__ import annotations

from typing import Any

import msgspec

from app.tracker.events import ChannelState, Edge, ParticipantState
from app.tracker.links.names import NO_NAMES, Names
from model.words import WITHOUT_RULE


class StoredLink(msgspec.Struct, frozen=True):
    """A cause of an event: its id, its channel's key, its rule, and `Awareness`."""

    cause: int
    channel_key: int
    rule: str
    kind: int
    way: int

    @property
    def is_act(self) -> bool:
        """Tell whether it comes from no rule: equal messages, or an act of the broker."""
        return self.rule in WITHOUT_RULE


class StoredEvent(msgspec.Struct, frozen=True):
    """The part of an event that its stamp depends on.

    ``cause`` is the publish that it received, ``named`` are its links that stay. The other fields
    are set if links are read again from its message; if it ``is_cut``, the body's end is not
    stored. An `Event` is made in 4 times the time.
    """

    id: int
    channel_key: int
    recorded_at: int
    exchange: str
    queue: str | None
    routed_queues: tuple[str, ...]
    cause: int | None
    quiet: bool
    named: tuple[StoredLink, ...] = ()
    routing_keys: tuple[str, ...] = ()
    properties: dict[str, Any] = {}
    body: bytes = b""
    is_cut: bool = False

    @property
    def joins(self) -> tuple[int, ...]:
        """Its causes, beside its participant's last event."""
        named = tuple(link.cause for link in self.named)
        return named if self.cause is None else (self.cause, *named)


class NewStamp(msgspec.Struct, frozen=True):
    """An event's new stamp; participants are numbered from 1 until the end.

    ``names`` and ``edges`` are its message's, if that was read again; ``ways`` are links that stay
    with another `Awareness`, and all links of spans.
    """

    event_id: int
    participant: int
    seq: int
    lamport: int
    height: int
    clock: bytes
    quiet: bool
    names: Names = NO_NAMES
    edges: tuple[Edge, ...] = ()
    ways: tuple[StoredLink, ...] = ()


class RestampResult(msgspec.Struct, frozen=True):
    """The replacement of a trace's old stamps.

    ``offset`` is added to the numbers of the new stamps' participants. ``state`` is the
    checkpoint's, if there is one. ``participants`` come with the ids of their first event, which
    may be gone by now, and of their last; ``channels`` are by their stored keys, without a last
    event where only the channel acts.
    """

    offset: int
    state: bytes | None
    participants: list[tuple[ParticipantState, int, int]]
    channels: list[ChannelState]


class Incarnation(msgspec.Struct, frozen=True):
    """One of a name's successive connections: its start (µs), user and client."""

    opened_at: int
    user: str
    client: str | None
