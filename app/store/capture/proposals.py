"""Proposals of rules, as they were found last for each trace."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
from sqlalchemy import Integer, func, literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.database import tables
from app.store.database.chunks import columns
from app.store.database.subject import Subject, reads, writes
from app.stored.proposals import RuleProposal, TraceCoverage
from model.times import now
from statements import REACTIONS

_participants = tables.participants.c
_proposals = tables.proposals.c
_traces = tables.traces.c
_NUMBERS = (
    *("trace_id", "publishes", "reactions", "named", "programs"),
    *("looked_publishes", "looked_programs"),
)
_decode = msgspec.json.Decoder(list[RuleProposal]).decode


class RuleProposals(Subject):
    """The proposals of all traces."""

    @reads
    async def coverage(
        self, connection: AsyncConnection, trace_ids: Collection[int]
    ) -> list[TraceCoverage]:
        """The number of causes that these traces' messages name, and the proposals for them."""
        if not trace_ids:
            return []
        attributed = _participants.explained + _participants.spanned
        reactions = literal_column(REACTIONS, Integer)
        sums = map(func.sum, (_participants.published, reactions, attributed))
        users, clients = (
            func.count(column.distinct()) for column in columns(_participants, "user client")
        )
        looked = columns(_proposals, "publishes programs")
        numbers = [func.coalesce(number, 0) for number in (*sums, users + clients, *looked)]
        query = (
            select(_traces.vhost, _proposals.looked_at, _proposals.found, _traces.id, *numbers)
            .outerjoin_from(
                tables.traces, tables.participants, _participants.trace_id == _traces.id
            )
            .outerjoin(tables.proposals, _proposals.trace_id == _traces.id)
            .where(_traces.id.in_(sorted(trace_ids)))
            .group_by(_traces.id, _proposals.trace_id)
            .order_by(_traces.id)
        )
        coverages = []
        for vhost, looked_at, text, *counts in await connection.execute(query):
            totals = dict(zip(_NUMBERS, map(int, counts), strict=True))
            proposals = _decode(text) if text else ()
            coverages.append(
                TraceCoverage(vhost=vhost, looked_at=looked_at, found=proposals, **totals)
            )
        return coverages

    @writes
    async def put(
        self, connection: AsyncConnection, basis: TraceCoverage, proposals: Sequence[RuleProposal]
    ) -> None:
        """Replace a trace's proposals by those that were found on some ``basis``."""
        text = msgspec.json.encode(proposals).decode()
        row = basis.trace_id, now(), basis.publishes, basis.programs, text
        changing = tuple(tables.proposals.columns.keys()[1:])
        await self.database.dialect.upsert_many(connection, tables.proposals, [row], changing)


async def forget_in_hand(connection: AsyncConnection, trace_id: int) -> None:
    """Have proposals be looked for anew if some name participants, whose numbers have changed."""
    query = select(_proposals.found).where(_proposals.trace_id == trace_id)
    proposals = _decode((await connection.execute(query)).scalar() or "[]")
    remaining = [proposal for proposal in proposals if proposal.kind != "in_hand"]
    if len(remaining) < len(proposals):
        await connection.execute(
            update(tables.proposals)
            .where(_proposals.trace_id == trace_id)
            .values(found=msgspec.json.encode(remaining).decode(), publishes=0)
        )
