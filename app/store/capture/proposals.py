"""Proposals of rules, as they were found last for each trace."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
from sqlalchemy import case, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.database import tables
from app.store.database.subject import Subject, reads, writes
from app.stored.proposals import RuleProposal, TraceCoverage
from model.times import now

_its = tables.proposals.c
_whose = tables.participants.c
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
        """What these traces' messages tell of their causes, and what was found."""
        if not trace_ids:
            return []
        named = _whose.explained + _whose.spanned
        reactions = case((_whose.reactions < named, named), else_=_whose.reactions)
        programs = func.count(_whose.user.distinct()) + func.count(_whose.client.distinct())
        sums = (func.sum(_whose.published), func.sum(reactions), func.sum(named), programs)
        numbers = [func.coalesce(n, 0) for n in (*sums, _its.publishes, _its.programs)]
        each = tables.traces.c
        query = (
            select(each.vhost, _its.looked_at, _its.found, each.id, *numbers)
            .join_from(tables.traces, tables.participants, _whose.trace_id == each.id, isouter=True)
            .join(tables.proposals, _its.trace_id == each.id, isouter=True)
            .where(each.id.in_(sorted(trace_ids)))
            .group_by(each.id, _its.trace_id)
            .order_by(each.id)
        )
        found = []
        for vhost, at, text, *counts in await connection.execute(query):
            seen = dict(zip(_NUMBERS, map(int, counts), strict=True))
            proposals = _decode(text) if text else ()
            found.append(TraceCoverage(vhost=vhost, looked_at=at, found=proposals, **seen))
        return found

    @writes
    async def put(
        self, connection: AsyncConnection, seen: TraceCoverage, found: Sequence[RuleProposal]
    ) -> None:
        """Keep what was found in what was ``seen``, instead of what was found before."""
        text = msgspec.json.encode(found).decode()
        row = seen.trace_id, now(), seen.publishes, seen.programs, text
        changing = tuple(tables.proposals.columns.keys()[1:])
        await self.database.dialect.upsert_many(connection, tables.proposals, [row], changing)


async def forget_in_hand(connection: AsyncConnection, trace_id: int) -> None:
    """Have a trace be looked at anew if participants are proposed, whose numbers have changed."""
    query = select(_its.found).where(_its.trace_id == trace_id)
    found = _decode((await connection.execute(query)).scalar() or "[]")
    kept = [each for each in found if each.kind != "in_hand"]
    if len(kept) < len(found):
        await connection.execute(
            update(tables.proposals)
            .where(_its.trace_id == trace_id)
            .values(found=msgspec.json.encode(kept).decode(), publishes=0)
        )
