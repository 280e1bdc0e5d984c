"""The services on one database: each says every few seconds that it lives.

What a service holds it holds for as long as it is heard of. So one row a service is renewed, not
one a trace: a trace's own row may be locked by a batch that is being stored.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, and_, delete, insert, not_, or_, select, true, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.database import tables
from app.store.database.engine import Database
from app.store.database.subject import Subject, reads, writes
from app.stored.capture import LeasedTrace, Service

# How long those who were not heard of are remembered. One that was stopped has a connection to the
# broker, which is known by its name.
REMEMBERED_SECONDS = 86_400

# One that was not heard of for so long, while others are every two seconds, and that has no
# connection to the database, is dead.
SILENT_SECONDS = 3.0

_services = tables.services.c
_traces = tables.traces.c
_FIELDS = ("id", "name", "started_at", "idle_since")


def lives(database: Database) -> ColumnElement[bool]:
    """Tell whether a service of the table lives.

    It was heard of in time; and just now, if it has no connection to the database any more, as one
    that was killed has none. A time from the future is no time at which it was heard of: the clock
    was ahead then. Where a service is alone, it has said itself which of them is dead.
    """
    if database.dialect.is_alone:
        return _services.until > _services.seen_at
    current_time, silent = database.now, _microseconds(SILENT_SECONDS)
    dead = and_(_services.seen_at < current_time - silent, database.dialect.is_gone(_services.id))
    return and_(
        _services.until > current_time, _services.seen_at < current_time + silent, not_(dead)
    )


class Services(Subject):
    """The services, dead ones too for a while."""

    @writes
    async def register(
        self, connection: AsyncConnection, service: str, name: str, seconds: float
    ) -> None:
        """Note a service that has started, for some seconds, and which of the others are dead.

        They are if they were not heard of in time, had its name, or have no connection to the
        database any more: a service that was killed and starts again need not wait for itself.
        """
        dialect, current_time = self.database.dialect, self.database.now
        dead = (
            true()
            if dialect.is_alone
            else or_(_services.name == name, dialect.is_gone(_services.id))
        )
        await connection.execute(
            update(tables.services)
            .where(_services.id != service, dead)
            .values(until=_services.seen_at)
        )
        expired = _services.until <= current_time - _microseconds(REMEMBERED_SECONDS)
        await connection.execute(
            delete(tables.services).where(or_(expired, _services.id == service))
        )
        row = {
            "id": service,
            "name": name,
            "started_at": current_time,
            "seen_at": current_time,
            "until": current_time + _microseconds(seconds),
            "idle_since": current_time,
        }
        await connection.execute(insert(tables.services).values(row))

    @writes
    async def renew(
        self, connection: AsyncConnection, service: str, seconds: float, snapshots: bytes
    ) -> bool:
        """Have a service hold what it holds for some seconds from now; False if it is forgotten."""
        current_time = self.database.now
        await self.database.dialect.limit_waiting(connection, seconds)
        renewed = await connection.execute(
            update(tables.services)
            .where(_services.id == service)
            .values(
                seen_at=current_time,
                until=current_time + _microseconds(seconds),
                snapshots=snapshots,
            )
        )
        return renewed.rowcount == 1

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
        """All services, those that started first before the others."""
        alive = lives(self.database)
        columns = [*(_services[name] for name in _FIELDS), alive, _services.snapshots]
        query = select(*columns).order_by(_services.started_at, _services.id)
        return [Service(*row) for row in await connection.execute(query)]

    @reads
    async def held(self, connection: AsyncConnection) -> list[LeasedTrace]:
        query = select(_traces.id, _traces.vhost, _traces.wanted, _traces.holder).order_by(
            _traces.id
        )
        return [LeasedTrace(*row) for row in await connection.execute(query)]


def _microseconds(seconds: float) -> int:
    return int(seconds * 1_000_000)
