"""The traces: one row for each virtual host that was ever traced."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import ColumnElement, Table, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import ConflictError, NotFoundError
from app.store.engine import Dialect
from app.store.tables import copies, participants, traces
from app.stored.traces import Trace


def _number_of(table: Table) -> ColumnElement[int]:
    of_trace = select(func.count()).select_from(table).where(table.c.trace_id == traces.c.id)
    return of_trace.scalar_subquery()


_COLUMNS = [
    *(traces.c[name] for name in Trace.__struct_fields__[:-2]),
    _number_of(participants),
    _number_of(copies),
]


async def listed(connection: AsyncConnection, vhosts: Collection[str] | None) -> list[Trace]:
    """The traces of some virtual hosts, or all (None), by name."""
    query = select(*_COLUMNS).order_by(traces.c.vhost)
    if vhosts is not None:
        query = query.where(traces.c.vhost.in_(sorted(vhosts)))
    return [Trace(*row) for row in (await connection.execute(query)).all()]


async def find(connection: AsyncConnection, vhost: str) -> Trace | None:
    """A virtual host's trace; None where there never was one."""
    query = select(*_COLUMNS).where(traces.c.vhost == vhost)
    found = (await connection.execute(query)).one_or_none()
    return None if found is None else Trace(*found)


async def create(
    connection: AsyncConnection, dialect: Dialect, vhost: str, policy: str, now: int
) -> Trace:
    """A virtual host's trace, made at need; without events it takes another policy.

    Raises `ConflictError` for another policy than its stored events have.
    """
    row = {
        "vhost": vhost,
        "policy": policy,
        "wanted": True,
        "created_at": now,
        "events": 0,
        "last_event_id": 0,
    }
    await connection.execute(dialect.upsert(traces).on_conflict_do_nothing(), row)
    its_own = traces.c.vhost == vhost
    stored, events = (
        await connection.execute(select(traces.c.policy, traces.c.events).where(its_own))
    ).one()
    if policy != stored and events:
        raise ConflictError(
            f"the stored events of {vhost} have one participant for each {stored}, "
            f"and cannot be joined by events with one for each {policy}"
        )
    await connection.execute(update(traces).where(its_own).values(policy=policy))
    query = select(*_COLUMNS).where(its_own)
    return Trace(*(await connection.execute(query)).one())


async def set_wanted(connection: AsyncConnection, trace_id: int, wanted: bool) -> None:
    """Say whether a trace should run when the service starts; raises `NotFoundError`."""
    changed = await connection.execute(
        update(traces).where(traces.c.id == trace_id).values(wanted=wanted)
    )
    if changed.rowcount == 0:
        raise NotFoundError(f"no trace has the number {trace_id}")
