"""The parts that routes work with, as one value that the application carries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import msgspec
from fastapi import Depends, Request

from app.api.answers import ByteBudget
from app.api.otlp.intake import Intake
from app.api.readiness import Readiness
from app.api.searching import Searches
from app.api.signin.auth import Authenticator
from app.api.streams import Subscribers
from app.api.tail import Tail
from app.collector.following import Following
from app.jobs.manager import JobManager
from app.jobs.opening import Folders
from app.restamp.replay import Replay
from app.settings import Settings
from app.stored.capture import Trace
from app.stored.exporting import SentSpans
from app.traces.registry import TraceRegistry
from app.tracker.links import BUILT_IN, Rule, TraceRule, of_all

if TYPE_CHECKING:
    from app.broker.management import ManagementApi
    from app.store.store import Store


# The shortest time between two checks of a reader's rights: a setting below it must not become a
# busy loop.
LEAST_LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class ServiceParts:
    """Everything that `app.main` puts together for the routes.

    ``connections`` says whether the broker announces connections. ``budget`` bounds the bytes of
    large answers in memory. ``lengths`` asks queues of a virtual host how many messages are ready.
    ``spans`` takes OpenTelemetry's, and ``following`` has them sent; None if it is off.
    ``link_rules`` hold
    in all virtual hosts; ``previews`` reads a trace's stored messages by other rules. ``stopping``
    is set when the service is asked to stop: streams end then, so that nobody waits for them.
    """

    settings: Settings
    authenticator: Authenticator
    broker: ManagementApi
    lengths: Callable[[str, Collection[str]], Awaitable[Mapping[str, int]]]
    traces: TraceRegistry
    connections: Callable[[], bool]
    store: Store
    searches: Searches
    budget: ByteBudget
    tail: Tail
    subscribers: Subscribers
    jobs: JobManager
    folders: Folders
    readiness: Readiness
    previews: Callable[[Trace, Sequence[Rule]], Replay]
    link_rules: Sequence[TraceRule] = of_all(BUILT_IN)
    spans: Intake | None = None
    following: Following | None = None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def look_seconds(self) -> float:
        """The time between two checks of the rights of somebody who reads on."""
        return max(self.settings.auth_cache_seconds, LEAST_LOOK_SECONDS)


async def sent_spans(parts: ServiceParts) -> list[SentSpans]:
    """The progress of spans that are sent as events come; empty where that is off."""
    if parts.following is None:
        return []
    waits_for = parts.following.waits_for
    states = await parts.store.span_exports.states()
    return [msgspec.structs.replace(state, waits_for=waits_for) for state in states]


async def _services(request: Request) -> ServiceParts:
    services: ServiceParts = request.app.state.services
    return services


Parts = Annotated[ServiceParts, Depends(_services)]
