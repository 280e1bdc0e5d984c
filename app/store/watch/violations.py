"""Violations, newest first; and which of them the webhook has yet to be told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Select, and_, case, exists, func, not_, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.database import tables
from app.store.database.chunks import given
from app.store.database.subject import Subject, reads, writes
from app.stored.assertions import Telling, Violation, ViolationFilter, ViolationKind, WebhookState

_its = tables.violations.c
# Nothing that is to be told waits for longer (µs).
LONGEST_WAIT = 600_000_000
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
        met = given(
            (tables.traces.c.vhost.in_, asked.visible),
            (_its.assertion.__eq__, asked.assertion),
            (_its.kind.__eq__, asked.kind),
            (_its.found_at.__ge__, asked.since),
            (_its.found_at.__lt__, asked.until),
            (_its.id.__lt__, before),
        )
        query = _query().where(*met).order_by(_its.id.desc()).limit(limit)
        return await _read(connection, query)

    @writes
    async def claim(
        self, connection: AsyncConnection, now: int, until: int, limit: int
    ) -> Sequence[Telling]:
        """The first of what the webhook is to be told now (µs), of each assertion in turn.

        Until the time ``until`` nobody else gets them; then they are tried again.
        """
        claimed: list[Telling] = []
        for unit in (await connection.execute(_due(now).limit(limit))).all():
            is_its = _its.id == unit.id if unit.summary is None else _is_of(unit)
            # Whoever else found the same waits here for this transaction, and then finds it
            # claimed.
            rows = await connection.execute(
                update(tables.violations)
                .where(is_its, *_is_due(now))
                .values(next_at=until)
                .returning(_its.id)
            )
            ids = [*rows.scalars()]
            if ids:
                [first] = await _read(connection, _query().where(_its.id == min(ids)))
                claimed.append(Telling(first, len(ids), max(ids)))
        return claimed

    @writes
    async def told(
        self,
        connection: AsyncConnection,
        telling: Telling,
        *,
        at: int,
        error: str | None = None,
        next_at: int | None = None,
    ) -> None:
        """Note an attempt to tell the webhook, at a time (µs).

        ``error`` is why it failed; then it is tried again at ``next_at``, None for never.
        """
        state = WebhookState.delivered
        if error is not None:
            state = WebhookState.given_up if next_at is None else WebhookState.due
        await connection.execute(
            update(tables.violations)
            .where(
                _is_of(telling.first),
                _its.id.between(telling.first.id, telling.last),
                _its.delivery == WebhookState.due.value,
            )
            .values(
                delivery=state.value,
                attempts=_its.attempts + 1,
                next_at=next_at,
                delivered_at=at if error is None else None,
                error=error,
            )
        )

    @reads
    async def deliveries(self, connection: AsyncConnection) -> dict[WebhookState, int]:
        """The number of those kept that the webhook was told, and of those that it was not."""
        query = select(_its.delivery, func.count()).group_by(_its.delivery)
        return {WebhookState(state): number for state, number in await connection.execute(query)}


def _due(now: int) -> Select[Any]:
    """The violations to tell in one request each: the first of each assertion before any second."""
    its_own = case((_its.summary.is_(None), _its.id), else_=0)
    units = (
        select(
            func.min(_its.id).label("id"),
            func.min(_its.next_at).label("next_at"),
            _its.trace_id,
            _its.assertion,
            _its.summary,
        )
        .where(*_is_due(now))
        .group_by(_its.trace_id, _its.assertion, _its.summary, its_own)
        .subquery()
    )
    its = units.c
    turn = func.row_number().over(
        partition_by=(its.trace_id, its.assertion), order_by=(its.next_at, its.id)
    )
    return select(units).order_by(turn, its.next_at, its.id)


def _is_due(now: int) -> tuple[ColumnElement[bool], ...]:
    """Whether one is to be told, or waits for longer than anything does: a clock was ahead."""
    waits = _its.next_at.between(now + 1, now + LONGEST_WAIT)
    return _its.delivery == WebhookState.due.value, not_(waits)


def _is_of(one: Any) -> ColumnElement[bool]:
    """Those of one assertion that the same summary tells of, or none."""
    return and_(
        _its.trace_id == one.trace_id,
        _its.assertion == one.assertion,
        _its.summary.is_not_distinct_from(one.summary),
    )


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
    found = await connection.execute(query)
    return [msgspec.convert(row, Violation, from_attributes=True, strict=False) for row in found]
