"""Names that people give to participants: kept by identity, so they outlive the participant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Select, and_, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import ConflictError, NotFoundError
from app.store.database import tables
from app.store.database.chunks import columns, rows_with
from app.store.database.subject import Subject, reads, writes
from app.tracker.identity import Identity, Policy

MOST_ALIASES = 1_000  # of one trace

_SHOWING = tuple(policy for policy in Policy if policy.shows_names)

_aliases = tables.aliases.c
_channels = tables.channels.c
_connections = tables.connections.c
_participants = tables.participants.c
_traces = tables.traces.c


class Aliases(Subject):
    """The aliases of all traces, by a participant's ``number``; `NotFoundError` without one."""

    @writes
    async def give(
        self, connection: AsyncConnection, trace_id: int, number: int, alias: str
    ) -> None:
        """Name a participant; raises `ConflictError` if there are too many aliases."""
        key = await _key(connection, trace_id, number)
        await _make_room(connection, trace_id, key)
        rows = [(trace_id, key, alias)]
        await self.database.dialect.upsert_many(connection, tables.aliases, rows, ("alias",))
        await connection.execute(
            update(tables.participants)
            .where(_participants.trace_id == trace_id, _participants.key == key)
            .values(name=alias)
        )

    @writes
    async def take_back(self, connection: AsyncConnection, trace_id: int, number: int) -> None:
        key = await _key(connection, trace_id, number)
        result = await connection.execute(
            delete(tables.aliases).where(_aliases.trace_id == trace_id, _aliases.key == key)
        )
        if result.rowcount == 0:
            raise NotFoundError(f"participant {number} has no alias")
        query: Select[Any] = (
            select(*columns(_participants, "number user place client assumed"), _traces.policy)
            .join(tables.traces, _traces.id == _participants.trace_id)
            .where(_participants.trace_id == trace_id, _participants.key == key)
        )
        rows = (await connection.execute(query)).all()
        for namesake, user, place, client, assumed, policy in rows:
            identity = Identity.stored(key, user, place, client, assumed, Policy(policy))
            await _update(connection, trace_id, namesake, name=identity.label(namesake))

    async def learn(self, trace_id: int) -> int:
        """Name participants after clients that became known later; returns how many.

        Only where the policy shows a client's name without deciding by it who acts.
        """
        identities = await self._late_clients(trace_id)
        if identities:
            await self._name(trace_id, identities)
        return len(identities)

    @reads
    async def _late_clients(
        self, connection: AsyncConnection, trace_id: int
    ) -> Sequence[tuple[int, Identity]]:
        fields = *columns(_participants, "number key user place"), _traces.policy
        query: Select[Any] = (
            select(*fields, func.max(_connections.client))
            .join(tables.traces, _traces.id == _participants.trace_id)
            .join(tables.channels, tables.CHANNELS_OF_PARTICIPANT)
            .join(
                tables.connections,
                and_(
                    _connections.name == _channels.connection,
                    _connections.user == _channels.user,
                ),
            )
            .where(
                _participants.trace_id == trace_id,
                _participants.client.is_(None),
                ~_participants.assumed,
                _traces.policy.in_(_SHOWING),
                _connections.client.is_not(None),
            )
            .group_by(*fields)
            .limit(MOST_ALIASES)
        )
        return [
            (number, Identity.stored(key, user, place, client, False, Policy(policy)))
            for number, key, user, place, policy, client in await connection.execute(query)
        ]

    @writes
    async def _name(
        self, connection: AsyncConnection, trace_id: int, identities: Sequence[tuple[int, Identity]]
    ) -> None:
        for number, identity in identities:
            new = {"key": identity.key, "name": identity.label(number)}
            await with_aliases(connection, trace_id, [new])
            values = {"name": new["name"], "client": identity.client or ""}
            await _update(connection, trace_id, number, **values)


async def _update(connection: AsyncConnection, trace_id: int, number: int, **values: str) -> None:
    await connection.execute(
        update(tables.participants)
        .where(_participants.trace_id == trace_id, _participants.number == number)
        .values(**values)
    )


async def with_aliases(
    connection: AsyncConnection, trace_id: int, participants: Sequence[dict[str, Any]]
) -> None:
    """Put aliases into new rows of participants: each ``name`` becomes the alias of its ``key``."""
    if not participants:
        return
    query = select(_aliases.key, _aliases.alias).where(_aliases.trace_id == trace_id)
    keys = {participant["key"] for participant in participants}
    aliases = {row.key: row.alias for row in await rows_with(connection, query, _aliases.key, keys)}
    for participant in participants:
        participant["name"] = aliases.get(participant["key"], participant["name"])


async def _key(connection: AsyncConnection, trace_id: int, number: int) -> str:
    query = select(_participants.key).where(
        _participants.trace_id == trace_id, _participants.number == number
    )
    key: str | None = (await connection.execute(query)).scalar_one_or_none()
    if key is None:
        raise NotFoundError(f"no participant has the number {number}")
    return key


async def _make_room(connection: AsyncConnection, trace_id: int, key: str) -> None:
    """Forget the aliases of participants that are gone, if there are too many."""
    of_trace = _aliases.trace_id == trace_id
    count = select(func.count()).where(of_trace, _aliases.key != key)
    if (await connection.execute(count)).scalar_one() < MOST_ALIASES:
        return
    present = select(_participants.key).where(_participants.trace_id == trace_id)
    await connection.execute(
        delete(tables.aliases).where(of_trace, _aliases.key != key, _aliases.key.not_in(present))
    )
    if (await connection.execute(count)).scalar_one() >= MOST_ALIASES:
        raise ConflictError(f"the trace has {MOST_ALIASES} aliases; take one back first")
