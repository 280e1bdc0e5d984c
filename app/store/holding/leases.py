"""The right to write to a trace: the latest run of the service that holds it has it.

A service *claims* a trace that nobody holds, or whose holder has not been heard of in time
(`app.store.holding.services`). Each run then *takes* it, before it restores anything. Both raise
the trace's epoch, and a run writes under its epoch, in a transaction that locks the trace's row
first. So

- a run writes nothing more once another has begun, however late it wakes up;
- what it wrote before is committed by the time the next one restores: `take` waits for it;
- an append whose commit is in doubt has ended, either way, before it is repeated.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, ColumnElement, exists, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import LeaseLostError, NotFoundError, OutageError
from app.store.database import tables
from app.store.database.subject import Subject, reads, writes
from app.store.holding.services import lives

# A claim waits this long for the trace's row, which only a predecessor can have locked.
WAIT_SECONDS = 3.0

_services = tables.services.c
_traces = tables.traces.c


class Leases(Subject):
    """The traces' holders."""

    async def claim(self, trace_id: int, service: str) -> bool:
        """Have a service hold a trace; False if another one does, and lives.

        Breaks off a dead holder's transaction. Raises `NotFoundError`.
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
            .where(_traces.id == trace_id, _traces.holder == holder)
            .values(holder=None)
        )

    @reads
    async def _holder(
        self, connection: AsyncConnection, trace_id: int
    ) -> tuple[str | None, bool | None]:
        query = select(_traces.holder, self._holder_lives()).where(_traces.id == trace_id)
        row = (await connection.execute(query)).one_or_none()
        if row is None:
            raise _unknown_trace(trace_id)
        return row[0], row[1]

    @writes
    async def _claim(self, connection: AsyncConnection, trace_id: int, service: str) -> bool:
        await self.database.dialect.limit_waiting(connection, WAIT_SECONDS)
        result = await connection.execute(
            update(tables.traces)
            .where(_traces.id == trace_id)
            .where(or_(_traces.holder.is_(None), _traces.holder == service, ~self._holder_lives()))
            .values(holder=service, epoch=_traces.epoch + 1)
        )
        if result.rowcount == 1:
            await connection.execute(
                update(tables.services)
                .where(_services.id == service)
                .values(idle_since=self.database.now)
            )
        return result.rowcount == 1

    @writes
    async def _take(self, connection: AsyncConnection, trace_id: int, holder: str | None) -> int:
        await self.database.dialect.limit_waiting(connection, WAIT_SECONDS)
        await lock_trace(connection, trace_id, None)
        result = await connection.execute(
            update(tables.traces)
            .where(_traces.id == trace_id, _traces.holder.is_not_distinct_from(holder))
            .values(epoch=_traces.epoch + 1)
            .returning(_traces.epoch)
        )
        epoch = result.scalar_one_or_none()
        if epoch is None:
            raise LeaseLostError("another service runs this trace")
        return int(epoch)

    @writes
    async def _break_off(self, connection: AsyncConnection, trace_id: int) -> None:
        await self.database.dialect.break_off(connection, trace_id)

    def _holder_lives(self) -> ColumnElement[bool]:
        return exists().where(_services.id == _traces.holder, lives(self.database))


async def lock_trace(
    connection: AsyncConnection, trace_id: int, epoch: int | None, *columns: Column[Any]
) -> list[Any]:
    """Lock a trace's row until the transaction ends, and return some columns of it.

    Raises `LeaseLostError` if the trace was taken since ``epoch`` (None: any), `NotFoundError`.
    """
    query = select(*columns, _traces.epoch).where(_traces.id == trace_id)
    row = (await connection.execute(query.with_for_update(key_share=True))).one_or_none()
    if row is None:
        raise _unknown_trace(trace_id)
    if epoch not in (None, row.epoch):
        raise LeaseLostError("another run has taken this trace, and this one writes nothing more")
    return [*row[:-1]]


def _unknown_trace(trace_id: int) -> NotFoundError:
    return NotFoundError(f"no trace has the number {trace_id}")
