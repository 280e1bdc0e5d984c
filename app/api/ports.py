"""What the routes need from the rest of the service, as protocols.

``app.main`` hands in the real parts, tests hand in fakes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class BrokerUser(Protocol):
    """Who the broker says some credentials belong to."""

    @property
    def name(self) -> str: ...
    @property
    def tags(self) -> frozenset[str]: ...


class BrokerUsers(Protocol):
    """The broker's word on its users (`app.broker.management.ManagementApi`)."""

    async def whoami(self, authorization: bytes) -> BrokerUser:
        """Whose credentials these are; `NotAuthenticatedError`, `NotAuthorisedError`,
        `OutageError`.
        """
        ...

    async def visible_vhosts(self, authorization: bytes) -> frozenset[str]:
        """Virtual hosts that the broker shows to these credentials."""
        ...

    async def vhosts(self) -> frozenset[str]:
        """Virtual hosts that the service's own account sees."""
        ...


class Counters(Protocol):
    """Events of a trace since it was made, by kind."""

    @property
    def published(self) -> int: ...
    @property
    def received(self) -> int: ...
    @property
    def unmatched(self) -> int: ...
    @property
    def redelivered(self) -> int: ...
    @property
    def dead_lettered(self) -> int: ...
    @property
    def quarantined(self) -> int: ...
    @property
    def copies_dropped(self) -> int: ...


class Gap(Protocol):
    """A span in which trace messages may have been lost. Times are microseconds, UTC."""

    @property
    def id(self) -> int: ...
    @property
    def after_event_id(self) -> int: ...
    @property
    def since(self) -> int: ...
    @property
    def until(self) -> int | None: ...
    @property
    def reason(self) -> str: ...


class TraceStatus(Protocol):
    """The state of one trace: the fields of ``docs/api.md``. Times are microseconds, UTC."""

    @property
    def vhost(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def participant(self) -> str: ...
    @property
    def waiting_for(self) -> str | None: ...
    @property
    def last_error(self) -> str | None: ...
    @property
    def wanted(self) -> bool: ...
    @property
    def created_at(self) -> int: ...
    @property
    def restarts(self) -> int: ...
    @property
    def counters(self) -> Counters: ...
    @property
    def events(self) -> int: ...
    @property
    def participants(self) -> int: ...
    @property
    def pending_copies(self) -> int: ...
    @property
    def last_event_id(self) -> int: ...
    @property
    def rate(self) -> float: ...
    @property
    def lag(self) -> int | None: ...
    @property
    def gaps(self) -> Sequence[Gap]: ...


class Watermark(Protocol):
    """The newest stored event's id, and a way to wait for a newer one."""

    @property
    def latest(self) -> int:
        """Every event up to this id is stored; 0 where there is none."""
        ...

    async def beyond(self, event_id: int) -> int:
        """Wait until ``latest`` is greater than ``event_id``; gives it. Safe to cancel."""
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

    async def status(self, vhost: str) -> TraceStatus:
        """One trace; raises `NotFoundError`."""
        ...

    async def statuses(self) -> Sequence[TraceStatus]:
        """Every trace, stopped ones too, by virtual host."""
        ...

    def subscribe(self) -> Watermark:
        """The live tail's signal, over all virtual hosts."""
        ...
