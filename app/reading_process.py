"""A process that reads trace messages for the service: ``python -m app.reading_process``.

It stands between the service and the broker, and passes on what each says to the other; see
`app.broker.reading`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from asyncio import StreamReader, StreamWriter
from collections import deque

import aiormq
import msgspec
import uvloop
from aiormq.connection import SSLContextProvider, TCPTransportFactory, TLSTransportFactory
from aiormq.exceptions import AMQPConnectionError
from yarl import URL

from app.broker.connection import CLOSE_SECONDS, CONNECT_SECONDS, READ_BYTES
from app.broker.deliveries import RUN, Delivery, DeliverySplitter, framed
from app.broker.reading import ORDER_BYTES, TAKEN, Answer, Order
from app.broker.runs import RunWriter
from app.children import leave_signals_to_the_service
from app.garbage import tune_garbage_collection

log = logging.getLogger(__name__)

MOST_SOCKETS = 32  # that come with one read of the orders
# The service reads a run in one go, if there is room for it.
BUFFERED_BYTES = 1024 * 1024

_read_order = msgspec.json.Decoder(Order).decode


class Relay:
    """One connection, between the service and the broker."""

    def __init__(self, end: socket.socket, url: URL) -> None:
        """``end`` is connected to the service; the URL says where the broker is."""
        self._end = end
        self._url = url
        self._splitter = DeliverySplitter()
        self._runs = RunWriter()
        self._channel = 0

    def divert(self, channel: int) -> None:
        """Read the deliveries on a channel from now on."""
        self._channel = channel
        self._splitter.divert(channel, self._take)

    async def run(self) -> None:
        """Connect, and pass on what either side says; when one of them leaves, so do we."""
        reader, writer = await asyncio.open_unix_connection(sock=self._end)
        writer.transport.set_write_buffer_limits(high=BUFFERED_BYTES)
        try:
            there, broker = await _connect(self._url)
        except OSError as error:
            await _say(writer, Answer.of(error))
            await _close(writer)
            return
        try:
            await _say(writer, Answer())
            async with asyncio.TaskGroup() as ways:
                ways.create_task(self._pass_up(there, writer))
                ways.create_task(_pass_down(reader, broker))
        finally:  # whatever went wrong, both sides are to notice
            writer.transport.abort()
            broker.transport.abort()

    async def _pass_up(self, broker: StreamReader, writer: StreamWriter) -> None:
        """Pass on what the broker says, with runs instead of deliveries."""
        with contextlib.suppress(OSError):
            while (data := await broker.read(READ_BYTES)) and not writer.is_closing():
                writer.write(self._splitter.feed(data))
                await writer.drain()
        await _close(writer)

    def _take(self, deliveries: list[Delivery]) -> None:
        if deliveries:
            self._splitter.pass_on(framed(RUN, self._channel, self._runs.write(deliveries)))


async def _pass_down(reader: StreamReader, broker: StreamWriter) -> None:
    """Pass on what the service says to the broker."""
    with contextlib.suppress(OSError):
        while (data := await reader.read(READ_BYTES)) and not broker.is_closing():
            broker.write(data)
            await broker.drain()
    await _close(broker)


async def _connect(url: URL) -> tuple[StreamReader, StreamWriter]:
    """Connect as the client library would; raises the system's error."""
    library = aiormq.Connection(url)
    provider = SSLContextProvider(
        ssl_context=None, ssl_certs=library.ssl_certs, loop=asyncio.get_running_loop()
    )
    factory = TLSTransportFactory() if url.scheme == "amqps" else TCPTransportFactory()
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            return await factory.create(library.url, ssl_context_provider=provider)
    except AMQPConnectionError as error:
        raise error.__cause__ if isinstance(error.__cause__, OSError) else OSError() from error


async def _say(writer: StreamWriter, answer: Answer) -> None:
    with contextlib.suppress(ConnectionError):  # whoever asked may be gone
        writer.write(msgspec.json.encode(answer) + b"\n")
        await writer.drain()


async def _close(writer: StreamWriter) -> None:
    """Close one side once it has what was written, but do not wait for long."""
    writer.close()
    with contextlib.suppress(OSError):
        try:
            await asyncio.wait_for(writer.wait_closed(), CLOSE_SECONDS)
        except TimeoutError:
            writer.transport.abort()


class Attendant:
    """Relays connections as ordered."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self._said = b""
        self._ends: deque[socket.socket] = deque()
        self._relays: dict[int, Relay] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def attend(self) -> None:
        """Follow orders until there are no more."""
        loop = asyncio.get_running_loop()
        self._orders.setblocking(False)
        while True:
            readable = loop.create_future()
            loop.add_reader(self._orders, readable.set_result, None)
            await readable
            loop.remove_reader(self._orders)
            if not self._take():
                return

    def _take(self) -> bool:
        """Take the orders that have come; False if there are no more."""
        try:
            said, ends, _, _ = socket.recv_fds(self._orders, ORDER_BYTES, MOST_SOCKETS)
        except ConnectionError:
            return False
        self._ends.extend(socket.socket(fileno=end) for end in ends)
        *lines, self._said = (self._said + said).split(b"\n")
        for line in lines:
            self._follow(_read_order(line))
        return bool(said)

    def _follow(self, order: Order) -> None:
        if order.do == "divert":
            if relay := self._relays.get(order.number):
                relay.divert(order.channel)
            return
        if not self._ends:  # it got lost: we may have no more descriptors
            log.error("there is no socket for a connection: too many are open")
            return
        end = self._ends.popleft()
        end.setblocking(False)
        with contextlib.suppress(OSError):
            end.send(TAKEN)
        relay = self._relays[order.number] = Relay(end, URL(order.url))
        task = asyncio.create_task(relay.run())
        self._tasks.add(task)
        task.add_done_callback(lambda _: self._ended(order.number, task))

    def _ended(self, number: int, task: asyncio.Task[None]) -> None:
        del self._relays[number]
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("a connection broke off over an error", exc_info=error)


async def _main() -> None:
    await Attendant(socket.socket(fileno=0)).attend()


def main() -> None:
    """Run until stdin ends."""
    leave_signals_to_the_service()
    tune_garbage_collection()
    uvloop.run(_main())


if __name__ == "__main__":
    main()
