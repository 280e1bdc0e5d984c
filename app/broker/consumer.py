"""The consumer of one virtual host's firehose: our own durable queue, acknowledged by batch.

The client's robust (self-reconnecting) connection is not used: after a cut the tracker must go back
to its checkpoint before the first redelivered message. So a cut is an `OutageError` here, and the
trace's supervisor starts again. Code shared with our other queues is in `app.broker.diverted`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import KW_ONLY, InitVar, dataclass
from hashlib import sha256
from typing import TypeVar

import msgspec
from aiormq.abc import AbstractChannel as Channel
from yarl import URL

from app.background import is_set_within
from app.broker import bundles, sentinel
from app.broker.connection import CONNECT_SECONDS, TraceConnection
from app.broker.deliveries import MOST_RECORDS, UNREAD, Arrival
from app.broker.diverted import DivertedStream, connect, queue_there, refuse_delivery
from app.broker.firehose import BUNDLE_KEY, CHANNELS_TAG, TRACE_EXCHANGE, parse
from app.broker.management import SERVICE_PROPERTY
from app.broker.marks import MarkPublisher
from app.broker.outages import CONNECTION_ERRORS, BrokerAddress, in_use, outage, outages
from app.broker.own import Own
from app.broker.trace_queue import Bookmark, QueueBounds, queue_arguments
from app.errors import OutageError
from app.tracker.records import LARGE
from app.tracker.taken import ALL

TRACE_QUEUE = "itc.trace"
# The consumer of a connection that just broke may be there for this long.
LEAVING_SECONDS = 1.0
# A queue may be stuck while its broker is well: one without a majority of its nodes, for instance.
ANSWER_SECONDS = 15.0
# After this time everything that a quorum queue's leader received is in its log.
IN_LOG_SECONDS = 1.0
# Bound on the bodies of a portion.
PORTION_BYTES = 16 * 1024 * 1024
# Headers are read at once, and take 60 ns a byte at worst.
PORTION_HEADERS = 1024 * 1024
# Beyond this many bytes of large bodies, digests are made in a thread, without Python's lock.
HASHED_HERE = 256 * 1024
# Arrival times may run ahead of the clock by this, in µs: a read yields some hundred messages.
MOST_AHEAD = 10_000
# From this many bytes on, nothing more is read from the socket until a batch is taken.
BUFFER_BYTES = 64 * 1024 * 1024
# The share of the prefetch that holds for bundles: with 400 of them ahead a backlog was read
# fastest, with 64 or 32,000 far slower.
FEWER = 80
# The plugin looks ten times a second whether bundles are wished for.
FIRST_BUNDLE_SECONDS = LAST_BUNDLE_SECONDS = 2.0
# Since this version of RabbitMQ the deliveries of direct replies are traced.
REPLIES_TRACED = (4, 2)


class Reading(msgspec.Struct, frozen=True):
    """The way to read a trace queue.

    ``quorum`` is the type that the queue has or gets: right on a cluster, because it outlives the
    node it was declared on. ``was_bound`` says whether an existing queue was bound to the trace
    exchange when we looked. ``sentinel`` is the token that should be at its head, None if none is
    known. ``missing`` are routing keys to bind it with, ``excess`` bound ones that are no longer
    wanted, ``bookmarks`` its knowledge of the store. ``prefetch`` is of records, and ``again``
    messages may come that were handed out before. ``has_bundles`` if the plugin makes them, as the
    ``wishes`` among the keys ask it to, and ``expects_bundles`` if it is about to.
    """

    prefetch: int
    again: int = 0
    has_bundles: bool = False
    expects_bundles: bool = False
    wishes: tuple[str, ...] = ()
    quorum: bool = False
    is_cluster: bool = False
    was_bound: bool = True
    sentinel: str | None = None
    missing: tuple[str, ...] = ALL.keys
    excess: tuple[str, ...] = ()
    bookmarks: tuple[Bookmark, ...] = ()


class TraceStream(DivertedStream):
    """One virtual host's trace messages, in batches."""

    def __init__(
        self,
        channel: Channel,
        queue: str,
        connection: TraceConnection,
        place: BrokerAddress,
        reading: Reading,
        *,
        queue_is_new: bool,
    ) -> None:
        super().__init__(channel, queue, place)
        self.account = place.user
        self.know_accounts(())
        # Delivery tags count from 1: the last that arrived, and the last acknowledged.
        self._arrived_tag = self._acknowledged = 0
        self._connection = connection
        self._bytes = self._headers = self._records = 0  # waiting ones; the second of headers
        self._largest = 0
        self._is_exclusive = not reading.quorum
        self._prefetch = reading.prefetch
        self._prefetch_of_bundles = max(reading.prefetch // FEWER, reading.again, 1)
        self._present_prefetch = 0
        self._refitting: asyncio.Task[None] | None = None
        self.records_per_message = 1.0  # of the last portion
        self._has_bundles, self._wishes = reading.has_bundles, reading.wishes
        self._expects_bundles, self._first_bundle = reading.expects_bundles, asyncio.Event()
        self._last_bundle_until: float | None = None
        self._consumers = 0
        self._next_at = 0
        self._received = (0.0, 0)  # a time and the last tag, on a cluster
        self.taken = 0
        self.queue_is_new = queue_is_new
        self.is_cluster = reading.is_cluster
        self.was_bound = reading.was_bound
        self.bookmarks = reading.bookmarks
        self.traces_replies = connection.broker_version >= REPLIES_TRACED
        self.sentinel: str | None = None  # the sentinel held
        self.is_sentinel_gone = False
        self.is_over = False

    @property
    def remark(self) -> str | None:
        """A sentence on what delays it; None if nothing does."""
        return None

    @property
    def waits(self) -> bool:
        """Tell whether nothing more is returned before the last batch is acknowledged."""
        return False

    def know_accounts(self, former: Iterable[str]) -> None:
        """Recognise these accounts' acts as our own, too."""
        self.about = Own(self._queue, self.account, former).about

    async def batch(self, most: int, linger: float) -> list[Arrival]:
        """Wait for messages and return up to ``most`` records, and the rest of the last bundle.

        After ``linger`` seconds it returns those that came, perhaps none.

        :raises OutageError: when the connection is gone. Messages that had arrived can no longer be
        acknowledged; they will come again over the next connection.
        :raises UndeliverableError: when the broker broke the connection off over a message.
        """
        self._enough = most  # records
        if not self._is_enough and self._loss is None:
            self._arrived.clear()
            await is_set_within(self._arrived, linger)
        self._check()
        batch: list[Arrival] = []
        size = headers = messages = counted = 0
        is_bundled = False
        while self._waiting and len(batch) < most:
            if size >= PORTION_BYTES or headers >= PORTION_HEADERS:
                break
            message = self._waiting.popleft()
            messages += 1
            size += message.size
            headers += _header_size(message)
            if message.bundle is None:
                batch.append(message)
                counted += 1
            else:
                is_bundled = True
                counted += message.bundle.size
                batch += bundles.open_bundle(message)
        self._bytes -= size
        self._headers -= headers
        self._records -= counted
        if self._bytes <= BUFFER_BYTES:
            self._connection.resume()
        # A bundle itself is never digested, its records are.
        if size > HASHED_HERE < sum(len(each.body) for each in batch if len(each.body) > LARGE):
            await asyncio.to_thread(_hash, batch)
        for message in batch:
            if message.message is UNREAD:
                message.message = parse(
                    message.routing_key, message.header, message.body, message.at, message.sha256
                )
            message.header = b""  # the next takes its room while the processor has it at hand
        if messages:
            self.records_per_message = len(batch) / messages
            self._refit(is_bundled)
        return batch

    def _refit(self, is_bundled: bool) -> None:
        """Have the broker send ahead what suits the last portion.

        Its consumer is another then: a quorum queue knows no other way to change it.
        """
        present = wanted = self._present_prefetch
        if is_bundled:
            wanted = min(present, self._prefetch_of_bundles)
        elif present and 2 * self.unacknowledged >= present:
            wanted = self._prefetch
        if wanted != present and (self._refitting is None or self._refitting.done()):
            # The answers come behind deliveries, for which there may be no room before the next
            # portion.
            self._refitting = asyncio.create_task(self._consume_anew(wanted))

    async def _consume_anew(self, prefetch: int) -> None:
        try:
            with self.request():
                await self._channel.basic_cancel(self._tag)
            await self.consume(prefetch)
        except OutageError as error:
            self.lose(error)

    async def acknowledge(self, tag: int) -> None:
        await super().acknowledge(tag)
        self._acknowledged = tag

    @property
    def unacknowledged(self) -> int:
        return self._arrived_tag - self._acknowledged

    async def queued(self) -> int:
        """The most messages that wait, in the queue or here, for their acknowledgement."""
        return await self.ready_messages() + self.unacknowledged

    async def wait_for_bundles(self) -> None:
        """Wait until the plugin makes bundles, where it is about to.

        What is traced in the moment in which it takes the queue over is missing.
        """
        if self._expects_bundles and self._consumers:
            await is_set_within(self._first_bundle, FIRST_BUNDLE_SECONDS)

    async def is_last_bundle_here(self) -> bool:
        """Have the plugin end its bundles; tell whether the last one came, or will not come."""
        if not self._has_bundles:
            return True
        if self._last_bundle_until is None:
            self._last_bundle_until = time.monotonic() + LAST_BUNDLE_SECONDS
            with self.request():
                for wish in self._wishes:
                    await self._channel.queue_unbind(self._queue, TRACE_EXCHANGE, routing_key=wish)
        return time.monotonic() > self._last_bundle_until

    @property
    def most_per_message(self) -> int:
        """The most records that a message may have."""
        return MOST_RECORDS if self._has_bundles else 1

    async def ready_messages(self) -> int:
        """The number of messages that the queue still holds for us, without delivered ones.

        What was traced before, and the plugin still held, is among them.

        The answer also shows that the queue has the acknowledgements before it: ``taken`` is the
        last tag of these. The first answer may overtake messages that the queue had handed to the
        channel; by the second, they have arrived.
        """
        self._check()
        if self._has_bundles:
            await asyncio.sleep(bundles.HELD_SECONDS)
        acknowledged = self._acknowledged
        try:
            declared, _ = [
                await self._channel.queue_declare(self._queue, passive=True, timeout=ANSWER_SECONDS)
                for _ in range(2)
            ]
        except CONNECTION_ERRORS as error:
            failure = outage(error, self._address)
            self.lose(failure)  # after a time-out the library has closed the channel
            raise failure from error
        self._note_taken(acknowledged)
        return declared.message_count or 0

    def _note_taken(self, tag: int) -> None:
        """Note that the queue has the acknowledgements up to a tag.

        On a cluster it has only received them, and loses them with its leader unless another node
        has logged them: those count that it has had for a while.
        """
        moment = time.monotonic()
        if not self.is_cluster:
            self.taken = tag
        elif moment - self._received[0] > IN_LOG_SECONDS:
            self.taken, self._received = self._received[1], (moment, tag)

    async def consume(self, prefetch: int | None = None) -> None:
        """Have the broker send this many messages ahead; few until it is clear what they are."""
        self._consumers += 1
        self._present_prefetch = prefetch or self._prefetch_of_bundles
        # Exclusive: until the broker notices that an earlier connection is dead, messages that it
        # has not acknowledged would come after newer ones. Quorum queues ignore this (measured on
        # 3.10.8), so their consumers were counted. A single active consumer would do too, but then
        # nothing else could remove a message that cannot be handed to a consumer.
        with self.request():
            await self._channel.basic_qos(prefetch_count=self._present_prefetch)
            await self._channel.basic_consume(
                self._queue, refuse_delivery, consumer_tag=self._tag, exclusive=self._is_exclusive
            )

    @property
    def _tag(self) -> str:
        return f"{self._queue}.{self._consumers}"

    async def ask_channels(self) -> None:
        """Have the broker plugin, if there is one, say where all channels stand."""
        with self.request():
            await self._channel.basic_cancel(CHANNELS_TAG)

    async def bind(self, missing: Iterable[str], excess: Iterable[str]) -> None:
        """Bind the queue by missing keys, and then remove other bindings.

        Bind first, then unbind: messages in both selections are never missed.
        """
        await self._bind(TRACE_EXCHANGE, missing)
        with self.request():
            for key in excess:
                await self._channel.queue_unbind(self._queue, TRACE_EXCHANGE, routing_key=key)

    async def leave_bookmark(self, epoch: int, event_id: int) -> None:
        """Put a new bookmark into the queue's bindings, and then remove the others."""
        bookmark = Bookmark(epoch, event_id)
        present, self.bookmarks = self.bookmarks, (bookmark,)
        if bookmark in present:
            return
        # Other bindings stay: the next look finds missing ones.
        await self._bind(TRACE_EXCHANGE, [bookmark.key])
        with self.request():
            for stale in present:
                await self._channel.queue_unbind(self._queue, TRACE_EXCHANGE, routing_key=stale.key)

    @property
    def buffer_size(self) -> int:
        return len(self._waiting)

    def take_largest(self) -> int:
        largest, self._largest = self._largest, 0
        return largest

    def take_in(self, deliveries: list[Arrival]) -> None:
        """Take in arrived messages.

        Messages of one read get times a microsecond apart, so that times show the order too.
        """
        moment = time.time_ns() // 1000
        first = max(moment, min(self._next_at, moment + MOST_AHEAD))
        self._next_at = first
        for message in deliveries:
            message.at = self._next_at
            count = 1
            if message.routing_key == BUNDLE_KEY and (bundle := bundles.read_head(message.header)):
                message.bundle, self._has_bundles = bundle, not bundle.end
                count = bundle.size
                self._first_bundle.set()
            self._records += count
            self._next_at += count
            message.size = len(message.header) + len(message.body)
            self._bytes += message.size
            self._headers += _header_size(message)
        self._largest = max(self._largest, *[len(message.body) for message in deliveries])
        if self._bytes > BUFFER_BYTES:
            self._connection.pause()
        self._arrived_tag = deliveries[-1].tag
        super().take_in(deliveries)

    @property
    def _is_enough(self) -> bool:
        is_portion = self._bytes >= PORTION_BYTES or self._headers >= PORTION_HEADERS
        return self._records >= self._enough or is_portion


def _header_size(message: Arrival) -> int:
    """The bytes of headers that a message has at most."""
    return len(message.header) if message.bundle is None else message.size


def _hash(messages: Sequence[Arrival]) -> None:
    for message in messages:
        if len(message.body) > LARGE:
            message.sha256 = sha256(message.body).digest()


AnyStream = TypeVar("AnyStream", bound=TraceStream)


@dataclass(eq=False)
class Firehose:
    """Opens streams: one connection to the broker for each trace.

    By the account in ``amqp_url``; its path is ignored. Two services that trace the same virtual
    host into two databases need different names of ``queue``; by ``owner``, our database's name,
    they notice if they do not. The broker shows ``service``, this one's id, with its connections.
    """

    amqp_url: InitVar[str]
    _: KW_ONLY
    bounds: QueueBounds
    queue: str = TRACE_QUEUE
    owner: str | None = None
    service: str | None = None

    def __post_init__(self, amqp_url: str) -> None:
        self._properties = {} if self.service is None else {SERVICE_PROPERTY: self.service}
        self._url = URL(amqp_url)

    @asynccontextmanager
    async def open(self, vhost: str, reading: Reading) -> AsyncIterator[TraceStream]:
        """Declare, bind and consume the trace queue of a virtual host.

        :raises OutageError: when the broker cannot be reached, or refuses.
        """
        async with self.open_idle(vhost, reading, TraceStream) as stream:
            await stream.consume()
            yield stream

    @asynccontextmanager
    async def open_idle(
        self, vhost: str, reading: Reading, kind: type[AnyStream], *, guarded: bool = True
    ) -> AsyncIterator[AnyStream]:
        """Declare and bind the trace queue of a virtual host, and consume nothing yet.

        It has no other consumer; its sentinel is held if it is ``guarded``. Raises `OutageError`.
        """
        async with self._connect(vhost) as connection:
            with outages(self._address(vhost)):
                stream = await self._prepare(connection, vhost, reading, kind, guarded=guarded)
            yield stream

    def marks(
        self, vhost: str, node: tuple[str, str, int] | None = None, *, through_default: bool = True
    ) -> MarkPublisher:
        """The publisher of marks, by a node's scheme, host and port or the usual address."""
        url = self._url
        if node is not None:
            scheme, host, port = node
            url = url.with_scheme(scheme).with_host(host).with_port(port)
        return MarkPublisher(url, vhost, self.queue, through_default=through_default)

    async def delete_queue(self, vhost: str) -> None:
        async with self._connect(vhost) as connection:
            with outages(self._address(vhost)):
                channel = await connection.channel(publisher_confirms=False)
                await channel.queue_delete(self.queue)

    def _connect(self, vhost: str) -> AbstractAsyncContextManager[TraceConnection]:
        return connect(self._url, self._address(vhost), self._properties)

    async def _prepare(
        self,
        connection: TraceConnection,
        vhost: str,
        reading: Reading,
        kind: type[AnyStream],
        *,
        guarded: bool,
    ) -> AnyStream:
        place = self._address(vhost)
        queued = await self._count_queued(connection, place)
        channel = await connection.channel(publisher_confirms=False)
        if queued is None:
            await channel.declare_queue(
                self.queue,
                durable=True,
                arguments=queue_arguments(self.bounds, quorum=reading.quorum, owner=self.owner),
            )
        token, is_gone = None, False
        if guarded and not reading.quorum:
            token, is_gone = await self._guard(connection, vhost, reading, queued)
        raw = await channel.get_underlay_channel()
        stream = kind(raw, self.queue, connection, place, reading, queue_is_new=queued is None)
        await stream.bind(reading.missing, reading.excess)
        stream.divert(connection, channel)
        stream.sentinel, stream.is_sentinel_gone = token, is_gone
        return stream

    async def _guard(
        self, connection: TraceConnection, vhost: str, reading: Reading, queued: int | None
    ) -> tuple[str | None, bool]:
        """Hold the queue's sentinel, or place one: the one held, and whether one is gone."""
        channel = await connection.channel(publisher_confirms=False)
        token = None if queued is None else reading.sentinel
        if token is not None and await sentinel.hold(channel, self.queue, token):
            return token, False
        placed = None
        if not queued:
            with suppress(OutageError, *CONNECTION_ERRORS):  # without one our connection ends too
                async with (
                    asyncio.timeout(CONNECT_SECONDS),
                    self._connect(vhost) as extra,
                ):
                    publisher = await extra.channel(publisher_confirms=True)
                    placed = await sentinel.put_sentinel(channel, self.queue, publisher)
        if placed is None:
            await channel.close()
        return placed, token is not None

    async def _count_queued(self, connection: TraceConnection, place: BrokerAddress) -> int | None:
        """Return how many messages the trace queue holds, None where there is no queue.

        :raises QueueInUseError: if it has a consumer, and keeps it.
        """
        deadline = time.monotonic() + LEAVING_SECONDS
        while (
            queue := await queue_there(connection, self.queue)
        ) is not None and queue.consumer_count:
            if time.monotonic() > deadline:
                raise in_use(place)
            await asyncio.sleep(LEAVING_SECONDS / 20)
        return None if queue is None else queue.message_count or 0

    def _address(self, vhost: str) -> BrokerAddress:
        return BrokerAddress.of(self._url, vhost, self.queue)
