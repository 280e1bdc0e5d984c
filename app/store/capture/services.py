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

_its = tables.services.c
_DESCRIBED = ("id", "name", "started_at", "idle_since")


def lives(database: Database) -> ColumnElement[bool]:
    """Tell whether a service of the table lives.

    It was heard of in time; and just now, if it has no connection to the database any more, as one
    that was killed has none. A time from the future is no time at which it was heard of: the clock
    was ahead then. Where a service is alone, it has said itself which of them is dead.
    """
    if database.dialect.is_alone:
        return _its.until > _its.seen_at
    now, silent = database.now, _microseconds(SILENT_SECONDS)
    gone = and_(_its.seen_at < now - silent, database.dialect.is_gone(_its.id))
    return and_(_its.until > now, _its.seen_at < now + silent, not_(gone))


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
        dialect, now = self.database.dialect, self.database.now
        gone = true() if dialect.is_alone else or_(_its.name == name, dialect.is_gone(_its.id))
        await connection.execute(
            update(tables.services).where(_its.id != service, gone).values(until=_its.seen_at)
        )
        forgotten = _its.until <= now - _microseconds(REMEMBERED_SECONDS)
        await connection.execute(delete(tables.services).where(or_(forgotten, _its.id == service)))
        row = {
            "id": service,
            "name": name,
            "started_at": now,
            "seen_at": now,
            "until": now + _microseconds(seconds),
            "idle_since": now,
        }
        await connection.execute(insert(tables.services).values(row))

    @writes
    async def renew(
        self, connection: AsyncConnection, service: str, seconds: float, snapshots: bytes
    ) -> bool:
        """Have a service hold what it holds for some seconds from now; False if it is forgotten."""
        now = self.database.now
        await self.database.dialect.limit_waiting(connection, seconds)
        renewed = await connection.execute(
            update(tables.services)
            .where(_its.id == service)
            .values(seen_at=now, until=now + _microseconds(seconds), snapshots=snapshots)
        )
        return renewed.rowcount == 1

    @writes
    async def leave(self, connection: AsyncConnection, service: str) -> None:
        its = tables.traces.c
        await connection.execute(
            update(tables.traces).where(its.holder == service).values(holder=None)
        )
        await connection.execute(
            update(tables.services).where(_its.id == service).values(until=_its.seen_at)
        )

    @reads
    async def all(self, connection: AsyncConnection) -> list[Service]:
        """All services, those that started first before the others."""
        alive = lives(self.database)
        columns = [*(_its[name] for name in _DESCRIBED), alive, _its.snapshots]
        query = select(*columns).order_by(_its.started_at, _its.id)
        return [Service(*row) for row in await connection.execute(query)]

    @reads
    async def held(self, connection: AsyncConnection) -> list[LeasedTrace]:
        its = tables.traces.c
        query = select(its.id, its.vhost, its.wanted, its.holder).order_by(its.id)
        return [LeasedTrace(*row) for row in await connection.execute(query)]


def _microseconds(seconds: float) -> int:
    return int(seconds * 1_000_000)
