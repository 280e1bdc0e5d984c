"""The rules of redaction that people set for a trace, and those that held before them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import BadRequestError, NotFoundError
from app.store.database import tables
from app.store.database.subject import Subject, read_method, writes
from app.store.holding.leases import lock_trace
from app.stored.capture import TraceRedactions
from app.tracker.redaction import FORMER_RULES, Redaction, RedactionError, check_redactions

_redactions = tables.redactions.c

Rules = tuple[Redaction, ...]


async def of_trace(connection: AsyncConnection, trace_id: int) -> TraceRedactions:
    """A trace's rules, in order, and the sets of rules before them."""
    query = select(_redactions.rules, _redactions.former).where(_redactions.trace_id == trace_id)
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        return TraceRedactions()
    rules, former = map(json.loads, row)
    return TraceRedactions(_read(rules), tuple(map(_read, former)))


class Redactions(Subject):
    """The rules of redaction of all traces."""

    of_trace = read_method(of_trace)

    @writes
    async def put(
        self, connection: AsyncConnection, trace_id: int, rule: Redaction, *, has_key: bool
    ) -> bool:
        """Set a rule; False if it replaces its namesake.

        Raises `BadRequestError` where it cannot hold with the others, or not without a key, and
        `NotFoundError`.
        """

        def add(rules: Rules) -> Rules:
            new = (*({old.name: old for old in rules} | {rule.name: rule}).values(),)
            try:
                check_redactions([rule], has_key=has_key)
                check_redactions(new, has_key=True)
            except RedactionError as error:
                raise BadRequestError(str(error)) from error
            return new

        return len(await self._change(connection, trace_id, add)) == 1

    @writes
    async def remove(self, connection: AsyncConnection, trace_id: int, name: str) -> None:
        """Remove a rule; raises `NotFoundError`."""

        def drop(rules: Rules) -> Rules:
            new = tuple(rule for rule in rules if rule.name != name)
            if new == rules:
                raise NotFoundError("this virtual host has no rule of redaction of that name")
            return new

        await self._change(connection, trace_id, drop)

    async def _change(
        self, connection: AsyncConnection, trace_id: int, change: Callable[[Rules], Rules]
    ) -> set[str]:
        """Change a trace's rules; returns the names that were not there before."""
        await lock_trace(connection, trace_id, None)
        old = await of_trace(connection, trace_id)
        new = change(old.rules)
        if new != old.rules:
            # By these the messages are recognised that are stored, and may come again.
            former = tuple(dict.fromkeys((old.rules, *old.former)))[:FORMER_RULES]
            texts = json.dumps(_plain(new)), json.dumps([_plain(rules) for rules in former])
            dialect = self.database.dialect
            await dialect.upsert_many(
                connection, tables.redactions, [(trace_id, *texts)], ("rules", "former")
            )
        return {rule.name for rule in new} - {rule.name for rule in old.rules}


def _plain(rules: Rules) -> list[dict[str, object]]:
    return [rule.to_json() for rule in rules]


def _read(rules: Sequence[dict[str, object]]) -> Rules:
    return tuple(map(Redaction.from_json, rules))
