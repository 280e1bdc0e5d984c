"""The rules of links: those that people set for a trace, and those that its events are read by.

A run stores the latter with the first batch that was read by them: so the next run goes on by the
rules that this one ended with.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import BadRequestError, ConflictError, NotFoundError
from app.store.database import tables
from app.store.database.subject import Subject, read_method, writes
from app.store.holding.leases import lock_trace
from app.stored.capture import HeldRule
from app.tracker.links import Origin, Rule, RuleError, TraceRule, check_own
from app.tracker.links.origins import rule_as_text, rule_from_text

log = logging.getLogger(__name__)

_event_ids = tables.event_ids.c
_link_rules = tables.link_rules.c
_own_link_rules = tables.own_link_rules.c


async def list_own(connection: AsyncConnection, trace_id: int) -> list[Rule]:
    """The rules that people have set for a trace, in order."""
    query = (
        select(_own_link_rules.rule)
        .where(_own_link_rules.trace_id == trace_id)
        .order_by(_own_link_rules.position)
    )
    rules = map(_read, (await connection.execute(query)).scalars())
    return [rule for rule in rules if rule is not None]


async def list_effective(connection: AsyncConnection, trace_id: int) -> list[HeldRule]:
    """The rules that a trace's events are read by, in order."""
    query = (
        select(_link_rules.rule, _link_rules.origin, _link_rules.from_event_id)
        .where(_link_rules.trace_id == trace_id)
        .order_by(_link_rules.position)
    )
    return [
        HeldRule(TraceRule(rule, Origin(origin)), from_event_id)
        for text, origin, from_event_id in await connection.execute(query)
        if (rule := _read(text)) is not None
    ]


class LinkRules(Subject):
    """The rules of all traces. ``of_all`` are those that hold in every virtual host."""

    list_own = read_method(list_own)
    list_effective = read_method(list_effective)

    @writes
    async def put(
        self, connection: AsyncConnection, trace_id: int, rule: Rule, of_all: Sequence[TraceRule]
    ) -> bool:
        """Set a rule; False if it replaces its namesake.

        Raises `BadRequestError` for an invalid rule, `ConflictError` if there are too many,
        `NotFoundError`.
        """
        try:
            check_own([rule], of_all)
        except RuleError as error:
            raise BadRequestError(str(error)) from error
        await lock_trace(connection, trace_id, None)  # nobody else counts them meanwhile
        old_rules = {old.name: old for old in await list_own(connection, trace_id)}
        rules = [*(old_rules | {rule.name: rule}).values()]
        try:
            check_own(rules, of_all)
        except RuleError as error:
            raise ConflictError(str(error)) from error
        of_trace = _own_link_rules.trace_id == trace_id
        await connection.execute(delete(tables.own_link_rules).where(of_trace))
        values = [_row(trace_id, position, rule) for position, rule in enumerate(rules)]
        await connection.execute(insert(tables.own_link_rules), values)
        return rule.name not in old_rules

    @writes
    async def remove(self, connection: AsyncConnection, trace_id: int, name: str) -> None:
        """Remove a trace's own rule; raises `NotFoundError`."""
        is_rule = _own_link_rules.trace_id == trace_id, _own_link_rules.name == name
        result = await connection.execute(delete(tables.own_link_rules).where(*is_rule))
        if result.rowcount == 0:
            raise NotFoundError("this virtual host has no rule of its own of that name")


async def store_effective(
    connection: AsyncConnection,
    trace_id: int,
    rules: Sequence[TraceRule],
    from_event_id: int | None,
    *,
    anew: bool = False,
) -> None:
    """Note that events are read by these rules from an event on; None: from the next one.

    Rules that are stored already keep their beginning, unless all of them begin ``anew``.
    """
    if from_event_id is None:
        query = select(_event_ids.next)
        from_event_id = int((await connection.execute(query)).scalar_one())
    old_rules = [] if anew else await list_effective(connection, trace_id)
    starts = {trace_rule.rule.rule: trace_rule.from_event_id for trace_rule in old_rules}
    await connection.execute(delete(tables.link_rules).where(_link_rules.trace_id == trace_id))
    if rules:
        values = [
            {
                **_row(trace_id, position, trace_rule.rule),
                "origin": trace_rule.origin.value,
                "from_event_id": starts.get(trace_rule.rule, from_event_id),
            }
            for position, trace_rule in enumerate(rules)
        ]
        await connection.execute(insert(tables.link_rules), values)


def _row(trace_id: int, position: int, rule: Rule) -> dict[str, Any]:
    text = rule_as_text(rule)
    return {"trace_id": trace_id, "name": rule.name, "position": position, "rule": text}


@lru_cache(maxsize=2_000)
def _read(text: str) -> Rule | None:
    """A stored rule; None, and logged once, for one that this version does not know."""
    try:
        return rule_from_text(text)
    except RuleError as error:
        log.warning("a stored rule of links cannot be read, and does not hold: %s", error)
        return None
