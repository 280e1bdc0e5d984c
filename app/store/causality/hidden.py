"""Ways outside the broker by which causes reached the participants that name them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.causality.ranges import names_of
from app.store.database.subject import Subject, reads
from app.stored.causality import HiddenWay, HiddenWays
from model.times import Microseconds
from model.who import Who
from model.words import Awareness

# The newest messages of a trace, over which its ways are counted.
MOST_EFFECTS = 1_000

# An effect may name several causes: the last never ends between these.
_NEWEST = text(
    "SELECT g.effect_id, g.rule, effect.recorded_at, effect.participant AS taker,"
    " coalesce((SELECT handed.participant FROM events AS handed WHERE handed.cause_id = g.cause_id"
    " AND handed.id < g.effect_id AND NOT handed.quiet ORDER BY handed.id DESC LIMIT 1),"
    " cause.participant) AS giver"
    " FROM edges AS g JOIN events AS effect ON effect.id = g.effect_id"
    " JOIN events AS cause ON cause.id = g.cause_id"
    " WHERE g.trace_id = :trace AND g.way <> 0 AND g.way = :hidden AND NOT effect.quiet"
    " AND g.effect_id IN (SELECT DISTINCT effect_id FROM edges WHERE trace_id = :trace"
    " AND way <> 0 AND way = :hidden ORDER BY effect_id DESC LIMIT :most)"
    " ORDER BY g.effect_id DESC"
).bindparams(hidden=int(Awareness.hidden))


class Hidden(Subject):
    """Hidden ways."""

    @reads
    async def ways(self, connection: AsyncConnection, trace_id: int, vhost: str) -> HiddenWays:
        """The newest links by rule and participants, those used last first."""
        binds = {"trace": trace_id, "most": MOST_EFFECTS + 1}
        links: Sequence[Any] = (await connection.execute(_NEWEST, binds)).all()
        effects = list(dict.fromkeys(link.effect_id for link in links))
        truncated = len(effects) > MOST_EFFECTS
        if truncated:
            links = [link for link in links if link.effect_id != effects[-1]]
        by_way: dict[tuple[str, int, int], list[Any]] = {}
        for link in links:
            by_way.setdefault((link.rule, link.giver, link.taker), []).append(link)
        numbers = {number for _, *participants in by_way for number in participants}
        names = await names_of(connection, trace_id, numbers)
        ways = [
            HiddenWay(
                rule=rule,
                giver=names.get(giver, Who(giver, "")),
                taker=names.get(taker, Who(taker, "")),
                links=len(uses),
                first_at=Microseconds(uses[-1].recorded_at),
                last_at=Microseconds(uses[0].recorded_at),
                last_effect=uses[0].effect_id,
            )
            for (rule, giver, taker), uses in by_way.items()
        ]
        return HiddenWays(vhost, len(links), truncated, ways)
