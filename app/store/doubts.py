"""Whether participants are those who act, and how much quiet traffic there was."""

from __future__ import annotations

from sqlalchemy import text
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
        quiet = (await connection.execute(text(quiet_sql(trace_id, a, b)))).scalar_one()
        return Soundness(await _doubts(connection, trace_id, a, b), quiet)

    @reads
    async def of_trace(self, connection: AsyncConnection, trace_id: int) -> tuple[Doubt, ...]:
        """The doubts about a whole trace."""
        return await _doubts(connection, trace_id, 0, MAX_ID)

    @reads
    async def evidence(self, connection: AsyncConnection, trace_id: int) -> Evidence:
        """What a trace's messages say of their causes, against what its policy says."""
        return Evidence(*(await connection.execute(text(evidence_sql(trace_id)))).one())


async def _doubts(connection: AsyncConnection, trace_id: int, a: int, b: int) -> tuple[Doubt, ...]:
    found = await connection.execute(text(assumed_sql(trace_id, a, b)))
    assumed = [Assumed(*row) for row in found]
    clients = await connection.execute(text(clients_sql(trace_id)))
    late = (await connection.execute(text(late_sql(trace_id, a, b)))).one_or_none()
    misfit = misfit_of([Client(*row) for row in clients])
    found = await connection.execute(text(missing_sql(trace_id, a, b)))
    missing = [Missing(*row) for row in found]
    missed = []
    if missing:
        rules = await connection.execute(text(missed_sql(trace_id, missing)))
        missed = [Missed(*row) for row in rules]
    return doubts_of(assumed, misfit, missing, missed, None if late is None else Late(*late))
