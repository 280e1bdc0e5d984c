"""Connections to the broker, now and before: a row for each, and many may have had its name."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
from sqlalchemy import Executable, and_, bindparam, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.database import tables
from app.store.database.chunks import chunks, keep_newest, rows_with
from app.store.database.subject import Subject, reads, writes
from app.stored.capture import BrokerConnection, ClosedConnection, NewConnection

# The management API's list is up to 5 s old, and nodes' clocks differ.
LIST_AGE = 10_000_000  # µs

_connections = tables.connections.c
_successors = tables.connections.alias("later")
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
        """Note what was announced; what is noted already, or listed, changes nothing.

        A connection ends at the latest when another of its name is opened.
        """
        await self._open(connection, openings)
        await _close(connection, closings)

    @writes
    async def reconcile(
        self, connection: AsyncConnection, present: Sequence[NewConnection], moment: int
    ) -> None:
        """Note those that are present, and that others are gone; ``moment`` in µs.

        Others that were opened at about the same time as the newest of them, or later, may be
        present too.
        """
        await self._open(connection, present)
        if not present:
            return
        newest = max(entry.opened_at for entry in present)
        query = select(
            _connections.id, _connections.node, _connections.name, _connections.opened_at
        ).where(_connections.closed_at.is_(None), _connections.opened_at < newest - LIST_AGE)
        identities = {(entry.node, entry.name, entry.opened_at) for entry in present}
        rows = (await connection.execute(query)).all()
        absent_ids = [
            row.id for row in rows if (row.node, row.name, row.opened_at) not in identities
        ]
        for ids in chunks(absent_ids):
            await connection.execute(
                update(tables.connections).where(_connections.id.in_(ids)).values(closed_at=moment)
            )

    @reads
    async def find(
        self, connection: AsyncConnection, names: Collection[str]
    ) -> dict[str, BrokerConnection]:
        """The newest connection of each of these names that is known."""
        newer = select(_successors.c.id).where(
            _successors.c.name == _connections.name,
            _successors.c.opened_at > _connections.opened_at,
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
    async def closed_since(
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
        # An announcement and a list may tell of one connection, and either is told again.
        distinct = {
            (entry.node, entry.name, entry.opened_at): entry for entry in entries if not entry.pid
        }
        distinct |= {
            (entry.node, entry.name, entry.opened_at): entry for entry in entries if entry.pid
        }
        if not distinct:
            return
        insert = self.database.dialect.upsert(tables.connections)
        statement = insert.on_conflict_do_update(
            index_elements=[_connections.node, _connections.name, _connections.opened_at],
            set_={"pid": func.coalesce(insert.excluded.pid, _connections.pid)},
            where=_connections.pid.is_(None),
        )
        await connection.execute(
            statement, [msgspec.structs.asdict(entry) for entry in distinct.values()]
        )
        for names in chunks(sorted({entry.name for entry in distinct.values()})):
            await connection.execute(_close_predecessors(names))


def _close_predecessors(names: Sequence[str]) -> Executable:
    """Close those with these names that another of the same name and node has followed."""
    follows = and_(
        _successors.c.name == _connections.name,
        _successors.c.node == _connections.node,
        _successors.c.opened_at > _connections.opened_at,
    )
    next_opened = select(func.min(_successors.c.opened_at)).where(follows).scalar_subquery()
    return (
        update(tables.connections)
        .where(_connections.name.in_(names), _connections.closed_at.is_(None))
        .where(select(_successors.c.id).where(follows).exists())
        .values(closed_at=next_opened)
    )


async def _close(connection: AsyncConnection, closings: Sequence[ClosedConnection]) -> None:
    """Close those that are announced as gone: by the broker's process, or by name where the
    management API has told of them, which does not say the process."""
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
            {
                "of_name": closing.name,
                "of_node": closing.node,
                "of_pid": closing.pid,
                "at": closing.closed_at,
            }
            for closing in closings
        ],
    )
