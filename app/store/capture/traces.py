"""The traces: one row for each virtual host that was ever traced."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Row, Table, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import ConflictError, NotFoundError
from app.store.capture import gaps
from app.store.database import tables
from app.store.database.chunks import given
from app.store.database.subject import Subject, reads, writes
from app.stored.capture import Trace
from app.tracker.taken import ALL, Selection

_its = tables.traces.c


def _number_of(table: Table) -> ColumnElement[int]:
    of_trace = select(func.count()).select_from(table).where(table.c.trace_id == _its.id)
    return of_trace.scalar_subquery()


_COUNTED = {
    "participants": _number_of(tables.participants),
    "pending_copies": _number_of(tables.copies),
}
_RULES = ("policy", "quiet", "events", "id", "last_event_id", "taken")
_COLUMNS: list[ColumnElement[Any]] = [
    _COUNTED[name] if name in _COUNTED else _its[name] for name in Trace.__struct_fields__
]


def _trace(row: Row[Any]) -> Trace:
    values = dict(zip(Trace.__struct_fields__, row, strict=True))
    values["quiet"] = msgspec.json.decode(values["quiet"], type=tuple[str, ...])
    values["taken"] = _taken(values["taken"])
    return Trace(**values)


def _taken(stored: str | None) -> Selection:
    return ALL if stored is None else msgspec.json.decode(stored, type=Selection)


class Traces(Subject):
    """The traces of all virtual hosts."""

    @writes
    async def create(
        self,
        connection: AsyncConnection,
        vhost: str,
        policy: str,
        quiet: Sequence[str] = (),
        *,
        bodies: bool = True,
        taken: Selection = ALL,
    ) -> Trace:
        """A virtual host's trace, created on first use; without events it takes new rules.

        ``policy`` is one of `app.tracker.Policy`, ``quiet`` are patterns of `app.tracker.Quiet`.
        Raises `ConflictError` if its stored events have others. Whether ``bodies`` are taken may
        change at any time, and so may what is ``taken``: from the last event on there is a declared
        gap if that is not all. Those before it end once the trace runs by the new wish.
        """
        patterns = msgspec.json.encode(quiet).decode()
        row = {
            "vhost": vhost,
            "policy": policy,
            "quiet": patterns,
            "wanted": True,
            "created_at": self.database.clock(),
            "events": 0,
            "last_event_id": 0,
            "bodies": bodies,
            "taken": None,
        }
        await connection.execute(
            self.database.dialect.upsert(tables.traces).on_conflict_do_nothing(), row
        )
        its_own = _its.vhost == vhost
        stored, stored_quiet, events, trace_id, last_event_id, before = (
            await connection.execute(select(*(_its[name] for name in _RULES)).where(its_own))
        ).one()
        if policy != stored and events:
            raise ConflictError(
                f"the stored events of {vhost} have one participant for each {stored}, "
                f"and cannot be joined by events with one for each {policy}; "
                "rabbitmq-itc restamp changes them"
            )
        if patterns != stored_quiet and events:
            raise ConflictError(
                f"the stored events of {vhost} have other quiet traffic: {stored_quiet}; "
                "rabbitmq-itc restamp changes them"
            )
        wish = None if taken.is_all else msgspec.json.encode(taken).decode()
        rules = {"policy": policy, "quiet": patterns, "bodies": bodies, "taken": wish}
        await connection.execute(update(tables.traces).where(its_own).values(rules))
        if wish is not None and _taken(before) != taken:
            begin = {"after_event_id": last_event_id, "since": self.database.clock()}
            said = {"reason": taken.sentence, "suspected": False, "declared": True}
            await gaps.note(connection, trace_id, **begin, **said)
        query = select(*_COLUMNS).where(its_own)
        return _trace((await connection.execute(query)).one())

    @reads
    async def find(self, connection: AsyncConnection, vhost: str) -> Trace | None:
        query = select(*_COLUMNS).where(_its.vhost == vhost)
        found = (await connection.execute(query)).one_or_none()
        return None if found is None else _trace(found)

    @reads
    async def list(
        self, connection: AsyncConnection, vhosts: Collection[str] | None = None
    ) -> list[Trace]:
        query = select(*_COLUMNS).where(*given((_its.vhost.in_, vhosts))).order_by(_its.vhost)
        return [_trace(row) for row in await connection.execute(query)]

    @writes
    async def set_wanted(self, connection: AsyncConnection, trace_id: int, wanted: bool) -> None:
        """Say whether a trace should run when the service starts; raises `NotFoundError`."""
        changed = await connection.execute(
            update(tables.traces).where(_its.id == trace_id).values(wanted=wanted)
        )
        if changed.rowcount == 0:
            raise NotFoundError(f"no trace has the number {trace_id}")
