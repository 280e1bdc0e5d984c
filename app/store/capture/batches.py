"""Storing a batch: events, checkpoint and notices in one transaction, exactly once."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from dataclasses import fields
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

import msgspec
from sqlalchemy import Executable, bindparam, case, delete, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import ItcError, UnfitError
from app.store.capture import gaps, link_rules, quarantine, rows, settlements
from app.store.capture._rows import event_rows, key_rows
from app.store.capture.aliases import with_aliases
from app.store.database import tables
from app.store.database.chunks import chunks
from app.store.database.engine import Database, Dialect
from app.store.database.subject import Subject, writes
from app.store.holding.leases import lock_trace
from app.stored.capture import Batch
from app.tracker.events import Checkpoint, StampedEvent
from model.blocks import BLOCK, block_of
from model.sound import Evidence

_blocks = tables.blocks.c
_channels = tables.channels.c
_copies = tables.copies.c
_event_ids = tables.event_ids.c
_traces = tables.traces.c

# Statements that take long to build are built once. Only in tests has a process several dialects.
MOST_DIALECTS = 4

# A portion has at most this many events and takes at most this time (s), looked at after every few:
# the event loop does nothing else meanwhile, and a few events with odd bodies may take all of it.
PORTION, CHECK_EVERY = 2_000, 50
MOST_SECONDS = 0.02

# The columns that change where a participant is stored already.
_CHANGING = (
    *("seq", "published", "lamport", "height", "last_event_id"),
    *(field.name for field in fields(Evidence) if field.name != "spanned"),
)
_participant_row = itemgetter(*tables.participants.columns.keys())

# One statement for all: a batch may have an event of each of a thousand channels.
_NOTE_LAST = (
    "WITH acted(number, last) AS ({pairs}) UPDATE channels SET last_event_id = acted.last"
    " FROM acted WHERE channels.trace_id = {trace} AND channels.number = acted.number"
)


class StorageBounds(NamedTuple):
    """Bytes kept of each body, unreadable messages kept of each trace, and whether traceparents.

    Imported spans find messages' causes by these.
    """

    payload_max_bytes: int
    quarantine_max: int
    traceparents: bool = False


class Batches(Subject):
    """Batches of stamped events, each with the checkpoint behind it."""

    def __init__(self, database: Database, bounds: StorageBounds) -> None:
        super().__init__(database)
        self._bounds = bounds

    async def append(self, trace_id: int, batch: Batch, epoch: int | None = None) -> range:
        """Store a batch, all or nothing; returns its events' ids, set in their references too.

        After an `OutageError`, append the very same batch again: if its commit did succeed, its
        token shows that, and it keeps its ids. Only the latest run of a trace may append, by its
        ``epoch`` (`app.store.holding.leases`); None if there is no other. Raises `NotFoundError`,
        `LeaseLostError`, and `UnfitError` if the database does not take a value in the batch.
        """
        try:
            return await self._append(trace_id, batch, epoch)
        except ItcError:
            raise
        except Exception as error:
            if self.database.refuses(error):
                raise UnfitError("the database does not take a value of it") from error
            raise

    @writes
    async def _append(
        self, connection: AsyncConnection, trace_id: int, batch: Batch, epoch: int | None
    ) -> range:
        dialect = self.database.dialect
        # The lock comes first: it waits for a commit in doubt that may still be on its way.
        previous_id, stored_token = await lock_trace(
            connection, trace_id, epoch, _traces.last_event_id, _traces.batch
        )
        if stored_token == batch.token:
            return _assign_ids(batch.events, previous_id + 1 - len(batch.events))
        ids = _assign_ids(batch.events, await _take_ids(connection, len(batch.events)))
        changes = batch.checkpoint.settlements
        settled = await settlements.store(connection, dialect, trace_id, changes, ids)
        if batch.events:
            await self._store_events(connection, trace_id, batch, settled)
            await _note_times(connection, dialect, ids, batch.events)
        await _store_checkpoint(connection, dialect, trace_id, batch)
        omissions = batch.checkpoint.omissions
        await quarantine.add(connection, trace_id, omissions, self._bounds.quarantine_max)
        await gaps.quarantine(connection, trace_id, omissions, previous_id)
        if batch.link_rules is not None:
            first_id = ids[0] if ids else None
            await link_rules.store_effective(connection, trace_id, batch.link_rules, first_id)
        await connection.execute(
            update(tables.traces)
            .where(_traces.id == trace_id)
            .values(
                checkpoint=batch.checkpoint.state,
                window=batch.window,
                batch=batch.token,
                ledger=_traces.ledger if batch.ledger is None else batch.ledger,
                events=_traces.events + len(ids),
                last_event_id=ids[-1] if ids else previous_id,
            )
        )
        return ids

    async def _store_events(
        self,
        connection: AsyncConnection,
        trace_id: int,
        batch: Batch,
        settled: settlements.Settled,
    ) -> None:
        dialect, bounds = self.database.dialect, self._bounds
        body_bytes = bounds.payload_max_bytes if batch.bodies else 0
        events = iter(batch.events)
        while new := _next_rows(dialect, trace_id, events, body_bytes, settled):
            await dialect.insert_many(connection, tables.EVENT_ROWS, new)
        # Sorted all at once, neighbours go into the same pages.
        additions = [
            (tables.keys, key_rows(trace_id, batch.events)),
            (tables.edges, rows.edge_rows(trace_id, batch.events)),
        ]
        if bounds.traceparents:
            additions.append((tables.traceparents, rows.traceparent_rows(trace_id, batch.events)))
        for table, table_rows in additions:
            await dialect.insert_many(connection, table, table_rows)


def _next_rows(
    dialect: Dialect,
    trace_id: int,
    events: Iterator[StampedEvent],
    body_bytes: int,
    settled: settlements.Settled,
) -> list[rows.Row]:
    new: list[rows.Row] = []
    deadline = time.perf_counter() + MOST_SECONDS
    while len(new) < PORTION and time.perf_counter() < deadline:
        portion = [*islice(events, CHECK_EVERY)]
        if not portion:
            break
        new += event_rows(dialect, trace_id, portion, body_bytes, settled)
    return new


async def remove_copies(connection: AsyncConnection, trace_id: int, numbers: list[int]) -> None:
    for portion in chunks(numbers):
        await connection.execute(
            delete(tables.copies).where(_copies.trace_id == trace_id, _copies.number.in_(portion))
        )


async def _take_ids(connection: AsyncConnection, count: int) -> int:
    """The first of `count` new ids. Other writers wait here until this transaction ends."""
    if count == 0:
        return 0
    result = await connection.execute(
        update(tables.event_ids).values(next=_event_ids.next + count).returning(_event_ids.next)
    )
    return int(result.scalar_one()) - count


def _assign_ids(events: list[StampedEvent], first: int) -> range:
    ids = range(first, first + len(events))
    for event_id, event in zip(ids, events, strict=True):
        event.reference.id = event_id
    return ids


async def _note_times(
    connection: AsyncConnection, dialect: Dialect, ids: range, events: list[StampedEvent]
) -> None:
    """Widen the time spans of these events' blocks."""
    times = [event.recorded_at for event in events]
    spans = []
    for number in range(block_of(ids[0]), block_of(ids[-1]) + 1):
        first = max(0, number * BLOCK - ids[0])
        block_times = times[first : (number + 1) * BLOCK - ids[0]]
        spans.append({"number": number, "earliest": min(block_times), "latest": max(block_times)})
    await connection.execute(_widen_blocks(dialect), spans)


