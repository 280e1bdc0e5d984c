"""Assertions, which people write, and their results, which the trace's run writes.

A step of judging is stored in one transaction: how far, how many, and the violations. It names the
event that it began after, so a late or repeated step changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec.structs import asdict
from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import BadRequestError, NotFoundError
from app.store.database import tables
from app.store.database.chunks import filters, keep_newest
from app.store.database.subject import Subject, reads, writes
from app.store.holding.leases import lock_trace
from app.stored.assertions import (
    MOST_A_MINUTE,
    HeldAssertion,
    JudgingStep,
    NewViolation,
    WebhookState,
)
from model.times import MINUTE

MOST_ASSERTIONS = 100
"""The number of assertions that a trace may have."""

MOST_VIOLATIONS = 10_000
"""The number of violations kept of a trace; counts go on."""

_assertions = tables.assertions.c
_event_ids = tables.event_ids.c
_traces = tables.traces.c
_violations = tables.violations.c
_COUNTS = ("waiting", "held", "violated", "unknown")


class Assertions(Subject):
    """The assertions of all traces."""

    @reads
    async def list(
        self, connection: AsyncConnection, vhosts: Collection[str] | None = None
    ) -> Sequence[HeldAssertion]:
        """The assertions of the virtual hosts that may be seen, in their order."""
        query = _query().where(*filters((_traces.vhost.in_, vhosts)))
        return await _read(connection, query.order_by(_traces.vhost, _assertions.position))

    @reads
    async def of_traces(
        self, connection: AsyncConnection, trace_ids: Collection[int]
    ) -> Sequence[HeldAssertion]:
        if not trace_ids:
            return []
        query = _query().where(_assertions.trace_id.in_(sorted(trace_ids)))
        return await _read(connection, query.order_by(_assertions.trace_id, _assertions.position))

    @writes
    async def set(
        self, connection: AsyncConnection, trace_id: int, texts: Mapping[str, str], set_by: str
    ) -> None:
        """Replace a trace's assertions by these texts by name; unchanged ones go on.

        Raises `BadRequestError` for too many, `NotFoundError`.
        """
        if len(texts) > MOST_ASSERTIONS:
            raise BadRequestError(f"a virtual host has at most {MOST_ASSERTIONS} assertions")
        await lock_trace(connection, trace_id, None)
        stored = await _texts(connection, trace_id)
        obsolete = [name for name, text in stored.items() if texts.get(name) != text]
        await _remove(connection, trace_id, obsolete)
        # The trace's stored events have smaller ids.
        next_id = (await connection.execute(select(_event_ids.next))).scalar_one()
        for position, (name, text) in enumerate(texts.items()):
            conditions = _assertions.trace_id == trace_id, _assertions.name == name
            statement: Any = update(tables.assertions).where(*conditions)
            values: dict[str, Any] = {"position": position}
            if stored.get(name) != text:
                statement = insert(tables.assertions)
                values |= {"trace_id": trace_id, "name": name, "text": text, "set_by": set_by}
                values |= {"set_at": self.database.clock(), **dict.fromkeys(_COUNTS, 0)}
                values |= {"from_event_id": next_id, "judged_id": next_id - 1}
            await connection.execute(statement.values(values))

    @writes
    async def remove(self, connection: AsyncConnection, trace_id: int, name: str) -> None:
        """Remove an assertion; its violations stay. Raises `NotFoundError`."""
        if not await _remove(connection, trace_id, [name]):
            raise NotFoundError("this virtual host has no assertion of that name")

    @writes
    async def note_judgement(
        self,
        connection: AsyncConnection,
        trace_id: int,
        step: JudgingStep,
        delivery: WebhookState = WebhookState.none,
    ) -> bool:
        """Store a step of judging; False if an equal step was stored, or the assertion changed."""
        new = await _new_violations(connection, trace_id, step)
        result = await connection.execute(
            update(tables.assertions)
            .where(
                _assertions.trace_id == trace_id,
                _assertions.name == step.name,
                _assertions.text == step.text,
                _assertions.judged_id == step.before,
            )
            .values(
                judged_id=step.judged_id,
                waiting=step.waiting,
                held=_assertions.held + step.held,
                violated=_assertions.violated + len(new),
                unknown=_assertions.unknown + step.unknown,
            )
        )
        if result.rowcount == 0:
            return False
        if new:
            # Violations of another text of this name by the same events make room.
            same_events = _same_events(trace_id, step)
            await connection.execute(
                delete(tables.violations).where(same_events, _violations.text != step.text)
            )
            moment = self.database.clock()
            room = MOST_A_MINUTE - await _count_since(connection, trace_id, step, moment // MINUTE)
            values = [
                _row(
                    trace_id,
                    step,
                    violation,
                    delivery,
                    moment,
                    None if index < room else moment // MINUTE,
                )
                for index, violation in enumerate(new)
            ]
            await connection.execute(insert(tables.violations), values)
            await _keep_within_bound(connection, trace_id)
        return True


def _row(
    trace_id: int,
    step: JudgingStep,
    violation: NewViolation,
    delivery: WebhookState,
    moment: int,
    summary: int | None,
) -> dict[str, Any]:
    told_at = moment if summary is None else (summary + 1) * MINUTE
    is_due = delivery is WebhookState.due
    fields = asdict(violation)
    return {
        "trace_id": trace_id,
        "assertion": step.name,
        "text": step.text,
        "event_id": fields.pop("event"),
        **fields,
        "found_at": moment,
        "delivery": delivery,
        "attempts": 0,
        "next_at": told_at if is_due else None,
        "summary": summary if is_due else None,
    }


def _query() -> Select[Any]:
    columns = [_assertions[name] for name in HeldAssertion.__struct_fields__ if name != "vhost"]
    return select(_traces.vhost, *columns).join_from(
        tables.assertions, tables.traces, _traces.id == _assertions.trace_id
    )


async def _read(connection: AsyncConnection, query: Select[Any]) -> list[HeldAssertion]:
    return [HeldAssertion(**row) for row in (await connection.execute(query)).mappings()]


async def _texts(connection: AsyncConnection, trace_id: int) -> dict[str, str]:
    """The assertions of a trace, by name and in their order."""
    query = (
        select(_assertions.name, _assertions.text)
        .where(_assertions.trace_id == trace_id)
        .order_by(_assertions.position)
    )
    return {row.name: row.text for row in await connection.execute(query)}


async def _remove(connection: AsyncConnection, trace_id: int, names: Sequence[str]) -> int:
    if not names:
        return 0
    result = await connection.execute(
        delete(tables.assertions).where(
            and_(_assertions.trace_id == trace_id, _assertions.name.in_(names))
        )
    )
    return result.rowcount


def _same_events(trace_id: int, step: JudgingStep) -> ColumnElement[bool]:
    """The condition on stored violations by the same events of any assertion of this name."""
    return and_(
        _violations.trace_id == trace_id,
        _violations.assertion == step.name,
        _violations.event_id.in_([violation.event for violation in step.violations]),
    )


async def _new_violations(
    connection: AsyncConnection, trace_id: int, step: JudgingStep
) -> list[NewViolation]:
    """Violations that are not stored for this text yet, one of each event.

    Several events that are judged together may show the same one.
    """
    if not step.violations:
        return []
    same_events = _same_events(trace_id, step)
    query = select(_violations.event_id).where(same_events, _violations.text == step.text)
    stored = {*(await connection.execute(query)).scalars()}
    first: dict[int, NewViolation] = {}
    for violation in step.violations:
        first.setdefault(violation.event, violation)
    return [violation for event, violation in first.items() if event not in stored]


async def _count_since(
    connection: AsyncConnection, trace_id: int, step: JudgingStep, minute: int
) -> int:
    """The number of an assertion's violations since a minute began, up to `MOST_A_MINUTE`."""
    newest = (
        select(_violations.found_at)
        .where(_violations.trace_id == trace_id, _violations.assertion == step.name)
        .order_by(_violations.id.desc())
        .limit(MOST_A_MINUTE)
    )
    return sum(moment >= minute * MINUTE for moment in (await connection.execute(newest)).scalars())


async def _keep_within_bound(connection: AsyncConnection, trace_id: int) -> None:
    """Remove a trace's violations beyond the bound: the oldest of the assertions with most.

    So a frequent violation does not push out others that the webhook has yet to be told of.
    """
    number = func.count().label("number")
    query = select(_violations.assertion, number).where(_violations.trace_id == trace_id)
    by_name = await connection.execute(query.group_by(_violations.assertion))
    counts = {row.assertion: row.number for row in by_name}
    share = _share(counts.values())
    for name, count in counts.items():
        if count > share:
            conditions = _violations.trace_id == trace_id, _violations.assertion == name
            await keep_newest(connection, tables.violations, share, *conditions)


def _share(counts: Collection[int]) -> int:
    """The number of violations that each assertion may keep, where some have fewer."""
    remaining = MOST_VIOLATIONS
    for sharers, count in zip(range(len(counts), 0, -1), sorted(counts), strict=True):
        if count * sharers > remaining:
            return remaining // sharers
        remaining -= count
    return MOST_VIOLATIONS
