"""The services on one database: each says every few seconds that it lives.

A service holds its traces for as long as it is heard of. So one row a service is renewed, not one a
trace: a trace's own row may be locked by a batch that is being stored.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, and_, delete, insert, not_, or_, select, true, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.database import tables
from app.store.database.chunks import columns
from app.store.database.engine import Database
from app.store.database.subject import Subject, reads, writes
from app.stored.capture import LeasedTrace, Service

# Silent services are remembered this long: a stopped one may still have a connection to the broker,
# which is recognised by its name.
REMEMBERED_SECONDS = 86_400

# After this long in silence a service without a connection to the database is dead; each reports
# every two seconds.
SILENT_SECONDS = 3.0

_services = tables.services.c
_traces = tables.traces.c


def lives(database: Database) -> ColumnElement[bool]:
    """The condition that a service lives: it was heard of in time.

    Without a connection to the database, as one that was killed, it must have been heard of just
    now. A time from the future does not count: a clock was ahead. A service that is alone has
    marked all others as dead itself.
    """
    if database.dialect.is_alone:
        return _services.until > _services.seen_at
    time, silent = database.now, _microseconds(SILENT_SECONDS)
    dead = and_(_services.seen_at < time - silent, database.dialect.is_gone(_services.id))
    return and_(_services.until > time, _services.seen_at < time + silent, not_(dead))


class Services(Subject):
    """The services, dead ones too for a while."""

    @writes
    async def register(
        self, connection: AsyncConnection, service: str, name: str, seconds: float
    ) -> None:
        """Note a service that has started, for some seconds, and which of the others are dead.

        Others with its name are, and those without a connection to the database: a service that
        was killed and starts again need not wait for itself.
        """
        dialect, time = self.database.dialect, self.database.now
        dead = or_(_services.name == name, dialect.is_gone(_services.id))
        is_dead = _services.id != service, true() if dialect.is_alone else dead
        await connection.execute(
            update(tables.services).where(*is_dead).values(until=_services.seen_at)
        )
        is_old = _services.until <= time - _microseconds(REMEMBERED_SECONDS)
        await connection.execute(delete(tables.services).where(is_old | (_services.id == service)))
        row = {"id": service, "name": name, "until": time + _microseconds(seconds)}
        row |= dict.fromkeys(("started_at", "seen_at", "idle_since"), time)
        await connection.execute(insert(tables.services).values(row))

    @writes
    async def renew(
        self, connection: AsyncConnection, service: str, seconds: float, snapshots: bytes
    ) -> bool:
        """Extend a service's leases to some seconds from now; False if the service is forgotten."""
        time = self.database.now
        await self.database.dialect.limit_waiting(connection, seconds)
        values = {"seen_at": time, "until": time + _microseconds(seconds), "snapshots": snapshots}
        result = await connection.execute(
            update(tables.services).where(_services.id == service).values(values)
        )
        return result.rowcount == 1

    @writes
    async def leave(self, connection: AsyncConnection, service: str) -> None:
        await connection.execute(
            update(tables.traces).where(_traces.holder == service).values(holder=None)
        )
        await connection.execute(
            update(tables.services).where(_services.id == service).values(until=_services.seen_at)
        )

    @reads
    async def all(self, connection: AsyncConnection) -> list[Service]:
        """All services, in the order of their start."""
        fields = columns(_services, "id name started_at idle_since")
        query: Select[Any] = select(*fields, lives(self.database), _services.snapshots).order_by(
            _services.started_at, _services.id
        )
        return [Service(*row) for row in await connection.execute(query)]

    @reads
    async def leased_traces(self, connection: AsyncConnection) -> list[LeasedTrace]:
        query = select(*columns(_traces, "id vhost wanted holder")).order_by(_traces.id)
        return [LeasedTrace(*row) for row in await connection.execute(query)]


def _microseconds(seconds: float) -> int:
    return int(seconds * 1_000_000)
