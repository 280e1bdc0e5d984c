"""Connections to the broker: our own durable queue on its event exchange, and its lists.

The plugin ``rabbitmq_event_exchange`` announces each connection about 5 ms before the connection's
first publish is traced (measured on 3.10.8); the management API shows it up to 5 s later. The
exchange is in one virtual host and covers all. Without the plugin there is no exchange, and only
the lists.

Deliveries are taken from the connection's bytes, as the firehose's are (`app.broker.deliveries`):
clients choose contents of these headers too, and the library closes the connection over some of
them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiormq.exceptions
import msgspec
from pamqp.common import FieldTable
from yarl import URL

from app.broker._wire import decode_headers
from app.broker.announced import CLOSED, CREATED, announcement
from app.broker.consumer import TRACE_QUEUE
from app.broker.deliveries import Arrival
from app.broker.diverted import DivertedStream, connect, queue_there, refuse_delivery
from app.broker.management import Binding, ManagementApi
from app.broker.outages import BrokerAddress, outage, printable
from app.broker.trace_queue import announcements_queue
from app.errors import NotFoundError, OutageError
from app.stored.capture import ClosedConnection, NewConnection

EVENT_EXCHANGE = "amq.rabbitmq.event"
KEYS = (CREATED, CLOSED)
# Announcements kept for an absent service; beyond that the oldest go.
ARGUMENTS: FieldTable = {
    "x-queue-type": "classic",
    "x-max-length": 100_000,
    "x-max-length-bytes": 128 * 1024 * 1024,
    "x-overflow": "drop-head",
}
PREFETCH = 1_000


class AnnouncementBatch(msgspec.Struct, frozen=True):
    """Announcements, each kind in its order, and the tag that acknowledges them all."""

    opened: list[NewConnection]
    closed: list[ClosedConnection]
    tag: int


class AnnouncementStream(DivertedStream):
    """The announcements, in batches, from when `consume` is called."""

    async def consume(self) -> None:
        # Exclusive: two services of one name would each get half of the announcements.
        with self.request():
            await self._channel.basic_consume(self._queue, refuse_delivery, exclusive=True)

    async def batch(self) -> AnnouncementBatch:
        """Wait for announcements, and return all that have arrived.

        :raises OutageError: when the connection or the queue is gone.
        """
        while not self._waiting and self._loss is None:
            self._arrived.clear()
            await self._arrived.wait()
        self._check()
        deliveries, self._waiting = self._waiting, deque()
        connections = [_read(delivery) for delivery in deliveries]
        return AnnouncementBatch(
            opened=[opened for opened in connections if isinstance(opened, NewConnection)],
            closed=[closed for closed in connections if isinstance(closed, ClosedConnection)],
            tag=deliveries[-1].tag,
        )

    async def bind(self) -> None:
        """Bind the queue to the event exchange, which lost its bindings if it was away.

        :raises OutageError: when the exchange is away.
        """
        await self._bind(EVENT_EXCHANGE, KEYS)

    def _outage(self, error: BaseException | None) -> OutageError:
        """As for the trace queue, without its advice about rights and users."""
        queue, vhost, user = (
            self._queue,
            printable(self._address.vhost),
            printable(self._address.user),
        )
        if isinstance(error, aiormq.exceptions.ChannelAccessRefused):
            if "exclusive" in str(error):
                return OutageError(
                    f"another consumer has {queue} of {vhost}: is there a second service with the "
                    "same ITC_TRACE_QUEUE?"
                )
            return OutageError(
                f"user {user} has too few rights in the virtual host {vhost}: it needs configure, "
                f"write and read on {queue} and read on {EVENT_EXCHANGE}; rabbitmqctl "
                f"set_permissions -p {vhost} {user} gives it its rights"
            )
        if isinstance(error, aiormq.exceptions.ChannelNotFoundEntity):
            return OutageError(f"{queue} or {EVENT_EXCHANGE} of {vhost} is gone")
        return outage(error, self._address)


class Announcements:
    """The broker's side that says who is connected."""

    def __init__(
        self, amqp_url: str, management: ManagementApi, trace_queue: str = TRACE_QUEUE
    ) -> None:
        """Use the account in ``amqp_url``; its path is ignored."""
        self._url = URL(amqp_url)
        self._management = management
        self.queue = announcements_queue(trace_queue)
        # The virtual host of the event exchange, None if it is off; and the present connections,
        # less those of the last 5 s. Both raise `OutageError`.
        self.event_exchange, self.present = management.event_exchange, management.connections

    async def is_bound(self, vhost: str) -> bool:
        """Tell whether the event exchange hands us announcements; False if there is none."""
        try:
            present = await self._management.bindings(vhost, EVENT_EXCHANGE)
        except NotFoundError:
            return False
        return all(Binding(self.queue, "queue", key) in present for key in KEYS)

    @asynccontextmanager
    async def open(self, vhost: str) -> AsyncIterator[AnnouncementStream]:
        """Declare and bind the queue in the event exchange's virtual host.

        :raises OutageError: when the broker cannot be reached, or refuses.
        """
        place = BrokerAddress.of(self._url, vhost)
        async with connect(self._url, place) as connection:
            channel = await connection.channel(publisher_confirms=False)
            raw = await channel.get_underlay_channel()
            stream = AnnouncementStream(raw, self.queue, place)
            with stream.request():
                if await queue_there(connection, self.queue) is None:
                    declaring = await connection.channel(publisher_confirms=False)
                    await declaring.declare_queue(self.queue, durable=True, arguments=ARGUMENTS)
                    await declaring.close()
                await channel.set_qos(prefetch_count=PREFETCH)
            stream.divert(connection, channel)
            await stream.bind()
            yield stream


def _read(delivery: Arrival) -> NewConnection | ClosedConnection | None:
    try:
        return announcement(delivery.routing_key, decode_headers(delivery.header))
    except ValueError:
        return None
