"""Connections to the broker: our own durable queue on its event exchange, and its lists.

The plugin ``rabbitmq_event_exchange`` announces each connection about 5 ms before the connection's
first publish is traced (measured on 3.10.8); the management API shows it up to 5 s later. The
exchange is in one virtual host and covers all. Where the plugin is off there is no exchange, and
the lists are all there is.

Deliveries are taken from the connection's bytes, as the firehose's are (`app.broker.deliveries`):
clients choose what is in these headers too, and the library closes the connection over some of it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

import aiormq.exceptions
import msgspec
from aiormq.abc import AbstractChannel as Channel
from pamqp.common import FieldTable
from yarl import URL

from app.broker.announced import CLOSED, CREATED, ConnectionClosed, ConnectionOpened, announcement
from app.broker.connection import CONNECT_SECONDS, TraceConnection
from app.broker.consumer import TRACE_QUEUE, passed_by
from app.broker.deliveries import Arrival
from app.broker.management import Binding, ManagementApi
from app.broker.outages import CONNECTION_ERRORS, BrokerAddress, outage, shown
from app.broker.trace_queue import announcements_queue
from app.broker.wire import UnreadableTableError, decode_headers
from app.errors import OutageError

EVENT_EXCHANGE = "amq.rabbitmq.event"
KEYS = (CREATED, CLOSED)
# What an absent service misses at most; then the oldest announcements go.
ARGUMENTS: FieldTable = {
    "x-queue-type": "classic",
    "x-max-length": 100_000,
    "x-max-length-bytes": 128 * 1024 * 1024,
    "x-overflow": "drop-head",
}
PREFETCH = 1_000


class AnnouncementBatch(msgspec.Struct, frozen=True):
    """Announcements, each kind in its order, and the tag that acknowledges them all.

    ``unread`` is how many messages were none of the broker's announcements.
    """

    opened: list[ConnectionOpened]
    closed: list[ConnectionClosed]
    tag: int
    unread: int


class AnnouncementStream:
    """The announcements, in batches, from when `consume` is called."""

    def __init__(self, channel: Channel, queue: str, place: BrokerAddress) -> None:
        self._channel = channel
        self._queue = queue
        self._place = place
        self._waiting: deque[Arrival] = deque()
        self._arrived = asyncio.Event()
        self._lost: OutageError | None = None

    async def consume(self) -> None:
        self._check()
        # Exclusive: two services of one name would each get half of the announcements.
        with _outages(self._place, self._queue):
            await self._channel.basic_consume(self._queue, passed_by, exclusive=True)

    async def batch(self) -> AnnouncementBatch:
        """Wait for announcements, and return all that have arrived.

        :raises OutageError: when the connection is gone, or the queue.
        """
        while not self._waiting and self._lost is None:
            self._arrived.clear()
            await self._arrived.wait()
        self._check()
        taken, self._waiting = self._waiting, deque()
        said = [_said(delivery) for delivery in taken]
        return AnnouncementBatch(
            opened=[each for each in said if isinstance(each, ConnectionOpened)],
            closed=[each for each in said if isinstance(each, ConnectionClosed)],
            tag=taken[-1].tag,
            unread=said.count(None),
        )

    async def acknowledge(self, tag: int) -> None:
        self._check()
        with _outages(self._place, self._queue):
            await self._channel.basic_ack(tag, multiple=True, wait=False)

    async def bind(self) -> None:
        """Bind the queue to the event exchange, which has lost its bindings if it was away.

        :raises OutageError: when the exchange is away.
        """
        self._check()
        with _outages(self._place, self._queue):
            for key in KEYS:
                await self._channel.queue_bind(self._queue, EVENT_EXCHANGE, routing_key=key)

    def lose(self, reason: OutageError) -> None:
        if self._lost is None:
            self._lost = reason
        self._arrived.set()

    def take_in(self, deliveries: list[Arrival]) -> None:
        self._waiting.extend(deliveries)
        self._arrived.set()

    def _check(self) -> None:
        if self._lost is not None:
            raise self._lost


class Announcements:
    """The broker as far as it says who is connected."""

    def __init__(
        self, amqp_url: str, management: ManagementApi, trace_queue: str = TRACE_QUEUE
    ) -> None:
        """Use the account in ``amqp_url``; its path is ignored."""
        self._url = URL(amqp_url)
        self._management = management
        self.queue = announcements_queue(trace_queue)

    async def event_exchange(self) -> str | None:
        """The virtual host of the event exchange, None where it is off; raises `OutageError`."""
        return await self._management.event_exchange()

    async def present(self) -> Sequence[ConnectionOpened]:
        """The connections there are, less those of the last 5 s; raises `OutageError`."""
        return await self._management.connections()

    async def is_bound(self, vhost: str) -> bool:
        return await self._management.binds(vhost, EVENT_EXCHANGE, self.bindings)

    @property
    def bindings(self) -> list[Binding]:
        return [Binding(self.queue, "queue", key) for key in KEYS]

    @asynccontextmanager
    async def open(self, vhost: str) -> AsyncIterator[AnnouncementStream]:
        """Declare and bind the queue in the event exchange's virtual host.

        :raises OutageError: when the broker cannot be reached, or refuses.
        """
        place = BrokerAddress.of(self._url, vhost)
        with _outages(place, self.queue):
            connection = TraceConnection(
                self._url, vhost, client_properties={"connection_name": "rabbitmq-itc"}
            )
            await connection.connect(timeout=CONNECT_SECONDS)
        try:
            with _outages(place, self.queue):
                stream = await self._prepare(connection, place)
            await stream.bind()
            yield stream
        finally:
            await connection.leave()

    async def _prepare(
        self, connection: TraceConnection, place: BrokerAddress
    ) -> AnnouncementStream:
        if not await self._exists(connection):
            declaring = await connection.channel(publisher_confirms=False)
            await declaring.declare_queue(self.queue, durable=True, arguments=ARGUMENTS)
            await declaring.close()
        channel = await connection.channel(publisher_confirms=False)
        await channel.set_qos(prefetch_count=PREFETCH)
        raw = await channel.get_underlay_channel()
        stream = AnnouncementStream(raw, self.queue, place)
        for callbacks in (channel.close_callbacks, connection.close_callbacks):
            callbacks.add(lambda _, error: stream.lose(_outage(error, place, self.queue)))
        gone = f"the broker ended our consumer: was {self.queue} or {shown(place.vhost)} deleted?"
        raw.on_consumer_cancel_callbacks.add(lambda _: stream.lose(OutageError(gone)))
        connection.divert(raw.number, stream.take_in)
        return stream

    async def _exists(self, connection: TraceConnection) -> bool:
        probe = await connection.channel(publisher_confirms=False)
        raw = await probe.get_underlay_channel()
        try:
            await raw.queue_declare(self.queue, passive=True)
        except aiormq.exceptions.ChannelNotFoundEntity:
            return False  # and the broker has closed the channel
        await probe.close()
        return True


def _said(delivery: Arrival) -> ConnectionOpened | ConnectionClosed | None:
    try:
        return announcement(delivery.routing_key, decode_headers(delivery.header))
    except UnreadableTableError:
        return None


@contextmanager
def _outages(place: BrokerAddress, queue: str) -> Iterator[None]:
    try:
        yield
    except CONNECTION_ERRORS as error:
        raise _outage(error, place, queue) from error


def _outage(error: BaseException | None, place: BrokerAddress, queue: str) -> OutageError:
    """As for the trace queue, but what is said of that one's rights and users is of this one's."""
    vhost, user = shown(place.vhost), shown(place.user)
    if isinstance(error, aiormq.exceptions.ChannelAccessRefused):
        if "exclusive" in str(error):
            return OutageError(
                f"another consumer has {queue} of {vhost}: is there a second service with the same "
                "ITC_TRACE_QUEUE?"
            )
        return OutageError(
            f"user {user} has too few rights in the virtual host {vhost}: it needs configure, "
            f"write and read on {queue} and read on {EVENT_EXCHANGE}; rabbitmqctl set_permissions "
            f"-p {vhost} {user} gives it its rights"
        )
    if isinstance(error, aiormq.exceptions.ChannelNotFoundEntity):
        return OutageError(f"{queue} or {EVENT_EXCHANGE} of {vhost} is gone")
    return outage(error, place)
