"""What the routes need from the rest of the service, as protocols.

``app.main`` hands in the real parts, tests hand in fakes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from app.traces.feed import Feed
from app.traces.retention import Pruned
from app.traces.status import TraceStatus


class BrokerUser(Protocol):
    """Who the broker says some credentials belong to."""

    @property
    def name(self) -> str:
        """The user's name."""
        ...

    @property
    def tags(self) -> frozenset[str]:
        """The user's tags: monitoring, administrator…"""
        ...


class BrokerUsers(Protocol):
    """The broker's word on its users (`app.broker.management.ManagementApi`)."""

    async def whoami(self, authorization: bytes) -> BrokerUser:
        """Whose credentials these are.

        Raises `NotAuthenticatedError`, `NotAuthorisedError`, `OutageError`.
        """
        ...

    async def visible_vhosts(self, authorization: bytes) -> frozenset[str]:
        """Virtual hosts that the broker shows to these credentials."""
        ...

    async def vhosts(self) -> frozenset[str]:
        """Virtual hosts that the service's own account sees."""
        ...


class TraceRegistry(Protocol):
    """The traces of all virtual hosts (`app.traces`)."""

    async def start(self, vhost: str, policy: str | None) -> bool:
        """Start a trace; True where it is new or was stopped, False where it runs.

        Raises `NotFoundError` for a virtual host that the broker does not have,
        `ConflictError` for another policy than the stored events have, `OutageError`.
        """
        ...

    async def stop(self, vhost: str) -> None:
        """Stop a trace; its events stay. Raises `NotFoundError` where there never was one."""
        ...

    async def prune(
        self,
        vhost: str,
        *,
        keep_events: int | None = None,
        keep_seconds: float | None = None,
        through: int | None = None,
        dry_run: bool = False,
    ) -> Pruned:
        """Remove all events of a trace but the newest, or say how many would go.

        Nothing goes whose id is above ``through``. Without a bound the service's own retention
        counts. Raises `BadRequestError` where there is none either, `NotFoundError` where there
        never was such a trace.
        """
        ...

    async def status(self, vhost: str) -> TraceStatus:
        """One trace; raises `NotFoundError`."""
        ...

    async def statuses(self) -> Sequence[TraceStatus]:
        """Every trace, stopped ones too, by virtual host."""
        ...

    def subscribe(self) -> Feed:
        """The live tail's signal, over all virtual hosts."""
        ...
