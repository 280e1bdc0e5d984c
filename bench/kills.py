"""Kill the service with SIGKILL at random moments under load; then count what is wrong.

    python -m bench.kills [KILLS]        20 by default, on SQLite and then on PostgreSQL

The judge is a second consumer of the firehose, with a queue of its own, that nobody kills: the
store must hold the same multiset of events, each with the stamp, the cause and the place that a
tracker gives it which is fed the same sequence without a crash. All figures must be 0.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple, TypeAlias

import aio_pika
import httpx
from aio_pika.abc import AbstractIncomingMessage

from app.broker.consumer import Firehose
from app.store import EventFilter, EventRow, Store
from app.tracker import (
    Bounds,
    Channel,
    Deliver,
    EventType,
    Policy,
    Publish,
    Record,
    Tracker,
    Unreadable,
)
from tools.servers import Broker, PostgresServer, RabbitNode, free_port, wait_until

CHECKOUT = Path(__file__).parents[1]
QUEUES = ("red", "green")
SETTLE_SECONDS = 90.0
START_SECONDS = 60.0

Key: TypeAlias = tuple[EventType, Channel, str | None, bool, bytes]


class Report(NamedTuple):
    """What came out; all but the first two must be 0."""

    kills: int
    events: int
    lost: int
    doubled: int
    wrong_stamps: int


class Service:
    """``rabbitmq-itc serve`` as a process of its own."""

    def __init__(self, broker: Broker, database_url: str, folder: Path) -> None:
        self.port = free_port()
        self._log = (folder / "service.log").open("ab")
        self._environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("ITC_")},
            "ITC_AMQP_URL": broker.amqp_url("/"),
            "ITC_MANAGEMENT_URL": broker.management_url,
            "ITC_DATABASE_URL": database_url,
            "ITC_DATA_DIR": str(folder),
            "ITC_AUTH": "none",
            "ITC_PORT": str(self.port),
            "ITC_BATCH_SECONDS": "0.02",
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; `listening` waits for the rest."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "app.cli", "serve"],
            env=self._environment,
            cwd=CHECKOUT,
            stdout=self._log,
            stderr=self._log,
        )

    async def listening(self) -> None:
        """Wait until it answers; it takes its port long before."""
        await asyncio.to_thread(wait_until, self._answers, START_SECONDS, "the service's start")

    def _answers(self) -> bool:
        place = f"http://127.0.0.1:{self.port}/health/live"
        try:
            return httpx.get(place, trust_env=False, timeout=1).is_success
        except httpx.HTTPError:
            return False

    async def trace(self, vhost: str) -> None:
        """Have it trace a virtual host."""
        await self._ask("PUT", vhost)

    async def stop_trace(self, vhost: str) -> None:
        """Have it stop the trace, which empties the trace queue into the store."""
        await self._ask("DELETE", vhost)

    async def _ask(self, method: str, vhost: str) -> None:
        place = f"http://127.0.0.1:{self.port}/itc_db/{vhost}/undefined/undefined/undefined"
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            (await client.request(method, place)).raise_for_status()

    def end(self, number: signal.Signals) -> int:
        """Send it a signal, and wait for its end; gives its exit code."""
        if self.process is None:
            return 0
        self.process.send_signal(number)
        code = self.process.wait(60)
        self.process = None
        return code


class Load:
    """Clients that publish, consume, answer and sometimes put a message back."""

    def __init__(self, url: str, pause: float) -> None:
        self._url = url
        self._pause = pause
        self._number = 0
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin."""
        for queue in QUEUES:
            channel = await self._channel()
            await channel.set_qos(20)
            there = await channel.declare_queue(queue)
            await there.bind("amq.fanout")
            await there.consume(self._answering(channel, queue))
        for _ in range(3):
            self._tasks.append(asyncio.create_task(self._publish(await self._channel())))

    async def stop(self) -> None:
        """End; what is on its way may be left where it is."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()

    async def _channel(self) -> aio_pika.abc.AbstractChannel:
        connection = await self._stack.enter_async_context(await aio_pika.connect(self._url))
        return await connection.channel(publisher_confirms=False)

    async def _publish(self, channel: aio_pika.abc.AbstractChannel) -> None:
        fanout = await channel.get_exchange("amq.fanout", ensure=False)
        while True:
            self._number += 1
            body = b"%d" % self._number
            await fanout.publish(aio_pika.Message(body), "", mandatory=False)
            await asyncio.sleep(self._pause)

    def _answering(self, channel: aio_pika.abc.AbstractChannel, queue: str):  # type: ignore[no-untyped-def]
        async def take(message: AbstractIncomingMessage) -> None:
            with contextlib.suppress(aio_pika.exceptions.AMQPError):
                if not message.redelivered and random.random() < 0.05:
                    await message.nack(requeue=True)
                    return
                answer = aio_pika.Message(message.body + queue.encode())
                # Nobody is bound there: in a queue that nobody empties copies would pile up.
                topic = await channel.get_exchange("amq.topic", ensure=False)
                await topic.publish(answer, "answer", mandatory=False)
                await message.ack()

        return take


@asynccontextmanager
async def oracle(broker: Broker, vhost: str) -> AsyncIterator[list[Record]]:
    """A consumer of its own; the list grows while the block runs."""
    records: list[Record] = []
    firehose = Firehose(broker.amqp_url("/"), queue_max_bytes=1 << 30, queue="oracle")
    async with firehose.open(vhost, 2_000, quorum=False) as stream:

        async def listen() -> None:
            while True:
                for each in await stream.batch(1_000, 0.1):
                    if isinstance(each.message, Unreadable):
                        raise TypeError(each.message.reason)
                    records.append(each.message)
                    await stream.acknowledge(each.tag)

        task = asyncio.create_task(listen())
        try:
            yield records
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def drill(
    broker: Broker, database_url: str, kills: int, folder: Path, *, pause: float = 0.01
) -> Report:
    """Run the drill on an empty database; gives what came out."""
    service = Service(broker, database_url, folder)
    with broker.fresh_vhost("kills") as vhost:
        async with oracle(broker, vhost) as records:
            service.start()
            try:
                await service.listening()
                await service.trace(vhost)
                load = Load(broker.amqp_url(vhost), pause)
                await load.start()
                for number in range(kills):
                    await _kill(service, early=number % 5 == 4)
                await load.stop()
                store = await Store.open(database_url)
                try:
                    await settled(store, records)
                    code = await asyncio.to_thread(service.end, signal.SIGTERM)
                    if code != 0:
                        raise RuntimeError(f"a graceful stop ended with {code}")
                    return judged(kills, await stored_events(store), records)
                finally:
                    await store.close()
            finally:
                service.end(signal.SIGKILL)


async def _kill(service: Service, *, early: bool) -> None:
    """Kill it at a random moment, every fifth time while it starts, and start it again."""
    if not early:
        await service.listening()
    await asyncio.sleep(random.uniform(0.1, 1.5))
    await asyncio.to_thread(service.end, signal.SIGKILL)
    service.start()


async def settled(store: Store, records: list[Record]) -> None:
    """Wait until the store has caught up with the oracle, or does not move any more."""
    loop = asyncio.get_running_loop()
    deadline, before, still_since = loop.time() + SETTLE_SECONDS, (-1, -1), loop.time()
    while loop.time() < deadline:
        now = (await store.count(EventFilter()), len(records))
        if now != before:
            before, still_since = now, loop.time()
        if loop.time() - still_since > (2 if now[0] == now[1] else 20):
            return
        await asyncio.sleep(0.2)


async def stored_events(store: Store) -> list[EventRow]:
    """All events, oldest first."""
    found: list[EventRow] = []
    while page := await store.events(
        EventFilter(), after=found[-1].id if found else 0, limit=1_000
    ):
        found += page
    return found


def judged(kills: int, stored: list[EventRow], records: list[Record]) -> Report:
    """Compare the store with what the oracle saw."""
    seen: defaultdict[Key, deque[Record]] = defaultdict(deque)
    for record in records:
        seen[_key(record)].append(record)
    wanted = Counter({key: len(found) for key, found in seen.items()})
    present = Counter(_key_of(event) for event in stored)
    in_order = [seen[_key_of(e)].popleft() for e in stored if seen[_key_of(e)]]
    wrong = len(stored)
    if len(in_order) == len(stored):
        wrong = _wrong_stamps(stored, in_order)
    return Report(
        kills,
        len(stored),
        lost=(wanted - present).total(),
        doubled=(present - wanted).total(),
        wrong_stamps=wrong,
    )


def _wrong_stamps(stored: list[EventRow], records: list[Record]) -> int:
    tracker = Tracker(Policy.channel, Bounds())
    wrong = 0
    for event, record in zip(stored, records, strict=True):
        (right,) = tracker.apply(record, event.recorded_at)
        right.reference.id = event.id
        tracker.checkpoint()
        cause = right.cause.id if right.cause else None
        wrong += (
            event.stamp.trees(),
            event.participant,
            event.seq,
            event.lamport,
            event.match,
            event.cause,
        ) != (
            right.stamp.trees(),
            right.participant,
            right.seq,
            right.lamport,
            right.match,
            cause,
        )
    return wrong


def _key(record: Record) -> Key:
    if isinstance(record, Publish):
        return EventType.published, record.channel, None, False, record.body
    if isinstance(record, Deliver):
        return EventType.received, record.channel, record.queue, record.redelivered, record.body
    raise TypeError(record)


def _key_of(event: EventRow) -> Key:
    channel = Channel(event.node, event.connection, event.channel, event.user)
    return event.type, channel, event.queue, event.redelivered, event.payload or b""


async def main(kills: int) -> int:
    """Run it on both databases, on private servers; gives how much was wrong."""
    wrong = 0
    given = Broker.from_environment(os.environ)
    with tempfile.TemporaryDirectory() as place, given or RabbitNode() as broker:
        folders = [Path(place, name) for name in ("sqlite", "postgres")]
        for folder in folders:
            folder.mkdir()
        with PostgresServer() as server, server.fresh_database() as url:
            for name, address, folder in (
                ("SQLite", f"sqlite:///{folders[0] / 'itc.db'}", folders[0]),
                ("PostgreSQL", url, folders[1]),
            ):
                report = await drill(broker, address, kills, folder)
                print(name, report, flush=True)
                wrong += report.lost + report.doubled + report.wrong_stamps
    return wrong


if __name__ == "__main__":
    sys.exit(asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)) > 0)
