"""Topology: who sent what where, as flows between publishers, exchanges and queues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from model.gaps import Gap
from model.times import Duration, Microseconds


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds between two trace messages; no finer than capture reads its socket."""

    p50: Duration
    p95: Duration
    p99: Duration


@dataclass(frozen=True, slots=True)
class PublishFlow:
    """Who publishes to which exchange."""

    publisher: str
    exchange: str
    messages: int
    unroutable: int


@dataclass(frozen=True, slots=True)
class RouteFlow:
    """What an exchange sends to a queue."""

    exchange: str
    queue: str
    messages: int
    dead_lettered: int
    unmatched: int


@dataclass(frozen=True, slots=True)
class DeliveryFlow:
    """What a queue hands to whom, and who published it."""

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
    """What died in a queue, and where it went; what is null the messages do not say."""

    queue: str | None
    reason: str | None
    exchange: str
    to: str
    messages: int


@dataclass(frozen=True, slots=True)
class ProgramFlow:
    """What a receiver published because of deliveries: the time from these to the publishes."""

    receiver: str
    queue: str
    exchange: str
    messages: int
    seconds: Waits | None


@dataclass(frozen=True, slots=True)
class Topology:
    """Who sent what where in a period, the busiest flows first."""

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
        """Whether no message of its span may be missing."""
        return not self.gaps
