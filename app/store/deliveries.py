"""A publish's fate: what became of its copy in each queue it was routed to."""

from __future__ import annotations

import enum

import msgspec
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import BadRequestError
from app.store import events as stored
from app.store.events import EVERYTHING, EventRow, Wanted
from app.store.tables import events
from model.words import EventType, Match

# Events of one publish that are looked at, the first ones: a message that is requeued for ever
# has no end of them.
MOST = 1_000


class CopyState(enum.StrEnum):
    """What became of one queue's copy."""

    handed_over = "handed_over"
    waiting = "waiting"
    dead_lettered = "dead_lettered"


class QueueFate(msgspec.Struct):
    """One queue's copy: handed over from it, and handed over after it died there."""

    queue: str
    deliveries: list[EventRow]
    dead_letters: list[EventRow]

    @property
    def state(self) -> CopyState:
        """The last that is known of it."""
        if self.dead_letters:
            return CopyState.dead_lettered
        return CopyState.handed_over if self.deliveries else CopyState.waiting

    @property
    def dead_lettered_to(self) -> list[str]:
        """The queues it was handed over from after it died here."""
        return list(dict.fromkeys(event.queue for event in self.dead_letters if event.queue))


class Fate(msgspec.Struct, frozen=True):
    """A publish, the number of queues it was routed to, and each one's copy."""

    publish: EventRow
    routed_queues: int
    queues: list[QueueFate]

    @property
    def handed_over(self) -> int:
        """How many of the queues' copies were handed over, from there or as dead letters."""
        return sum(fate.state is not CopyState.waiting for fate in self.queues)


async def fate_of(connection: AsyncConnection, event_id: int, wanted: Wanted = EVERYTHING) -> Fate:
    """What became of a publish; raises `NotFoundError`, `BadRequestError` for a received event."""
    publish = await stored.by_id(connection, event_id, wanted)
    if publish.type is not EventType.published or publish.routed_queues is None:
        raise BadRequestError(f"event {event_id} was received: only a publish has deliveries")
    query = (
        select(events.c.id).where(events.c.cause_id == event_id).order_by(events.c.id).limit(MOST)
    )
    ids = [row[0] for row in await connection.execute(query)]
    # Where a dead letter came from stands in its headers.
    with_headers = msgspec.structs.replace(wanted, properties=True)
    received = await stored.by_ids(connection, ids, with_headers)
    fates = {queue: QueueFate(queue, [], []) for queue in publish.routed_queues}
    for event in received:
        _note(fates, event)
    return Fate(publish, len(publish.routed_queues), list(fates.values()))


def _note(fates: dict[str, QueueFate], event: EventRow) -> None:
    if event.match is Match.dead_lettered:
        for queue in _died_in(event):
            if queue in fates:
                fates[queue].dead_letters.append(event)
                return
    if event.queue is not None:
        # A queue that the publish was not routed to: a dead letter whose way its headers hide.
        fates.setdefault(event.queue, QueueFate(event.queue, [], [])).deliveries.append(event)


def _died_in(event: EventRow) -> list[str]:
    """The queues that a dead letter died in, the first one first."""
    headers = (event.properties or {}).get("headers")
    deaths = headers.get("x-death") if isinstance(headers, dict) else None
    newest_first = deaths if isinstance(deaths, list) else []
    queues = [death.get("queue") for death in newest_first if isinstance(death, dict)]
    return [queue for queue in reversed(queues) if isinstance(queue, str)]
