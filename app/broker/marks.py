"""Marks: small numbered messages of ours, whose trace messages must come.

The broker numbers nothing in its firehose, so the firehose never shows a loss. A mark is published
like anybody's message, in the traced virtual host. If its trace message does not come, tracing was
off, our queue was not bound, or it dropped or lost messages; others that were traced between the
two marks around it may be missing as well.

Marks go through the default exchange into a queue of their own, which keeps nothing: a message that
reaches no queue would count as unroutable, and operators watch that number. If a trace leaves the
default exchange out, they go through an exchange of their own, named like the queue and gone with
it, and the trace queue is bound to such exchanges. They have a connection of their own: while the
broker is short of memory or disk space it stops reading from connections that publish, and
acknowledgements would wait with them.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import aio_pika
import aiormq.exceptions
from aio_pika.abc import AbstractExchange
from pamqp.common import FieldTable
from yarl import URL

from app.broker.connection import VhostConnection
from app.broker.outages import BrokerAddress, outages, printable
from app.errors import OutageError
from app.tracker import Publish, Record, Unreadable
from app.tracker.taken import Selection, Takes

CONNECT_SECONDS = 10.0
# Time for the broker to confirm a mark. It takes longer while it blocks publishers.
CONFIRM_SECONDS = 5.0
_RIGHTS = (
    "user {user} has too few rights in the virtual host {vhost}: marks need configure on the trace "
    "queue's name with .marks. behind it, and "
)
_DEFAULT_RIGHTS = "write on amq.default"
_OWN_RIGHTS = "write and read on it too, as this trace leaves the default exchange out"
_DROPS_EVERYTHING: FieldTable = {"x-max-length": 0}


def queue_prefix(trace_queue: str) -> str:
    """The beginning of the names of the queues that marks go to."""
    return f"{trace_queue}.marks."


def takes_default(taken: Selection) -> bool:
    """Tell whether a trace takes messages to the default exchange, marks among them."""
    return Takes(taken).publishes("")


def keys(trace_queue: str, taken: Selection) -> tuple[str, ...]:
    """The binding keys of the trace queue for a trace of this selection, and for its marks."""
    if takes_default(taken):
        return taken.keys
    return (*taken.keys, f"publish.{queue_prefix(trace_queue)}*")


def mark_of(message: Record | Unreadable, prefix: str, user: str) -> tuple[str, int] | None:
    """The series and number of the mark that a trace message is about, if it is one of ours."""
    if not isinstance(message, Publish) or message.channel.user != user:
        return None
    key = message.routing_keys[0] if message.routing_keys else ""
    if not key.startswith(prefix) or message.exchange not in ("", key):
        return None
    series, _, number = message.body.decode("ascii", "replace").partition(" ")
    return series, int(number) if number.isdecimal() else 0


class MarkPublisher:
    """Publishes marks in one virtual host, over a connection to one node, opened when needed."""

    def __init__(
        self, url: URL, vhost: str, trace_queue: str, *, through_default: bool = True
    ) -> None:
        self._through_default = through_default
        self._url = url
        self._vhost = vhost
        self._prefix = queue_prefix(trace_queue)
        self._address = BrokerAddress.of(url, vhost)
        self._connection: VhostConnection | None = None
        self._exchange: AbstractExchange | None = None
        self._queue = ""

    async def publish(self, series: str, number: int) -> None:
        """Publish a mark, and wait until the broker has taken it.

        After an `OutageError` nobody knows whether it has.
        """
        try:
            with _outages(self._address, _DEFAULT_RIGHTS if self._through_default else _OWN_RIGHTS):
                exchange = self._exchange or await self._open()
                async with asyncio.timeout(CONFIRM_SECONDS):
                    await exchange.publish(
                        aio_pika.Message(f"{series} {number}".encode()),
                        self._queue,
                        mandatory=False,
                    )
        except BaseException:  # a cancelled one too: nobody knows whether the broker has it
            await self.close()
            raise

    async def close(self) -> None:
        connection, self._connection, self._exchange = self._connection, None, None
        if connection is not None:
            await connection.leave()

    async def _open(self) -> AbstractExchange:
        self._connection = VhostConnection(
            self._url, self._vhost, client_properties={"connection_name": "rabbitmq-itc marks"}
        )
        await self._connection.connect(timeout=CONNECT_SECONDS)
        channel = await self._connection.channel(publisher_confirms=True)
        self._queue = self._prefix + secrets.token_hex(8)
        queue = await channel.declare_queue(
            self._queue, exclusive=True, arguments=_DROPS_EVERYTHING
        )
        exchange = channel.default_exchange
        if not self._through_default:
            exchange = await channel.declare_exchange(
                self._queue, aio_pika.ExchangeType.FANOUT, auto_delete=True
            )
            await queue.bind(exchange)
        self._exchange = exchange
        return exchange


@contextmanager
def _outages(place: BrokerAddress, rights: str) -> Iterator[None]:
    with outages(place):
        try:
            yield
        except aiormq.exceptions.ChannelAccessRefused as error:
            sentence = _RIGHTS.format(user=printable(place.user), vhost=printable(place.vhost))
            raise OutageError(sentence + rights) from error
