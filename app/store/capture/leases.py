"""The right to write to a trace: the service that holds it has it, and of its runs the latest.

A service *claims* a trace that nobody holds, or whose holder has not been heard of in time
(`app.store.capture.services`). Each run then *takes* it, before it restores anything. Both raise
the trace's epoch, and whatever belongs to a trace is written under the epoch of a run, in a
transaction that locks the trace's row first. So

- a run that another has come after writes nothing more, however late it wakes up;
- what it wrote before that is committed by the time the next one restores: `take` waits for it;
- an append whose commit is in doubt has ended, either way, before it is repeated.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, ColumnElement, exists, not_, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import LeaseLostError, NotFoundError, OutageError
from app.store.capture.services import lives
from app.store.database import tables
from app.store.database.subject import Subject, reads, writes

# How long a claim waits for the trace's row. Whoever has it locked is a predecessor.
WAIT_SECONDS = 3.0

_its = tables.traces.c


class Leases(Subject):
    """The traces' holders."""

    async def claim(self, trace_id: int, service: str) -> bool:
        """Have a service hold a trace; False if another one does, and lives.

        What a dead holder has left unfinished in the database is broken off. Raises
        `NotFoundError`.
        """
        holder, is_alive = await self._holder(trace_id)
        if holder not in (None, service):
            if is_alive:
                return False
            await self._break_off(trace_id)
        return await self._claim(trace_id, service)

    async def take(self, trace_id: int, holder: str | None) -> int:
        """Begin a run of a trace that ``holder`` holds; returns its epoch.

        Raises `LeaseLostError` if another holds it, `NotFoundError` if there is no such trace.
        """
        try:
            return await self._take(trace_id, holder)
        except LeaseLostError:
            raise
        except OutageError:  # perhaps of a connection that only the server believes in
            await self._break_off(trace_id)
            return await self._take(trace_id, holder)

    @writes
    async def release(self, connection: AsyncConnection, trace_id: int, holder: str) -> None:
        await connection.execute(
            update(tables.traces)
            .where(_its.id == trace_id, _its.holder == holder)
            .values(holder=None)
        )

    @reads
    async def _holder(
        self, connection: AsyncConnection, trace_id: int
    ) -> tuple[str | None, bool | None]:
        query = select(_its.holder, self._holder_lives()).where(_its.id == trace_id)
        found = (await connection.execute(query)).one_or_none()
        if found is None:
            raise _missing(trace_id)
        return found[0], found[1]

    @writes
    async def _claim(self, connection: AsyncConnection, trace_id: int, service: str) -> bool:
        await self.database.dialect.limit_waiting(connection, WAIT_SECONDS)
        claimed = await connection.execute(
            update(tables.traces)
            .where(
                _its.id == trace_id,
                or_(_its.holder.is_(None), _its.holder == service, not_(self._holder_lives())),
            )
            .values(holder=service, epoch=_its.epoch + 1)
        )
        if claimed.rowcount == 1:
            await connection.execute(
                update(tables.services)
                .where(tables.services.c.id == service)
                .values(idle_since=self.database.now)
            )
        return claimed.rowcount == 1

    @writes
    async def _take(self, connection: AsyncConnection, trace_id: int, holder: str | None) -> int:
        await self.database.dialect.limit_waiting(connection, WAIT_SECONDS)
        await lock_trace(connection, trace_id, None)
        taken = await connection.execute(
            update(tables.traces)
            .where(_its.id == trace_id, _its.holder.is_not_distinct_from(holder))
            .values(epoch=_its.epoch + 1)
            .returning(_its.epoch)
        )
        epoch = taken.scalar_one_or_none()
        if epoch is None:
            raise LeaseLostError("another service runs this trace")
        return int(epoch)

    @writes
    async def _break_off(self, connection: AsyncConnection, trace_id: int) -> None:
        await self.database.dialect.break_off(connection, trace_id)

    def _holder_lives(self) -> ColumnElement[bool]:
        return exists().where(tables.services.c.id == _its.holder, lives(self.database))


async def lock_trace(
    connection: AsyncConnection, trace_id: int, epoch: int | None, *columns: Column[Any]
) -> list[Any]:
    """Lock a trace's row until the transaction ends, and return some columns of it.

    Raises `LeaseLostError` if the trace was taken since ``epoch``; None is every epoch. Raises
    `NotFoundError`.
    """
    query = select(*columns, _its.epoch).where(_its.id == trace_id)
    found = (await connection.execute(query.with_for_update(key_share=True))).one_or_none()
    if found is None:
        raise _missing(trace_id)
    if epoch not in (None, found.epoch):
        raise LeaseLostError("another run has taken this trace, and this one writes nothing more")
    return [*found[:-1]]


def _missing(trace_id: int) -> NotFoundError:
    return NotFoundError(f"no trace has the number {trace_id}")
