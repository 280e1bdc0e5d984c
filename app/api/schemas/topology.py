"""Topology: who sent what where, as flows between publishers, exchanges and queues."""

from __future__ import annotations

from app.api.schemas.common import Gap, Model, Time


class Waits(Model):
    """Seconds between two trace messages; no finer than capture reads its socket."""

    p50: float
    p95: float
    p99: float


class PublishFlow(Model):
    """Who publishes to which exchange."""

    publisher: str
    exchange: str
    messages: int
    unroutable: int


class RouteFlow(Model):
    """What an exchange sends to a queue."""

    exchange: str
    queue: str
    messages: int
    dead_lettered: int
    unmatched: int


class DeliveryFlow(Model):
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


class DeathFlow(Model):
    """What died in a queue, and where it went; what is null the messages do not say."""

    queue: str | None
    reason: str | None
    exchange: str
    to: str
    messages: int


class ProgramFlow(Model):
    """What a receiver published because of deliveries: the time from these to the publishes."""

    receiver: str
    queue: str
    exchange: str
    messages: int
    seconds: Waits | None


class Topology(Model):
    """Who sent what where in a period, the busiest flows first."""

    vhost: str
    since: Time
    until: Time
    complete: bool
    gaps: list[Gap]
    publishes: list[PublishFlow]
    routes: list[RouteFlow]
    deliveries: list[DeliveryFlow]
    deaths: list[DeathFlow]
    programs: list[ProgramFlow]
