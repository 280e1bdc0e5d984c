"""Connections to the broker, now and before: a row for each, and many may have had its name."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import attrgetter

import msgspec
from sqlalchemy import Executable, and_, bindparam, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.database import tables
from app.store.database.chunks import chunks, columns, keep_newest, rows_with
from app.store.database.subject import Subject, reads, writes
from app.stored.capture import BrokerConnection, ClosedConnection, NewConnection

# The management API's list is up to 5 s old, and nodes' clocks differ.
LIST_AGE = 10_000_000  # µs

_connections = tables.connections.c
_successors = tables.connections.alias("later").c
_COLUMNS = [_connections[name] for name in BrokerConnection.__struct_fields__]


class Connections(Subject):
    """The connections, as far as they are kept."""

    @writes
    async def add(
        self,
        connection: AsyncConnection,
        openings: Sequence[NewConnection],
        closings: Sequence[ClosedConnection] = (),
    ) -> None:
        """Note announcements; one that is noted already, or listed, changes nothing.

        A connection ends at the latest when another of its name is opened.
        """
        await self._open(connection, openings)
        await _close(connection, closings)

    @writes
    async def reconcile(
        self, connection: AsyncConnection, present: Sequence[NewConnection], moment: int
    ) -> None:
        """Note the connections that are present, and that others are closed; ``moment`` in µs.

        Others that were opened at about the time of the newest, or later, may be present too.
        """
        await self._open(connection, present)
        if not present:
            return
        newest = max(entry.opened_at for entry in present)
        query = select(*columns(_connections, "id node name opened_at")).where(
            _connections.closed_at.is_(None), _connections.opened_at < newest - LIST_AGE
        )
        identities = {_identity(entry) for entry in present}
        rows = (await connection.execute(query)).all()
        for ids in chunks([row.id for row in rows if _identity(row) not in identities]):
            await connection.execute(
                update(tables.connections).where(_connections.id.in_(ids)).values(closed_at=moment)
            )

    @reads
    async def find(
        self, connection: AsyncConnection, names: Collection[str]
    ) -> dict[str, BrokerConnection]:
        """The newest connection of each of these names that is known."""
        newer = select(_successors.id).where(
            _successors.name == _connections.name, _successors.opened_at > _connections.opened_at
        )
        query = select(*_COLUMNS).where(~newer.exists()).order_by(_connections.id)
        rows = await rows_with(connection, query, _connections.name, set(names))
        return {row.name: BrokerConnection(*row) for row in rows}

    @reads
    async def owners(
        self, connection: AsyncConnection, names: Collection[str], start: int
    ) -> list[BrokerConnection]:
        """The connections of these names that were open at a time (µs) or later."""
        query = select(*_COLUMNS).where(
            or_(_connections.closed_at.is_(None), _connections.closed_at >= start)
        )
        rows = await rows_with(connection, query, _connections.name, set(names))
        return [BrokerConnection(*row) for row in rows]

    @reads
    async def list_closed(
        self, connection: AsyncConnection, vhost: str, start: int
    ) -> list[BrokerConnection]:
        """The connections to a virtual host that were closed at a time (µs) or later."""
        query = (
            select(*_COLUMNS)
            .where(_connections.vhost == vhost, _connections.closed_at >= start)
            .order_by(_connections.closed_at, _connections.id)
        )
        return [BrokerConnection(*row) for row in (await connection.execute(query)).all()]

    @writes
    async def prune(self, connection: AsyncConnection, keep: int) -> int:
        """Forget closed connections, all but the last ``keep``; returns how many."""
        is_closed = _connections.closed_at.is_not(None)
        return await keep_newest(connection, tables.connections, keep, is_closed)

    async def _open(self, connection: AsyncConnection, entries: Sequence[NewConnection]) -> None:
        # An announcement, which has a pid, and a list may tell of one connection, even repeatedly.
        distinct = {_identity(entry): entry for entry in entries if not entry.pid}
        distinct |= {_identity(entry): entry for entry in entries if entry.pid}
        if not distinct:
            return
        insert = self.database.dialect.upsert(tables.connections)
        statement = insert.on_conflict_do_update(
            index_elements=columns(_connections, "node name opened_at"),
            set_={"pid": func.coalesce(insert.excluded.pid, _connections.pid)},
            where=_connections.pid.is_(None),
        )
        await connection.execute(statement, [*map(msgspec.structs.asdict, distinct.values())])
        for names in chunks(sorted({entry.name for entry in distinct.values()})):
            await connection.execute(_close_predecessors(names))


_identity = attrgetter("node", "name", "opened_at")


def _close_predecessors(names: Sequence[str]) -> Executable:
    """The statement that closes connections after which another of their name and node came."""
    follows = and_(
        _successors.name == _connections.name,
        _successors.node == _connections.node,
        _successors.opened_at > _connections.opened_at,
    )
    next_opened = select(func.min(_successors.opened_at)).where(follows).scalar_subquery()
    return (
        update(tables.connections)
        .where(_connections.name.in_(names), _connections.closed_at.is_(None))
        .where(select(_successors.id).where(follows).exists())
        .values(closed_at=next_opened)
    )


async def _close(connection: AsyncConnection, closings: Sequence[ClosedConnection]) -> None:
    """Close connections by the broker's process, or by name if the management API listed them."""
    if not closings:
        return
    listed = and_(
        _connections.pid.is_(None),
        _connections.closed_at.is_(None),
        _connections.opened_at <= bindparam("at"),
    )
    await connection.execute(
        update(tables.connections)
        .where(
            _connections.name == bindparam("of_name"),
            _connections.node == bindparam("of_node"),
            or_(_connections.pid == bindparam("of_pid"), listed),
        )
        .values(closed_at=bindparam("at")),
        [
            {"of_name": end.name, "of_node": end.node, "of_pid": end.pid, "at": end.closed_at}
            for end in closings
        ],
    )
