"""The progress of each trace's spans on their way to a collector, and the next ones.

A position is stored after the collector has taken what is before it, in a statement that names the
place before: so what is sent after a kill is sent again, with the same ids, and two services do not
skip anything. Settlements, and losses, are found by the event before them, and by their time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import case, delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.database import tables
from app.store.database.chunks import chunks, columns, rows_with
from app.store.database.engine import Database
from app.store.database.subject import Subject, reads, writes
from app.store.spans.beginnings import Beginnings
from app.store.spans.portions import ENDED, LOST, NEXT, DueParts, PortionReader
from app.stored.exporting import CopyLoss, SentSpans, SpanPortion, SpanPosition
from model.sampling import SpanShare
from model.spans import ExportedSpan, LinkDelivery
from model.times import Duration
from model.words import Disposition

_events = tables.events.c
_kept_roots = tables.kept_roots.c
_sent_spans = tables.sent_spans.c
_traces = tables.traces.c

ALL = (SpanShare(None, None, 1.0),)
MOST_TRACES = 20
"""Traces of which the ways back of messages are remembered, those that were used last."""


class SpanExports(Subject):
    """The spans of all traces on their way to a collector."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._beginnings: dict[int, Beginnings] = {}

    @writes
    async def begin(self, connection: AsyncConnection, vhosts: Collection[str], since: int) -> None:
        """Begin with what comes from now on of traces that have no place; forget all others'.

        With all of those traces that are new: created after a time (µs), or since any span was
        sent.
        """
        newest = (await connection.execute(select(func.max(_sent_spans.read_at)))).scalar_one()
        since = min(since, newest or since)
        query = select(
            *columns(_traces, "id vhost"),
            case((_traces.created_at < since, _traces.last_event_id), else_=0).label("begin"),
        )
        traces = (await connection.execute(query)).all()
        ours = [row for row in traces if row.vhost in vhosts]
        others = sorted({row.id for row in traces} - {row.id for row in ours})
        for chunk in chunks(others):
            await connection.execute(
                delete(tables.sent_spans).where(_sent_spans.trace_id.in_(chunk))
            )
        moment = self.database.clock()
        rows = [(row.id, row.begin, moment, moment, 0, 0, 0, 0) for row in ours]
        await self.database.dialect.upsert_many(connection, tables.sent_spans, rows, ())

    @reads
    async def positions(
        self, connection: AsyncConnection, trace_ids: Collection[int]
    ) -> list[SpanPosition]:
        """The places of these traces, and of those that no service runs, those behind first."""
        names = columns(_traces, "id vhost")
        query = (
            select(*names, _sent_spans.read_id, _traces.last_event_id, _sent_spans.lost_at)
            .join_from(tables.sent_spans, tables.traces, _traces.id == _sent_spans.trace_id)
            .where(or_(_traces.id.in_(sorted(trace_ids)), _traces.holder.is_(None)))
            .order_by(_sent_spans.read_at)
        )
        rows = await connection.execute(query)
        return [SpanPosition._make([*place, CopyLoss(at, 0, "")]) for *place, at in rows]

    @reads
    async def next(
        self,
        connection: AsyncConnection,
        place: SpanPosition,
        rules: Sequence[SpanShare],
        limit: int,
        until: int,
        sent_ends: Collection[int] = (),
    ) -> SpanPortion:
        """The spans of the next events, and of the next ends, that were recorded ``until`` a time.

        At most ``limit`` of each: one acknowledgement may end thousands of deliveries.
        ``sent_ends`` are deliveries whose end was sent already.
        """
        trace_id, vhost, read_id, last_id, lost = place
        binds = {"trace": trace_id, "after": read_id, "last": last_id, "most": limit}
        rows, moment = (await connection.execute(NEXT, binds)).all(), self.database.clock()
        # A time ahead of the clock is of a clock that was, and may be of any age.
        young = next((k for k, row in enumerate(rows) if until < row.recorded_at <= moment), None)
        goes_on = young is None and len(rows) == limit
        rows = rows[:young]
        through = rows[-1].id if rows else read_id
        binds |= {"through": through, "most": limit + len(sent_ends) + 1}
        ended = [row for row in await connection.execute(ENDED, binds) if row.id not in sent_ends]
        if len(ended) > limit:
            ended, goes_on = ended[:limit], True
            through = ended[-1].hold
            rows = [row for row in rows if row.id <= through]
        read_at = rows[-1].recorded_at if rows else 0
        due = DueParts()
        for row in rows:
            if not row.quiet:
                is_over = row.hold is None and row.settlement != Disposition.in_hand
                due.add(row, row.cause_id, is_over=is_over)
        due.heads.update(row.cause_id or row.id for row in ended)
        due.ended.update(row.id for row in ended)
        lost = await self._losses(connection, place, limit, due)
        reader = PortionReader(
            connection, trace_id, vhost, through, self._of(trace_id, vhost), rules
        )
        spans, failed, cut = await self._spans(reader, due, read_id)
        return SpanPortion(
            place=place,
            through=through,
            read_at=read_at,
            lost=lost,
            spans=spans,
            ended=frozenset(row.id for row in ended if row.hold == through)
            | (frozenset(sent_ends) if through == read_id else frozenset()),
            failed=failed,
            events=len(due.sent) + len(due.handed),
            cut=cut,
            goes_on=goes_on,
        )

    @reads
    async def of_period(
        self,
        connection: AsyncConnection,
        place: SpanPosition,
        period: tuple[int, int],
        limit: int,
        arrivals: Mapping[int, LinkDelivery],
    ) -> SpanPortion:
        """The spans of the next events that were recorded in a period, as far as they are known."""
        trace_id, vhost, read_id, last_id, lost = place
        binds = {"trace": trace_id, "after": read_id, "last": last_id, "most": limit}
        rows, due = (await connection.execute(NEXT, binds)).all(), DueParts()
        for row in rows:
            if not row.quiet and period[0] <= row.recorded_at < period[1]:
                due.add(row, row.cause_id, is_over=True)
        due.lost |= due.sent
        through = rows[-1].id if rows else last_id
        beginnings = self._of(trace_id, vhost)
        reader = PortionReader(connection, trace_id, vhost, through, beginnings, ALL)
        read = await reader.read(due)
        spans = [*reader.spans(read, due, (), arrivals)]
        count = sum(read.beginnings[m.event].root == m.event for m in read.messages)
        return SpanPortion(
            place=place,
            through=through,
            read_at=rows[-1].recorded_at if rows else 0,
            lost=lost,
            spans=spans,
            events=len(due.sent) + len(due.handed),
            conversations=count,
            goes_on=len(rows) == limit,
        )

    def _of(self, trace_id: int, vhost: str) -> Beginnings:
        beginnings = self._beginnings.pop(trace_id, None) or Beginnings(vhost)
        self._beginnings[trace_id] = beginnings  # the last one that was used
        if len(self._beginnings) > MOST_TRACES:
            del self._beginnings[next(iter(self._beginnings))]
        return beginnings

    async def _losses(
        self, connection: AsyncConnection, place: SpanPosition, limit: int, due: DueParts
    ) -> CopyLoss:
        """Add the publishes of the next losses; returns the last of these."""
        at, event, queue = place.lost
        binds = {"at": at, "event": event, "queue": queue, "most": limit, "trace": place.trace_id}
        losses = [CopyLoss(*row) for row in await connection.execute(LOST, binds)]
        due.lost.update(loss.event for loss in losses)
        due.heads |= due.lost
        return losses[-1] if losses else place.lost

    async def _spans(
        self, reader: PortionReader, due: DueParts, after: int
    ) -> tuple[list[ExportedSpan], frozenset[int], int]:
        """The due spans, the roots of conversations that failed newly, and how many are cut."""
        if not due.heads:
            return [], frozenset(), 0
        read = await reader.read(due)
        left_out = reader.outside_share(read)
        query = select(_kept_roots.root).where(_kept_roots.trace_id == reader.trace_id)
        rows = await rows_with(reader.connection, query, _kept_roots.root, left_out)
        kept = {row.root for row in rows}
        failed = frozenset(root for root, is_failed in left_out.items() if is_failed) - kept
        spans = {span.context: span for span in reader.spans(read, due, kept | failed)}
        cut = 0
        if failed:
            whole, cut = await reader.whole(sorted(failed), after)
            earlier = reader.spans(await reader.read(whole), whole, failed)
            spans = {span.context: span for span in earlier} | spans
        return [*spans.values()], failed, cut

    @writes
    async def advance(
        self, connection: AsyncConnection, portion: SpanPortion, *, refused: int
    ) -> bool:
        """Store the place behind a portion; False if it is another's turn, or retention's."""
        trace_id, place = portion.place.trace_id, portion.place
        values = {
            "read_id": portion.through,
            "read_at": portion.read_at or _sent_spans.read_at,
            "lost_at": portion.lost.at,
            "sent": _sent_spans.sent + len(portion.spans) - refused,
            "refused": _sent_spans.refused + refused,
            "cut": _sent_spans.cut + portion.cut,
        }
        conditions = _sent_spans.trace_id == trace_id, _sent_spans.read_id == place.read_id
        statement = update(tables.sent_spans).where(*conditions).values(**values)
        rows = [(trace_id, root) for root in sorted(portion.failed)]
        await self.database.dialect.upsert_many(connection, tables.kept_roots, rows, ())
        return bool((await connection.execute(statement)).rowcount)

    @reads
    async def states(self, connection: AsyncConnection) -> list[SentSpans]:
        """The progress of the spans of each trace."""
        moment = self.database.clock()
        waiting = (
            select(_events.recorded_at)
            .where(_events.trace_id == _sent_spans.trace_id, _events.id > _sent_spans.read_id)
            .order_by(_events.id)
            .limit(1)
            .scalar_subquery()
        )
        query = select(
            _traces.vhost,
            _sent_spans.read_id,
            func.coalesce(waiting, moment),
            *columns(_sent_spans, "sent refused missed cut"),
        ).join_from(tables.sent_spans, tables.traces, _traces.id == _sent_spans.trace_id)
        return [
            SentSpans(vhost, through, Duration(max(0, moment - since)), *counts)
            for vhost, through, since, *counts in await connection.execute(
                query.order_by(_traces.vhost)
            )
        ]