@functools.lru_cache(maxsize=MOST_DIALECTS)
def _widen_blocks(dialect: Dialect) -> Executable:
    insert = dialect.upsert(tables.blocks)
    new = insert.excluded
    widened = {
        "earliest": case((new.earliest < _blocks.earliest, new.earliest), else_=_blocks.earliest),
        "latest": case((new.latest > _blocks.latest, new.latest), else_=_blocks.latest),
    }
    return insert.on_conflict_do_update(index_elements=[_blocks.number], set_=widened)


async def _store_checkpoint(
    connection: AsyncConnection, dialect: Dialect, trace_id: int, batch: Batch
) -> None:
    changes = batch.checkpoint
    new_channels = rows.channel_rows(trace_id, changes.channels)
    await dialect.insert_many(connection, tables.channels, new_channels)
    keys = changes.channel_keys_acted
    await _note_last_events(connection, dialect, trace_id, keys, batch.events)
    await _note_replies(connection, trace_id, changes.replies)
    await _store_participants(connection, dialect, trace_id, changes, batch.events)
    new_copies = rows.copy_rows(trace_id, changes.copies_added)
    await dialect.insert_many(connection, tables.copies, new_copies)
    await remove_copies(connection, trace_id, changes.copies_removed)
    lost_copies = rows.lost_copy_rows(trace_id, changes.copies_lost)
    await dialect.upsert_many(connection, tables.lost_copies, lost_copies, ())


async def _note_last_events(
    connection: AsyncConnection,
    dialect: Dialect,
    trace_id: int,
    channel_keys: list[int],
    events: list[StampedEvent],
) -> None:
    if not channel_keys:  # as where each channel is a participant
        return
    last = {event.channel_key: event.reference.id for event in events}
    for portion in chunks(channel_keys):
        pairs, values = dialect.numbers([(number, last[number]) for number in portion])
        await connection.exec_driver_sql(_NOTE_LAST.format(pairs=pairs, trace=trace_id), values)


async def _note_replies(
    connection: AsyncConnection, trace_id: int, replies: list[tuple[int, str]]
) -> None:
    if not replies:
        return
    await connection.execute(
        update(tables.channels)
        .where(_channels.trace_id == trace_id, _channels.number == bindparam("channel_key"))
        .values(replies_to=bindparam("name")),
        [{"channel_key": number, "name": name} for number, name in replies],
    )


async def _store_participants(
    connection: AsyncConnection,
    dialect: Dialect,
    trace_id: int,
    changes: Checkpoint,
    events: list[StampedEvent],
) -> None:
    if not changes.participants:
        return
    # Only an event of this batch changes a participant.
    last = {event.participant: event.reference.id for event in events}
    first = {event.participant: event for event in reversed(events)}
    participants = [
        {
            **msgspec.structs.asdict(state),
            "trace_id": trace_id,
            "first_event_id": first[state.number].reference.id,
            "last_event_id": last[state.number],
            "spanned": 0,  # which stays where it was counted
        }
        for state in changes.participants
    ]
    new = [participant for participant in participants if first[participant["number"]].seq == 1]
    await with_aliases(connection, trace_id, new)
    participant_rows = [_participant_row(participant) for participant in participants]
    await dialect.upsert_many(connection, tables.participants, participant_rows, _CHANGING)
