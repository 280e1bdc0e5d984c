"""Links whose cause came to its publisher by a way outside the broker."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.causality.ranges import names_of
from app.store.database.subject import Subject, reading, reads
from app.store.reading.events import MAX_ID
from app.stored.causality import HiddenLink, HiddenWay, HiddenWays
from model.who import Who
from model.words import EdgeKind, EventType, Way

# How many messages the ways of a trace are counted over, the newest.
MOST = 1_000

# An effect may name several causes: a page never ends between these.
_NEWEST = text(
    "SELECT g.effect_id, g.cause_id, g.rule, g.kind, effect.recorded_at,"
    " effect.participant AS taker, cause.participant AS own, cause.type AS type,"
    " (SELECT handed.participant FROM events AS handed WHERE handed.cause_id = g.cause_id"
    " AND handed.id < g.effect_id AND NOT handed.quiet ORDER BY handed.id DESC LIMIT 1) AS handed"
    " FROM edges AS g JOIN events AS effect ON effect.id = g.effect_id"
    " JOIN events AS cause ON cause.id = g.cause_id"
    " WHERE g.trace_id = :trace AND g.way <> 0 AND g.way = :hidden AND NOT effect.quiet"
    " AND g.effect_id IN (SELECT DISTINCT effect_id FROM edges WHERE trace_id = :trace"
    " AND way <> 0 AND way = :hidden AND effect_id < :before ORDER BY effect_id DESC LIMIT :most)"
    " ORDER BY g.effect_id DESC, g.cause_id DESC, g.rule"
).bindparams(hidden=int(Way.hidden))


async def newest(
    connection: AsyncConnection, trace_id: int, *, before: int | None = None, limit: int = 100
) -> list[HiddenLink]:
    """The links of the newest ``limit`` publishes that have any, newest first.

    ``before``: only of publishes with a smaller id, for the next page.
    """
    asked = {"trace": trace_id, "before": MAX_ID if before is None else before, "most": limit}
    rows = (await connection.execute(_NEWEST, asked)).all()
    givers = [row.own if row.handed is None else row.handed for row in rows]
    names = await names_of(connection, trace_id, {*givers, *(row.taker for row in rows)})
    return [
        HiddenLink(
            effect=row.effect_id,
            cause=row.cause_id,
            rule=row.rule,
            kind=EdgeKind(row.kind),
            recorded_at=row.recorded_at,
            giver=names.get(giver, Who(giver, "")),
            how=EventType(row.type) if row.handed is None else EventType.received,
            taker=names.get(row.taker, Who(row.taker, "")),
        )
        for row, giver in zip(rows, givers, strict=True)
    ]


class Hidden(Subject):
    """The hidden ways of all traces."""

    newest = reading(newest)

    @reads
    async def ways(self, connection: AsyncConnection, trace_id: int, vhost: str) -> HiddenWays:
        """The newest links by rule and participants, those used last first."""
        links = await newest(connection, trace_id, limit=MOST + 1)
        effects = list(dict.fromkeys(link.effect for link in links))
        truncated = len(effects) > MOST
        if truncated:
            links = [link for link in links if link.effect != effects[-1]]
        return HiddenWays(vhost, len(links), truncated, _ways(links))


def _ways(newest_first: Iterable[HiddenLink]) -> list[HiddenWay]:
    by_way: dict[tuple[str, int, int], list[HiddenLink]] = {}
    for link in newest_first:
        way = (link.rule, link.giver.number, link.taker.number)
        by_way.setdefault(way, []).append(link)
    return [
        HiddenWay(
            rule=links[0].rule,
            giver=links[0].giver,
            taker=links[0].taker,
            links=len(links),
            first_at=links[-1].recorded_at,
            last_at=links[0].recorded_at,
            last_effect=links[0].effect,
        )
        for links in by_way.values()
    ]
