"""A queue's deliveries, of the firehose or of announced connections, without aio-pika.

They are taken from the connection's bytes (`app.broker.deliveries`); everything else about the
queue and the connection goes through aio-pika.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

import aiormq.exceptions
from aio_pika.abc import AbstractChannel
from aiormq.abc import AbstractChannel as Channel
from aiormq.abc import DeliveredMessage
from pamqp.commands import Queue
from yarl import URL

from app.broker.connection import CONNECT_SECONDS, TraceConnection
from app.broker.deliveries import Arrival
from app.broker.outages import CONNECTION_ERRORS, BrokerAddress, outage, outages, printable
from app.errors import OutageError, QueueLostError


@asynccontextmanager
async def connect(
    url: URL, place: BrokerAddress, properties: Mapping[str, str] | None = None
) -> AsyncIterator[TraceConnection]:
    """A connection to a virtual host, and the ``properties`` that the broker shows with it.

    Raises `OutageError`.
    """
    client_properties = {"connection_name": "rabbitmq-itc"} | dict(properties or {})
    with outages(place):
        connection = TraceConnection(url, place.vhost, client_properties=client_properties)
        await connection.connect(timeout=CONNECT_SECONDS)
    try:
        yield connection
    finally:
        await connection.leave()


async def queue_there(connection: TraceConnection, queue: str) -> Queue.DeclareOk | None:
    """The broker's answer about a queue; None if it does not exist."""
    probe = await connection.channel(publisher_confirms=False)
    raw = await probe.get_underlay_channel()
    try:
        declared = await raw.queue_declare(queue, passive=True)
    except aiormq.exceptions.ChannelNotFoundEntity:
        return None  # and the broker has closed the channel
    await probe.close()
    return declared


class DivertedStream:
    """One queue's deliveries as they arrive, until the connection or the queue is lost."""

    def __init__(self, channel: Channel, queue: str, place: BrokerAddress) -> None:
        self._channel = channel
        self._queue = queue
        self._address = place
        self._waiting: deque[Arrival] = deque()
        self._arrived = asyncio.Event()
        self._enough = 1  # deliveries that wake the reader
        self._loss: OutageError | None = None

    def divert(self, connection: TraceConnection, channel: AbstractChannel) -> None:
        """Take in the deliveries on our channel from now on, for as long as that is open."""
        for callbacks in (channel.close_callbacks, connection.close_callbacks):
            callbacks.add(lambda _, error: self.lose(self._outage(error)))
        question = f"was {self._queue} or {printable(self._address.vhost)} deleted?"
        self._channel.on_consumer_cancel_callbacks.add(
            lambda _: self.lose(QueueLostError(f"the broker ended our consumer: {question}"))
        )
        connection.divert(self._channel.number, self.take_in)

    def take_in(self, deliveries: list[Arrival]) -> None:
        """Take in deliveries; called in the queue's order."""
        self._waiting.extend(deliveries)
        if self._is_enough:
            self._arrived.set()

    @property
    def _is_enough(self) -> bool:
        """Tell whether the reader's number of deliveries waits."""
        return len(self._waiting) >= self._enough

    def lose(self, reason: OutageError) -> None:
        if self._loss is None:
            self._loss = reason
        self._arrived.set()

    async def acknowledge(self, tag: int) -> None:
        with self.request():
            await self._channel.basic_ack(tag, multiple=True, wait=False)

    async def _bind(self, exchange: str, keys: Iterable[str]) -> None:
        with self.request():
            for key in keys:
                await self._channel.queue_bind(self._queue, exchange, routing_key=key)

    def _check(self) -> None:
        if self._loss is not None:
            raise self._loss

    @contextmanager
    def request(self) -> Iterator[None]:
        """Ask the broker for something, unless the stream is lost; raises `OutageError`."""
        self._check()
        try:
            yield
        except CONNECTION_ERRORS as error:
            raise self._outage(error) from error

    def _outage(self, error: BaseException | None) -> OutageError:
        return outage(error, self._address)


async def refuse_delivery(message: DeliveredMessage) -> None:
    """Stand in for the library's consumer: deliveries never reach it."""
    raise TypeError(f"a delivery was not diverted: {message!r}")
