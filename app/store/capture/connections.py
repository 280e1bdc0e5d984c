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

_table = tables.connections.c
_later = tables.connections.alias("later")
_COLUMNS = [_table[name] for name in BrokerConnection.__struct_fields__]


class Connections(Subject):
    """The connections, as far as they are kept."""

    @writes
    async def add(
        self,
        connection: AsyncConnection,
        opened: Sequence[NewConnection],
        closed: Sequence[ClosedConnection] = (),
    ) -> None:
        """Note what was announced; what is noted already, or listed, changes nothing.

        A connection ends at the latest when another of its name is opened.
        """
        await self._open(connection, opened)
        await _close(connection, closed)

    @writes
    async def reconcile(
        self, connection: AsyncConnection, present: Sequence[NewConnection], now: int
    ) -> None:
        """Note those that are present, and that others are gone; ``now`` in µs.

        Others that were opened at about the same time as the newest of them, or later, may be
        present too.
        """
        await self._open(connection, present)
        if not present:
            return
        newest = max(each.opened_at for each in present)
        query = select(_table.id, _table.node, _table.name, _table.opened_at).where(
            _table.closed_at.is_(None), _table.opened_at < newest - LIST_AGE
        )
        there = {(each.node, each.name, each.opened_at) for each in present}
        found = (await connection.execute(query)).all()
        gone = [row.id for row in found if (row.node, row.name, row.opened_at) not in there]
        for ids in chunks(gone):
            await connection.execute(
                update(tables.connections).where(_table.id.in_(ids)).values(closed_at=now)
            )

    @reads
    async def find(
        self, connection: AsyncConnection, names: Collection[str]
    ) -> dict[str, BrokerConnection]:
        """The newest connection of each of these names that is known."""
        newer = select(_later.c.id).where(
            _later.c.name == _table.name, _later.c.opened_at > _table.opened_at
        )
        query = select(*_COLUMNS).where(~newer.exists()).order_by(_table.id)
        rows = await rows_with(connection, query, _table.name, set(names))
        return {row.name: BrokerConnection(*row) for row in rows}

    @reads
    async def owners(
        self, connection: AsyncConnection, names: Collection[str], since: int
    ) -> list[BrokerConnection]:
        """The connections of these names that were open at a time (µs) or later."""
        query = select(*_COLUMNS).where(or_(_table.closed_at.is_(None), _table.closed_at >= since))
        rows = await rows_with(connection, query, _table.name, set(names))
        return [BrokerConnection(*row) for row in rows]

    @reads
    async def closed_since(
        self, connection: AsyncConnection, vhost: str, since: int
    ) -> list[BrokerConnection]:
        """The connections to a virtual host that were closed at a time (µs) or later."""
        query = (
            select(*_COLUMNS)
            .where(_table.vhost == vhost, _table.closed_at >= since)
            .order_by(_table.closed_at, _table.id)
        )
        return [BrokerConnection(*row) for row in (await connection.execute(query)).all()]

    @writes
    async def prune(self, connection: AsyncConnection, keep: int) -> int:
        """Forget closed connections, all but the last ``keep``; returns how many."""
        is_closed = _table.closed_at.is_not(None)
        return await keep_newest(connection, tables.connections, keep, is_closed)

    async def _open(self, connection: AsyncConnection, opened: Sequence[NewConnection]) -> None:
        # An announcement and a list may tell of one connection, and either is told again.
        distinct = {(each.node, each.name, each.opened_at): each for each in opened if not each.pid}
        distinct |= {(each.node, each.name, each.opened_at): each for each in opened if each.pid}
        if not distinct:
            return
        insert = self.database.dialect.upsert(tables.connections)
        noted = insert.on_conflict_do_update(
            index_elements=[_table.node, _table.name, _table.opened_at],
            set_={"pid": func.coalesce(insert.excluded.pid, _table.pid)},
            where=_table.pid.is_(None),
        )
        await connection.execute(
            noted, [msgspec.structs.asdict(each) for each in distinct.values()]
        )
        for names in chunks(sorted({each.name for each in distinct.values()})):
            await connection.execute(_succeeded(names))


def _succeeded(names: Sequence[str]) -> Executable:
    """Close those with these names that another of the same name and node has followed."""
    follows = and_(
        _later.c.name == _table.name,
        _later.c.node == _table.node,
        _later.c.opened_at > _table.opened_at,
    )
    next_opened = select(func.min(_later.c.opened_at)).where(follows).scalar_subquery()
    return (
        update(tables.connections)
        .where(_table.name.in_(names), _table.closed_at.is_(None))
        .where(select(_later.c.id).where(follows).exists())
        .values(closed_at=next_opened)
    )


async def _close(connection: AsyncConnection, closed: Sequence[ClosedConnection]) -> None:
    """Close those that are announced as gone: by the broker's process, or by name where the
    management API has told of them, which does not say the process."""
    if not closed:
        return
    listed = and_(
        _table.pid.is_(None), _table.closed_at.is_(None), _table.opened_at <= bindparam("at")
    )
    await connection.execute(
        update(tables.connections)
        .where(
            _table.name == bindparam("of_name"),
            _table.node == bindparam("of_node"),
            or_(_table.pid == bindparam("of_pid"), listed),
        )
        .values(closed_at=bindparam("at")),
        [
            {"of_name": one.name, "of_node": one.node, "of_pid": one.pid, "at": one.closed_at}
            for one in closed
        ],
    )
