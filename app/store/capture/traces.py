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
from app.store.database.chunks import columns, filters
from app.store.database.subject import Subject, reads, writes
from app.stored.capture import Trace
from app.tracker.taken import ALL, Selection

_traces = tables.traces.c


def _number_of(table: Table) -> ColumnElement[int]:
    of_trace = select(func.count()).select_from(table).where(table.c.trace_id == _traces.id)
    return of_trace.scalar_subquery()


_COUNTS = {
    "participants": _number_of(tables.participants),
    "pending_copies": _number_of(tables.copies),
}
_COLUMNS: list[ColumnElement[Any]] = [
    _COUNTS[name] if name in _COUNTS else _traces[name] for name in Trace.__struct_fields__
]


def _trace(row: Row[Any]) -> Trace:
    values = dict(zip(Trace.__struct_fields__, row, strict=True))
    values["quiet"] = msgspec.json.decode(values["quiet"], type=tuple[str, ...])
    values["taken"] = _selection(values["taken"])
    return Trace(**values)


def _selection(stored: str | None) -> Selection:
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
        selection: Selection = ALL,
    ) -> Trace:
        """A virtual host's trace, created on first use; without events it takes new rules.

        ``policy`` is one of `app.tracker.Policy`, ``quiet`` are patterns of `app.tracker.Quiet`;
        `ConflictError` if stored events have others. ``bodies`` and the ``selection`` may change at
        any time. A selection of less than all declares a gap from the last event on; earlier
        declared gaps end once the trace runs by the new selection.
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
        of_vhost = _traces.vhost == vhost
        fields = columns(_traces, "policy quiet events id last_event_id taken")
        stored_policy, stored_quiet, events, trace_id, last_event_id, stored_selection = (
            await connection.execute(select(*fields).where(of_vhost))
        ).one()
        if policy != stored_policy and events:
            raise ConflictError(
                f"the stored events of {vhost} have one participant for each {stored_policy}, "
                f"and cannot be joined by events with one for each {policy}; "
                "rabbitmq-itc restamp changes them"
            )
        if patterns != stored_quiet and events:
            raise ConflictError(
                f"the stored events of {vhost} have other quiet traffic: {stored_quiet}; "
                "rabbitmq-itc restamp changes them"
            )
        text = None if selection.is_all else msgspec.json.encode(selection).decode()
        rules = {"policy": policy, "quiet": patterns, "bodies": bodies, "taken": text}
        await connection.execute(update(tables.traces).where(of_vhost).values(rules))
        if text is not None and _selection(stored_selection) != selection:
            begin = {"after_event_id": last_event_id, "since": self.database.clock()}
            declaration = {"reason": selection.sentence, "suspected": False, "declared": True}
            await gaps.note(connection, trace_id, **begin, **declaration)
        query = select(*_COLUMNS).where(of_vhost)
        return _trace((await connection.execute(query)).one())

    @reads
    async def find(self, connection: AsyncConnection, vhost: str) -> Trace | None:
        query = select(*_COLUMNS).where(_traces.vhost == vhost)
        row = (await connection.execute(query)).one_or_none()
        return None if row is None else _trace(row)

    @reads
    async def list(
        self, connection: AsyncConnection, vhosts: Collection[str] | None = None
    ) -> list[Trace]:
        query = (
            select(*_COLUMNS).where(*filters((_traces.vhost.in_, vhosts))).order_by(_traces.vhost)
        )
        return [_trace(row) for row in await connection.execute(query)]

    @writes
    async def set_wanted(self, connection: AsyncConnection, trace_id: int, is_wanted: bool) -> None:
        """Say whether a trace should run when the service starts; raises `NotFoundError`."""
        result = await connection.execute(
            update(tables.traces).where(_traces.id == trace_id).values(wanted=is_wanted)
        )
        if result.rowcount == 0:
            raise NotFoundError(f"no trace has the number {trace_id}")
