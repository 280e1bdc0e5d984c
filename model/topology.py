"""Topology: who sent what where, as flows between publishers, exchanges and queues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from model.gaps import Gap
from model.times import Duration, Microseconds


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds between two trace messages; no finer than capture reads its socket."""

    median: Duration
    p90: Duration


@dataclass(frozen=True, slots=True)
class PublishFlow:
    """The messages of a publisher to an exchange."""

    publisher: str
    exchange: str
    messages: int
    unroutable: int


@dataclass(frozen=True, slots=True)
class RouteFlow:
    """The messages of a publisher that an exchange routed to a queue; `null`: not observed."""

    publisher: str | None
    exchange: str
    queue: str
    messages: int
    dead_lettered: int
    unmatched: int


@dataclass(frozen=True, slots=True)
class DeliveryFlow:
    """The flow from a queue to whom it hands messages, and who published them."""

    publisher: str | None
    exchange: str
    queue: str
    receiver: str
    messages: int
    redelivered: int
    dead_lettered: int
    unmatched: int
    seconds: Waits | None


@dataclass(frozen=True, slots=True)
class DeathFlow:
    """The deaths in a queue, and where the messages went; `null` if that is unknown."""

    queue: str | None
    reason: str | None
    exchange: str
    to: str
    messages: int


@dataclass(frozen=True, slots=True)
class ProgramFlow:
    """The publishes of a receiver because of deliveries: the time from these to the publishes."""

    receiver: str
    queue: str
    exchange: str
    messages: int
    seconds: Waits | None


@dataclass(frozen=True, slots=True)
class Topology:
    """The flows of messages in a period, the busiest first."""

    vhost: str
    since: Microseconds
    until: Microseconds
    gaps: Sequence[Gap]
    publishes: list[PublishFlow]
    routes: list[RouteFlow]
    deliveries: list[DeliveryFlow]
    deaths: list[DeathFlow]
    programs: list[ProgramFlow]

    @property
    def complete(self) -> bool:
        """Tell whether no message of its span may be missing."""
        return not self.gaps
