"""Doubts that participants are those who act, and the amount of quiet traffic."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap
from typing import Any

from sqlalchemy import BigInteger, bindparam, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.database.subject import Subject, read_method, reads
from model.blocks import MAX_ID
from model.doubtful import DoubtfulDelivery, DoubtfulSpan
from model.sound import (
    AssumedParticipant,
    Client,
    Doubt,
    Evidence,
    Late,
    Misfit,
    MissedLinks,
    OpenedConnection,
    Soundness,
    SplitParticipant,
    doubts_of,
    misfit_of,
    strangers_of,
)
from statements import (
    EVIDENCE,
    PARAMETERS,
    Question,
    assumed_sql,
    clients_sql,
    connections_sql,
    doubtful_sql,
    late_sql,
    missed_sql,
    missing_sql,
    quiet_sql,
)

_DOUBTS = (
    assumed_sql(PARAMETERS),
    clients_sql(PARAMETERS.trace),
    late_sql(PARAMETERS),
    missing_sql(PARAMETERS),
)
_QUIET = quiet_sql(PARAMETERS)
_DOUBTFUL = text(doubtful_sql(PARAMETERS)).bindparams(
    *(bindparam(name, type_=BigInteger) for name in Question._fields)
)
_SUMS = ", ".join(f"CAST(coalesce(sum({field}), 0) AS BIGINT)" for field in EVIDENCE)
# Over the participants that have events.
_EVIDENCE = f"SELECT {_SUMS} FROM participants WHERE trace_id = :trace"  # noqa: S608  our own words


async def doubtful_between(
    connection: AsyncConnection, trace_id: int, a: int, b: int
) -> DoubtfulSpan:
    """The doubtful deliveries after one event and up to another, in either order."""
    question = Question.between(trace_id, a, b)
    rows = await connection.execute(_DOUBTFUL, question._asdict())
    return DoubtfulSpan([DoubtfulDelivery(*row) for row in rows])


class Doubts(Subject):
    """The soundness of answers about all traces."""

    doubtful = read_method(doubtful_between)

    @reads
    async def between(
        self, connection: AsyncConnection, trace_id: int, a: int, b: int
    ) -> Soundness:
        """The soundness of an answer about the events from one to another, in either order."""
        question = Question.between(trace_id, a, b)
        doubts, [[(count,)]] = await self._doubts(connection, question, _QUIET)
        return Soundness(doubts, count)

    @reads
    async def of_trace(self, connection: AsyncConnection, trace_id: int) -> tuple[Doubt, ...]:
        doubts, _ = await self._doubts(connection, Question.between(trace_id, 0, MAX_ID))
        return doubts

    @reads
    async def evidence(self, connection: AsyncConnection, trace_id: int) -> Evidence:
        """Counts by which a trace's messages and its policy agree on causes."""
        [[row]] = await self.database.dialect.rows_of(connection, [_EVIDENCE], {"trace": trace_id})
        return Evidence(*row)

    async def _doubts(
        self, connection: AsyncConnection, question: Question, *statements: str
    ) -> tuple[tuple[Doubt, ...], Sequence[Sequence[Any]]]:
        assumed, clients, late_rows, missing_rows, *answers = await self.database.dialect.rows_of(
            connection, (*_DOUBTS, *statements), question._asdict()
        )
        participants = [SplitParticipant(*row) for row in missing_rows]
        missed_links = []
        if participants:
            query = missed_sql(int(question.trace), participants)
            [rows] = await self.database.dialect.rows_of(connection, [query], {})
            missed_links = [MissedLinks(*row) for row in rows]
        misfit = await self._misfit(connection, int(question.trace), [*starmap(Client, clients)])
        late = Late(*late_rows[0]) if late_rows else None
        doubts = doubts_of(
            [AssumedParticipant(*row) for row in assumed], misfit, participants, missed_links, late
        )
        return doubts, answers

    async def _misfit(
        self, connection: AsyncConnection, trace_id: int, clients: Sequence[Client]
    ) -> Misfit | None:
        rows: Sequence[Any] = ()
        if numbers := strangers_of(clients):
            query = connections_sql(trace_id, numbers)
            [rows] = await self.database.dialect.rows_of(connection, [query], {})
        return misfit_of(clients, [*starmap(OpenedConnection, rows)])
