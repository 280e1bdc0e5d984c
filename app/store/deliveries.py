"""A publish's fate: what became of its copy in each queue it was routed to."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import BadRequestError
from app.store import tables
from app.store.events import by_id, by_ids
from app.store.subject import Subject, reads
from app.stored.deliveries import Fate, QueueFate
from model.event import EVERYTHING, Event, Large
from model.words import EventType, Match

# How many events of one publish are looked at, the first ones: a message that is requeued for
# ever has no end of them.
MOST = 1_000


class Deliveries(Subject):
    """What became of each publish."""

    @reads
    async def fate_of(
        self, connection: AsyncConnection, event_id: int, large: Large = EVERYTHING
    ) -> Fate:
        """A publish's fate, queue by queue.

        Raises `NotFoundError`, and `BadRequestError` for a received event.
        """
        publish = await by_id(connection, event_id, large)
        if publish.type is not EventType.published or publish.routed_queues is None:
            raise BadRequestError(f"event {event_id} was received: only a publish has deliveries")
        query = (
            select(tables.events.c.id)
            .where(tables.events.c.cause_id == event_id)
            .order_by(tables.events.c.id)
            .limit(MOST)
        )
        ids = [row[0] for row in await connection.execute(query)]
        # A dead letter's headers say where it came from.
        received = await by_ids(connection, ids, large | {"properties"})
        fates = {queue: QueueFate(queue, [], []) for queue in publish.routed_queues}
        for event in received:
            _note(fates, event)
        return Fate(publish, len(publish.routed_queues), list(fates.values()))


def _note(fates: dict[str, QueueFate], event: Event) -> None:
    if event.match is Match.dead_lettered:
        for queue in _died_in(event):
            if queue in fates:
                fates[queue].dead_letters.append(event)
                return
    if event.queue is not None:
        # A queue that the publish was not routed to: a dead letter whose headers hide its path.
        fates.setdefault(event.queue, QueueFate(event.queue, [], [])).deliveries.append(event)


def _died_in(event: Event) -> list[str]:
    """The queues that a dead letter died in, in order."""
    headers = (event.properties or {}).get("headers")
    deaths = headers.get("x-death") if isinstance(headers, dict) else None
    newest_first = deaths if isinstance(deaths, list) else []
    queues = [death.get("queue") for death in newest_first if isinstance(death, dict)]
    return [queue for queue in reversed(queues) if isinstance(queue, str)]
