"""Violations, newest first, and their delivery to the webhook."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Select, and_, case, exists, func, not_, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.database import tables
from app.store.database.chunks import columns, filters, rows_with
from app.store.database.subject import Subject, reads, writes
from app.stored.assertions import (
    Notification,
    Violation,
    ViolationFilter,
    ViolationKind,
    WebhookState,
)

_gaps = tables.gaps.c
_traces = tables.traces.c
_violations = tables.violations.c
# The longest wait of a due violation (µs).
LONGEST_WAIT = 600_000_000
_NAMES = {"event": "event_id"}


class Violations(Subject):
    """The violations of all traces' assertions."""

    @reads
    async def list(
        self,
        connection: AsyncConnection,
        request: ViolationFilter,
        *,
        before_id: int | None = None,
        limit: int = 100,
    ) -> Sequence[Violation]:
        """The newest violations, or those before an id."""
        conditions = filters(
            (_traces.vhost.in_, request.visible),
            (_violations.assertion.__eq__, request.assertion),
            (_violations.kind.__eq__, request.kind),
            (_violations.found_at.__ge__, request.since),
            (_violations.found_at.__lt__, request.until),
            (_violations.id.__lt__, before_id),
        )
        query = _query().where(*conditions).order_by(_violations.id.desc()).limit(limit)
        return await _read(connection, query)

    @reads
    async def of_events(
        self, connection: AsyncConnection, trace_id: int, events: Collection[int]
    ) -> Sequence[Violation]:
        """The violations by these events of a trace, in the order of the events."""
        # By all kinds, as their index has the kind before the event.
        of_trace = _violations.trace_id == trace_id, _violations.kind.in_([*ViolationKind])
        query = _query().where(*of_trace)
        rows = await rows_with(connection, query, _violations.event_id, events)
        return sorted(_violations_of(rows), key=lambda one: (one.event, one.assertion))

    @writes
    async def claim(
        self, connection: AsyncConnection, moment: int, deadline: int, limit: int
    ) -> Sequence[Notification]:
        """The violations that the webhook is to be told first, taking each assertion in turn.

        Nobody else gets them before the ``deadline``; then they are tried again. Times in µs.
        """
        notifications: list[Notification] = []
        for unit in (await connection.execute(_due(moment).limit(limit))).all():
            is_of_unit = _violations.id == unit.id if unit.summary is None else _is_of(unit)
            # Another service that found the same waits here, and then finds it claimed.
            rows = await connection.execute(
                update(tables.violations)
                .where(is_of_unit, *_is_due(moment))
                .values(next_at=deadline)
                .returning(_violations.id)
            )
            ids = [*rows.scalars()]
            if ids:
                [first] = await _read(connection, _query().where(_violations.id == min(ids)))
                notifications.append(Notification(first, len(ids), max(ids)))
        return notifications

    @writes
    async def note_notification(
        self,
        connection: AsyncConnection,
        notification: Notification,
        *,
        moment: int,
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
                _is_of(notification.first),
                _violations.id.between(notification.first.id, notification.last),
                _violations.delivery == WebhookState.due.value,
            )
            .values(
                delivery=state.value,
                attempts=_violations.attempts + 1,
                next_at=next_at,
                delivered_at=moment if error is None else None,
                error=error,
            )
        )

    @reads
    async def deliveries(self, connection: AsyncConnection) -> dict[WebhookState, int]:
        """The number of stored violations by the state of their delivery."""
        query = select(_violations.delivery, func.count()).group_by(_violations.delivery)
        return {WebhookState(state): number for state, number in await connection.execute(query)}


def _due(moment: int) -> Select[Any]:
    """The violations to tell in one request each: the first of each assertion before any second."""
    of_unit = columns(_violations, "trace_id assertion summary")
    own_unit = case((_violations.summary.is_(None), _violations.id), else_=0)
    units = (
        select(
            func.min(_violations.id).label("id"),
            func.min(_violations.next_at).label("next_at"),
            *of_unit,
        )
        .where(*_is_due(moment))
        .group_by(*of_unit, own_unit)
        .subquery()
    )
    unit = units.c
    turn = func.row_number().over(
        partition_by=(unit.trace_id, unit.assertion), order_by=(unit.next_at, unit.id)
    )
    return select(units).order_by(turn, unit.next_at, unit.id)


def _is_due(moment: int) -> tuple[ColumnElement[bool], ...]:
    """The conditions that a violation is to be told, or that a clock ahead has delayed it."""
    waits = _violations.next_at.between(moment + 1, moment + LONGEST_WAIT)
    return _violations.delivery == WebhookState.due.value, not_(waits)


def _is_of(violation: Any) -> ColumnElement[bool]:
    """The condition that violations are of the same assertion and summary."""
    return and_(
        _violations.trace_id == violation.trace_id,
        _violations.assertion == violation.assertion,
        _violations.summary.is_not_distinct_from(violation.summary),
    )


def _query() -> Select[Any]:
    columns = [
        _violations[_NAMES.get(name, name)].label(name)
        for name in Violation.__struct_fields__
        if name not in ("vhost", "complete")
    ]
    # A past may be missing from any gap before; an order is lost between the root and the event.
    is_of_past = _violations.kind == ViolationKind.unpreceded.value
    first = case((is_of_past, 0), else_=func.coalesce(_violations.root, _violations.event_id))
    last = case((is_of_past, _violations.event_id), else_=_violations.last_id)
    spans_gap = exists().where(
        _gaps.trace_id == _violations.trace_id,
        _gaps.after_event_id < last,
        or_(_gaps.before_event_id.is_(None), _gaps.before_event_id > first),
    )
    return select(_traces.vhost, *columns, (~spans_gap).label("complete")).join_from(
        tables.violations, tables.traces, _traces.id == _violations.trace_id
    )


async def _read(connection: AsyncConnection, query: Select[Any]) -> list[Violation]:
    return _violations_of(await connection.execute(query))


def _violations_of(rows: Iterable[Any]) -> list[Violation]:
    return [msgspec.convert(row, Violation, from_attributes=True, strict=False) for row in rows]
