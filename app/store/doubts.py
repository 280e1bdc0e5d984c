"""Whether participants are those who act, and how much quiet traffic there was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.events import MAX_ID
from app.store.subject import Subject, reads
from model.sound import (
    Assumed,
    Client,
    Doubt,
    Evidence,
    Late,
    Missed,
    Missing,
    Soundness,
    assumed_sql,
    clients_sql,
    doubts_of,
    evidence_sql,
    late_sql,
    misfit_of,
    missed_sql,
    missing_sql,
    quiet_sql,
)


class Doubts(Subject):
    """What is known of the soundness of all traces."""

    @reads
    async def between(
        self, connection: AsyncConnection, trace_id: int, a: int, b: int
    ) -> Soundness:
        """That of an answer about the events from one to the other, in either order."""
        [(quiet,)] = await _rows(connection, quiet_sql(trace_id, a, b))
        return Soundness(await _doubts(connection, trace_id, a, b), quiet)

    @reads
    async def of_trace(self, connection: AsyncConnection, trace_id: int) -> tuple[Doubt, ...]:
        """The doubts about a whole trace."""
        return await _doubts(connection, trace_id, 0, MAX_ID)

    @reads
    async def evidence(self, connection: AsyncConnection, trace_id: int) -> Evidence:
        """What a trace's messages say of their causes, against what its policy says."""
        [row] = await _rows(connection, evidence_sql(trace_id))
        return Evidence(*row)


async def _doubts(connection: AsyncConnection, trace_id: int, a: int, b: int) -> tuple[Doubt, ...]:
    assumed = [Assumed(*row) for row in await _rows(connection, assumed_sql(trace_id, a, b))]
    misfit = misfit_of([Client(*row) for row in await _rows(connection, clients_sql(trace_id))])
    late = [Late(*row) for row in await _rows(connection, late_sql(trace_id, a, b))]
    missing = [Missing(*row) for row in await _rows(connection, missing_sql(trace_id, a, b))]
    missed = []
    if missing:
        missed = [Missed(*row) for row in await _rows(connection, missed_sql(trace_id, missing))]
    return doubts_of(assumed, misfit, missing, missed, late[0] if late else None)


async def _rows(connection: AsyncConnection, sql: str) -> Sequence[Any]:
    """What a statement that is never the same twice finds: to look for names in it is a waste."""
    return (await connection.exec_driver_sql(sql)).all()
