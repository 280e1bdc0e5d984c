"""Assertions, and what came of them: written by people, and by whoever runs their trace.

What is judged is stored in one transaction: how far, how many, and what did not hold. It names the
place that it began at, so whoever comes late, or again, changes nothing.
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
from app.store.capture.leases import lock_trace
from app.store.database import tables
from app.store.database.chunks import given, keep_newest
from app.store.database.subject import Subject, reads, writes
from app.stored.assertions import (
    MOST_A_MINUTE,
    HeldAssertion,
    JudgingStep,
    NewViolation,
    WebhookState,
)
from model.times import MINUTE

MOST_ASSERTIONS = 100
"""So many assertions a trace may have."""

MOST_VIOLATIONS = 10_000
"""So many violations of a trace are kept; counts go on."""

_its = tables.assertions.c
_found = tables.violations.c
_COUNTS = ("waiting", "held", "violated", "unknown")


class Assertions(Subject):
    """The assertions of all traces."""

    @reads
    async def list(
        self, connection: AsyncConnection, vhosts: Collection[str] | None = None
    ) -> Sequence[HeldAssertion]:
        """Those of all virtual hosts that may be seen, by virtual host and in their order."""
        query = _query().where(*given((tables.traces.c.vhost.in_, vhosts)))
        return await _read(connection, query.order_by(tables.traces.c.vhost, _its.position))

    @reads
    async def of_traces(
        self, connection: AsyncConnection, trace_ids: Collection[int]
    ) -> Sequence[HeldAssertion]:
        if not trace_ids:
            return []
        query = _query().where(_its.trace_id.in_(sorted(trace_ids)))
        return await _read(connection, query.order_by(_its.trace_id, _its.position))

    @writes
    async def set(
        self, connection: AsyncConnection, trace_id: int, texts: Mapping[str, str], set_by: str
    ) -> None:
        """Have a trace have these, texts by name, and no others.

        One that is there already with this text goes on. Raises `BadRequestError` for too many,
        `NotFoundError`.
        """
        if len(texts) > MOST_ASSERTIONS:
            raise BadRequestError(f"a virtual host has at most {MOST_ASSERTIONS} assertions")
        await lock_trace(connection, trace_id, None)
        known = await _texts(connection, trace_id)
        gone = [name for name, text in known.items() if texts.get(name) != text]
        await _remove(connection, trace_id, gone)
        # Its events have smaller ids, or are stored after this.
        following = (await connection.execute(select(tables.event_ids.c.next))).scalar_one()
        for position, (name, text) in enumerate(texts.items()):
            its = _its.trace_id == trace_id, _its.name == name
            statement: Any = update(tables.assertions).where(*its)
            values: dict[str, Any] = {"position": position}
            if known.get(name) != text:
                statement = insert(tables.assertions)
                values |= {"trace_id": trace_id, "name": name, "text": text, "set_by": set_by}
                values |= {"set_at": self.database.clock(), **dict.fromkeys(_COUNTS, 0)}
                values |= {"from_event_id": following, "judged_id": following - 1}
            await connection.execute(statement.values(values))

    @writes
    async def remove(self, connection: AsyncConnection, trace_id: int, name: str) -> None:
        """Remove one; what it found stays. Raises `NotFoundError`."""
        if not await _remove(connection, trace_id, [name]):
            raise NotFoundError("this virtual host has no assertion of that name")

    @writes
    async def judged(
        self,
        connection: AsyncConnection,
        trace_id: int,
        judged: JudgingStep,
        delivery: WebhookState = WebhookState.none,
    ) -> bool:
        """Note what came of an assertion's events; False if it was judged from there already.

        Also if it is another assertion by now.
        """
        new = await _new(connection, trace_id, judged)
        done = await connection.execute(
            update(tables.assertions)
            .where(
                _its.trace_id == trace_id,
                _its.name == judged.name,
                _its.text == judged.text,
                _its.judged_id == judged.before,
            )
            .values(
                judged_id=judged.judged_id,
                waiting=judged.waiting,
                held=_its.held + judged.held,
                violated=_its.violated + len(new),
                unknown=_its.unknown + judged.unknown,
            )
        )
        if done.rowcount == 0:
            return False
        if new:
            # What another text of this name said of the same events makes room.
            its = _of_these(trace_id, judged)
            await connection.execute(
                delete(tables.violations).where(its, _found.text != judged.text)
            )
            at = self.database.clock()
            alone = MOST_A_MINUTE - await _found_since(connection, trace_id, judged, at // MINUTE)
            values = [
                _row(trace_id, judged, each, delivery, at, None if n < alone else at // MINUTE)
                for n, each in enumerate(new)
            ]
            await connection.execute(insert(tables.violations), values)
            await _keep_within_bound(connection, trace_id)
        return True


def _row(
    trace_id: int,
    judged: JudgingStep,
    one: NewViolation,
    delivery: WebhookState,
    now: int,
    summary: int | None,
) -> dict[str, Any]:
    told_at = now if summary is None else (summary + 1) * MINUTE
    is_due = delivery is WebhookState.due
    found = asdict(one)
    return {
        "trace_id": trace_id,
        "assertion": judged.name,
        "text": judged.text,
        "event_id": found.pop("event"),
        **found,
        "found_at": now,
        "delivery": delivery,
        "attempts": 0,
        "next_at": told_at if is_due else None,
        "summary": summary if is_due else None,
    }


def _query() -> Select[Any]:
    columns = [_its[name] for name in HeldAssertion.__struct_fields__ if name != "vhost"]
    return select(tables.traces.c.vhost, *columns).join_from(
        tables.assertions, tables.traces, tables.traces.c.id == _its.trace_id
    )


async def _read(connection: AsyncConnection, query: Select[Any]) -> list[HeldAssertion]:
    return [HeldAssertion(**row) for row in (await connection.execute(query)).mappings()]


async def _texts(connection: AsyncConnection, trace_id: int) -> dict[str, str]:
    """The assertions of a trace, by name and in their order."""
    query = select(_its.name, _its.text).where(_its.trace_id == trace_id).order_by(_its.position)
    return {row.name: row.text for row in await connection.execute(query)}


async def _remove(connection: AsyncConnection, trace_id: int, names: Sequence[str]) -> int:
    if not names:
        return 0
    gone = await connection.execute(
        delete(tables.assertions).where(and_(_its.trace_id == trace_id, _its.name.in_(names)))
    )
    return gone.rowcount


def _of_these(trace_id: int, judged: JudgingStep) -> ColumnElement[bool]:
    """The stored violations by the same events, of whichever assertion of this name."""
    return and_(
        _found.trace_id == trace_id,
        _found.assertion == judged.name,
        _found.event_id.in_([each.event for each in judged.violations]),
    )


async def _new(
    connection: AsyncConnection, trace_id: int, judged: JudgingStep
) -> list[NewViolation]:
    """Violations that this very assertion has not found before, one of each event.

    Several events that are judged together may show the same one.
    """
    if not judged.violations:
        return []
    its = _of_these(trace_id, judged)
    known = select(_found.event_id).where(its, _found.text == judged.text)
    there = {*(await connection.execute(known)).scalars()}
    first: dict[int, NewViolation] = {}
    for each in judged.violations:
        first.setdefault(each.event, each)
    return [each for event, each in first.items() if event not in there]


async def _found_since(
    connection: AsyncConnection, trace_id: int, judged: JudgingStep, minute: int
) -> int:
    """The number of violations of an assertion found since a minute began, as far as it matters."""
    newest = (
        select(_found.found_at)
        .where(_found.trace_id == trace_id, _found.assertion == judged.name)
        .order_by(_found.id.desc())
        .limit(MOST_A_MINUTE)
    )
    return sum(at >= minute * MINUTE for at in (await connection.execute(newest)).scalars())


async def _keep_within_bound(connection: AsyncConnection, trace_id: int) -> None:
    """Remove violations of a trace beyond the bound: the oldest of the assertions with most.

    So one that is violated again and again removes its own, and not what the webhook has yet to be
    told of others.
    """
    number = func.count().label("number")
    counted = select(_found.assertion, number).where(_found.trace_id == trace_id)
    by_name = await connection.execute(counted.group_by(_found.assertion))
    counts = {row.assertion: row.number for row in by_name}
    kept = _share(counts.values())
    for name, count in counts.items():
        if count > kept:
            its = _found.trace_id == trace_id, _found.assertion == name
            await keep_newest(connection, tables.violations, kept, *its)


def _share(counts: Collection[int]) -> int:
    """The number of violations that each assertion may keep, where some have fewer."""
    left = MOST_VIOLATIONS
    for others, count in zip(range(len(counts), 0, -1), sorted(counts), strict=True):
        if count * others > left:
            return left // others
        left -= count
    return MOST_VIOLATIONS
