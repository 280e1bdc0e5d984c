"""What did not hold, newest first; and which of it the webhook has yet to be told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Select, case, exists, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store import tables
from app.store.subject import Subject, reads, writes
from app.stored.assertions import Delivery, Violation, ViolationFilter, ViolationKind

_its = tables.violations.c
_NAMES = {"event": "event_id"}


class Violations(Subject):
    """The violations of all traces' assertions."""

    @reads
    async def list(
        self,
        connection: AsyncConnection,
        asked: ViolationFilter,
        *,
        before: int | None = None,
        limit: int = 100,
    ) -> Sequence[Violation]:
        """The newest, only those before a violation's id."""
        query = _query()
        if asked.visible is not None:
            query = query.where(tables.traces.c.vhost.in_(sorted(asked.visible)))
        if asked.assertion is not None:
            query = query.where(_its.assertion == asked.assertion)
        if asked.kind is not None:
            query = query.where(_its.kind == asked.kind.value)
        if asked.since is not None:
            query = query.where(_its.found_at >= asked.since)
        if asked.until is not None:
            query = query.where(_its.found_at < asked.until)
        if before is not None:
            query = query.where(_its.id < before)
        return await _read(connection, query.order_by(_its.id.desc()).limit(limit))

    @writes
    async def claim(
        self, connection: AsyncConnection, now: int, until: int, limit: int
    ) -> Sequence[Violation]:
        """The first of those that the webhook is to be told now (µs).

        Until the time ``until`` nobody else gets them; then they are tried again.
        """
        due = (
            select(_its.id)
            .where(_its.delivery == Delivery.due.value, _its.next_at <= now)
            .order_by(_its.next_at, _its.id)
            .limit(limit)
        )
        ids = [*(await connection.execute(due)).scalars()]
        if not ids:
            return []
        # Whoever else found the same waits here for this transaction, and then finds them claimed.
        claimed = await connection.execute(
            update(tables.violations)
            .where(_its.id.in_(ids), _its.delivery == Delivery.due.value, _its.next_at <= now)
            .values(next_at=until)
            .returning(_its.id)
        )
        mine = sorted(claimed.scalars())
        return await _read(connection, _query().where(_its.id.in_(mine)).order_by(_its.id))

    @writes
    async def told(
        self,
        connection: AsyncConnection,
        violation_id: int,
        *,
        at: int,
        error: str | None = None,
        next_at: int | None = None,
    ) -> None:
        """Note an attempt to tell the webhook, at a time (µs).

        ``error`` is why it failed; then it is tried again at ``next_at``, None for never.
        """
        state = Delivery.delivered
        if error is not None:
            state = Delivery.given_up if next_at is None else Delivery.due
        await connection.execute(
            update(tables.violations)
            .where(_its.id == violation_id, _its.delivery == Delivery.due.value)
            .values(
                delivery=state.value,
                attempts=_its.attempts + 1,
                next_at=next_at,
                delivered_at=at if error is None else None,
                error=error,
            )
        )

    @reads
    async def deliveries(self, connection: AsyncConnection) -> dict[Delivery, int]:
        """How many of those that are kept the webhook was told, and of how many not."""
        query = select(_its.delivery, func.count()).group_by(_its.delivery)
        return {Delivery(state): number for state, number in await connection.execute(query)}


def _query() -> Select[Any]:
    columns = [
        _its[_NAMES.get(name, name)].label(name)
        for name in Violation.__struct_fields__
        if name not in ("vhost", "complete")
    ]
    gaps = tables.gaps.c
    # A past may be missing from any gap before; an order is lost between the root and the event.
    is_of_past = _its.kind == ViolationKind.unpreceded.value
    first = case((is_of_past, 0), else_=func.coalesce(_its.root, _its.event_id))
    last = case((is_of_past, _its.event_id), else_=_its.last_id)
    spans_gap = exists().where(
        gaps.trace_id == _its.trace_id,
        gaps.after_event_id < last,
        or_(gaps.before_event_id.is_(None), gaps.before_event_id > first),
    )
    return select(tables.traces.c.vhost, *columns, (~spans_gap).label("complete")).join_from(
        tables.violations, tables.traces, tables.traces.c.id == _its.trace_id
    )


async def _read(connection: AsyncConnection, query: Select[Any]) -> list[Violation]:
    return [
        Violation(
            **{
                **row,
                "kind": ViolationKind(row["kind"]),
                "delivery": Delivery(row["delivery"]),
                "complete": bool(row["complete"]),
            }
        )
        for row in (await connection.execute(query)).mappings()
    ]
