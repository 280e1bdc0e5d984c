"""Names that people give to participants: kept by identity, so they outlive the participant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import and_, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import ConflictError, NotFoundError
from app.store.database import tables
from app.store.database.chunks import rows_with
from app.store.database.subject import Subject, reads, writes
from app.tracker.identity import Identity, Policy

MOST = 1_000  # of one trace

_SHOWING = tuple(policy for policy in Policy if policy.shows_names)

_who = tables.participants.c
_given = tables.aliases.c


class Aliases(Subject):
    """The aliases of all traces; ``number`` is a participant's. Both raise `NotFoundError`."""

    @writes
    async def give(
        self, connection: AsyncConnection, trace_id: int, number: int, alias: str
    ) -> None:
        """Name a participant. Raises `ConflictError` if there are too many aliases."""
        key = await _key(connection, trace_id, number)
        await _make_room(connection, trace_id, key)
        given = [(trace_id, key, alias)]
        await self.database.dialect.upsert_many(connection, tables.aliases, given, ("alias",))
        await connection.execute(
            update(tables.participants)
            .where(_who.trace_id == trace_id, _who.key == key)
            .values(name=alias)
        )

    @writes
    async def take_back(self, connection: AsyncConnection, trace_id: int, number: int) -> None:
        key = await _key(connection, trace_id, number)
        gone = await connection.execute(
            delete(tables.aliases).where(_given.trace_id == trace_id, _given.key == key)
        )
        if gone.rowcount == 0:
            raise NotFoundError(f"participant {number} has no alias")
        query = (
            select(_who.number, _who.user, _who.place, _who.client, _who.assumed)
            .add_columns(tables.traces.c.policy)
            .join(tables.traces, tables.traces.c.id == _who.trace_id)
            .where(_who.trace_id == trace_id, _who.key == key)
        )
        for each, user, place, client, assumed, policy in (await connection.execute(query)).all():
            who = Identity.stored(key, user, place, client, assumed, Policy(policy))
            await _call(connection, trace_id, each, name=who.label(each))

    async def learn(self, trace_id: int) -> int:
        """Name participants after their clients, where those became known later; returns how many.

        Only where the client's name is shown, and does not decide who acts.
        """
        found = await self._known_later(trace_id)
        if found:
            await self._name(trace_id, found)
        return len(found)

    @reads
    async def _known_later(
        self, connection: AsyncConnection, trace_id: int
    ) -> Sequence[tuple[int, Identity]]:
        query = (
            select(_who.number, _who.key, _who.user, _who.place, tables.traces.c.policy)
            .add_columns(func.max(tables.connections.c.client))
            .join(tables.traces, tables.traces.c.id == _who.trace_id)
            .join(tables.channels, tables.CHANNELS_OF_PARTICIPANT)
            .join(
                tables.connections,
                and_(
                    tables.connections.c.name == tables.channels.c.connection,
                    tables.connections.c.user == tables.channels.c.user,
                ),
            )
            .where(
                _who.trace_id == trace_id,
                _who.client.is_(None),
                ~_who.assumed,
                tables.traces.c.policy.in_(_SHOWING),
                tables.connections.c.client.is_not(None),
            )
            .group_by(_who.number, _who.key, _who.user, _who.place, tables.traces.c.policy)
            .limit(MOST)
        )
        return [
            (number, Identity.stored(key, user, place, client, False, Policy(policy)))
            for number, key, user, place, policy, client in await connection.execute(query)
        ]

    @writes
    async def _name(
        self, connection: AsyncConnection, trace_id: int, known: Sequence[tuple[int, Identity]]
    ) -> None:
        for number, who in known:
            new = {"key": who.key, "name": who.label(number)}
            await with_aliases(connection, trace_id, [new])
            await _call(connection, trace_id, number, name=new["name"], client=who.client or "")


async def _call(connection: AsyncConnection, trace_id: int, number: int, **values: str) -> None:
    await connection.execute(
        update(tables.participants)
        .where(_who.trace_id == trace_id, _who.number == number)
        .values(**values)
    )


async def with_aliases(
    connection: AsyncConnection, trace_id: int, participants: Sequence[dict[str, Any]]
) -> None:
    """Put aliases into new rows of participants: ``name`` becomes that of their ``key``."""
    if not participants:
        return
    query = select(_given.key, _given.alias).where(_given.trace_id == trace_id)
    keys = {each["key"] for each in participants}
    known = {row.key: row.alias for row in await rows_with(connection, query, _given.key, keys)}
    for each in participants:
        each["name"] = known.get(each["key"], each["name"])


async def _key(connection: AsyncConnection, trace_id: int, number: int) -> str:
    query = select(_who.key).where(_who.trace_id == trace_id, _who.number == number)
    key: str | None = (await connection.execute(query)).scalar_one_or_none()
    if key is None:
        raise NotFoundError(f"no participant has the number {number}")
    return key


async def _make_room(connection: AsyncConnection, trace_id: int, key: str) -> None:
    """Forget the aliases of participants that are gone, if there are too many."""
    its_own = _given.trace_id == trace_id
    count = select(func.count()).where(its_own, _given.key != key)
    if (await connection.execute(count)).scalar_one() < MOST:
        return
    present = select(_who.key).where(_who.trace_id == trace_id)
    await connection.execute(
        delete(tables.aliases).where(its_own, _given.key != key, _given.key.not_in(present))
    )
    if (await connection.execute(count)).scalar_one() >= MOST:
        raise ConflictError(f"the trace has {MOST} aliases; take one back first")
