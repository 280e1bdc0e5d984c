"""RuleProposals of rules, as they were found last for each trace."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
from sqlalchemy import case, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.database import tables
from app.store.database.subject import Subject, reads, writes
from app.stored.proposals import RuleProposal, TraceCoverage
from model.times import now

_its = tables.proposals.c
_whose = tables.participants.c
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
        query = (
            select(
                _whose.trace_id,
                func.sum(_whose.published),
                func.sum(reactions),
                func.sum(named),
                func.count(func.distinct(_whose.user)) + func.count(func.distinct(_whose.client)),
            )
            .where(_whose.trace_id.in_(sorted(trace_ids)))
            .group_by(_whose.trace_id)
        )
        counted = {row[0]: map(int, row[1:]) for row in await connection.execute(query)}
        each = tables.traces.c
        traces = (
            select(each.id, each.vhost, *(_its[name] for name in _OF_LOOK))
            .join_from(tables.traces, tables.proposals, _its.trace_id == each.id, isouter=True)
            .where(each.id.in_(sorted(trace_ids)))
            .order_by(each.id)
        )
        found = []
        for trace_id, vhost, at, publishes, programs, text in await connection.execute(traces):
            counts = dict(zip(_COUNTED, counted.get(trace_id, (0, 0, 0, 0)), strict=True))
            looked = (at, publishes or 0, programs or 0, _decode(text) if text else ())
            seen = {**counts, **dict(zip(_LOOKED, looked, strict=True))}
            found.append(TraceCoverage(trace_id=trace_id, vhost=vhost, **seen))
        return found

    @writes
    async def put(
        self, connection: AsyncConnection, seen: TraceCoverage, found: Sequence[RuleProposal]
    ) -> None:
        """Keep what was found in what was ``seen``, instead of what was found before."""
        looked = {
            "looked_at": now(),
            "publishes": seen.publishes,
            "programs": seen.programs,
            "found": msgspec.json.encode(found).decode(),
        }
        upsert = self.database.dialect.upsert(tables.proposals)
        await connection.execute(
            upsert.on_conflict_do_update(index_elements=["trace_id"], set_=looked),
            {"trace_id": seen.trace_id, **looked},
        )


_OF_LOOK = ("looked_at", "publishes", "programs", "found")
_LOOKED = ("looked_at", "looked_publishes", "looked_programs", "found")
_COUNTED = ("publishes", "reactions", "named", "programs")
