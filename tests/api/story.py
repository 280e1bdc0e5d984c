"""A small history in a real store: an order, its invoice, a bystander, another virtual host."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import update

from app.store import Store, migrate
from app.store.database import tables
from app.stored.capture import Batch
from app.tracker import (
    Bounds,
    Channel,
    Deliver,
    Policy,
    Publish,
    Record,
    Settlement,
    Tracker,
    Unreadable,
)
from model.deaths import LossWord

START = 1_767_323_045_000_000  # 2026-01-02T03:04:05Z
STEP = 1_000_000

SHOP = Channel("rabbit@one", "10.0.0.1:1 -> 10.0.0.9:5672", 1, "shop")
OTHER_SHOP = Channel("rabbit@one", "10.0.0.1:2 -> 10.0.0.9:5672", 1, "shop")
BILLING = Channel("rabbit@one", "10.0.0.2:1 -> 10.0.0.9:5672", 1, "billing")
AUDIT = Channel("rabbit@one", "10.0.0.3:1 -> 10.0.0.9:5672", 1, "audit")


def publish(
    channel: Channel, key: str, *queues: str, body: bytes = b"{}", exchange: str = "orders"
) -> Publish:
    return Publish(channel, exchange, (key,), queues, {"delivery_mode": 2, "headers": {}}, body)


def deliver(
    channel: Channel, key: str, queue: str, body: bytes = b"{}", *, redelivered: bool = False
) -> Deliver:
    properties = {"delivery_mode": 2, "headers": {}}
    return Deliver(channel, "orders", (key,), queue, redelivered, properties, body)


# The ids that the records of `ORDER` get, when they are the first in a store.
ORDERED, BILLED, INVOICED, ALONE, AUDITED, BINARY, STRAY = range(1, 8)

ORDER: Sequence[Record] = (
    publish(SHOP, "order.new", "billing", "audit", body="größe".encode()),
    deliver(BILLING, "order.new", "billing", "größe".encode()),
    publish(BILLING, "invoice", "mail", body=b"invoice"),
    publish(AUDIT, "tick", body=b""),
    deliver(AUDIT, "order.new", "audit", "größe".encode()),
    publish(SHOP, "picture", body=b"\xff\xfe\x00"),
    deliver(AUDIT, "unseen", "audit", b"?"),
)

# The shop has received on another channel than it publishes on: one program, two participants.
UNSOUND: Sequence[Record] = (deliver(OTHER_SHOP, "unseen", "billing", b"?"),)

OTHER: Sequence[Record] = (publish(SHOP, "order.new", "billing"),)

RUBBISH = Unreadable(
    reason="no header exchange_name",
    routing_key="publish.x",
    headers='{"node": "rabbit@one"}',
    body=b"\xff",
    body_bytes=1,
    recorded_at=START,
)


class Teller:
    """Stores records of one virtual host as a trace would."""

    def __init__(self, store: Store, vhost: str) -> None:
        self._store = store
        self._vhost = vhost
        self._tracker = Tracker(Policy.channel, Bounds())
        self._now = START

    def introduce(self, channel: Channel, client: str) -> None:
        """Say how the client behind a channel calls itself, before it acts."""
        self._tracker.participants.introduce(channel, client)

    def settle(self, event: str, channel: Channel, **said: Any) -> None:
        """Say what the broker plugin says; it is stored with the next records."""
        self._tracker.settle(Settlement(event, channel, self._now, **said), self._now)

    async def lose(self, reason: LossWord) -> None:
        """Lose all copies that wait."""
        for copy in self._tracker.pending()[0]:
            self._tracker.lose(copy, START, reason)
        await self.tell([])

    async def tell(self, records: Sequence[Record], unreadable: Sequence[Unreadable] = ()) -> range:
        """Stamp and store; gives the ids. Each record is a second after the one before."""
        trace = await self._store.traces.create(self._vhost, "channel")
        if not trace.last_event_id:
            await set_made(self._store, self._vhost, START)
        events = []
        for record in records:
            events += self._tracker.apply(record, self._now)
            self._now += STEP
        for message in unreadable:
            self._tracker.quarantine(message, self._now)
        batch = Batch(events, self._tracker.checkpoint(), b"")
        return await self._store.batches.append(trace.id, batch)


async def set_made(store: Store, vhost: str, moment: int) -> None:
    """Have a trace been made at a time (µs)."""
    await store.batches.database.write(
        lambda connection: connection.execute(
            update(tables.traces).where(tables.traces.c.vhost == vhost).values(created_at=moment)
        )
    )


async def open_store(folder: Path) -> Store:
    """An empty store on SQLite."""
    path = folder / "itc.db"
    if not _migrated:
        url = f"sqlite:///{path}"
        await migrate(url)
        _migrated.append(path.read_bytes())
    path.write_bytes(_migrated[0])
    return await Store.open(f"sqlite:///{path}", payload_max_bytes=1_000, traceparents=True)


_migrated: list[bytes] = []  # the first store's tables, for all that follow


async def tell_story(store: Store) -> dict[str, Teller]:
    """`ORDER` in the virtual host ``/``, `OTHER` in ``secret``; gives who can go on telling."""
    tellers = {vhost: Teller(store, vhost) for vhost in ("/", "secret")}
    await tellers["/"].tell([], [RUBBISH])  # in a gap before the first event
    await tellers["/"].tell(ORDER)
    await tellers["secret"].tell(OTHER)
    return tellers
