"""Kill the service with SIGKILL at random moments under load; then count what is wrong.

    python -m bench.kills [KILLS] [--processes N]

20 kills by default, on SQLite and then on PostgreSQL. With processes of their own for the traces
(`ITC_TRACE_PROCESSES`) every second kill hits one of those, and the service lives on. `bench.judge`
says what is wrong; all its figures must be 0.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

import aio_pika
import httpx
from aio_pika.abc import AbstractIncomingMessage

from app.store import Store
from bench.judge import Report, judged, oracle, settled
from tools.servers import Broker, PostgresServer, RabbitNode, free_port, wait_until

CHECKOUT = Path(__file__).parents[1]
PUBLISHERS = 3
CATCH_UP_SECONDS = 0.5  # what a publisher that was held up makes good, at most
QUEUES = ("red", "green")
START_SECONDS = 60.0
TRACE_PROCESS = b"app.trace_process"


class Service:
    """``rabbitmq-itc serve`` as a process of its own."""

    def __init__(self, broker: Broker, database_url: str, folder: Path, processes: int = 0) -> None:
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
            "ITC_TRACE_PROCESSES": str(processes),
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

    def trace_processes(self) -> list[int]:
        """Its children that run traces."""
        if self.process is None:
            return []
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [
            int(pid)
            for pid in children.read_text().split()
            if TRACE_PROCESS in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]

    def end(self, number: signal.Signals) -> int:
        """Send it a signal, and wait for its end; gives its exit code."""
        if self.process is None:
            return 0
        self.process.send_signal(number)
        code = self.process.wait(60)
        self.process = None
        return code


class Load:
    """Clients that publish, consume, answer and sometimes put a message back.

    Each of the publishers sends a message every ``pause`` seconds. It goes to two queues, and each
    delivery is answered: three publishes and two deliveries, five events.
    """

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
        for _ in range(PUBLISHERS):
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
        now = asyncio.get_running_loop().time
        due = now()
        while True:
            self._number += 1
            body = b"%d" % self._number
            await fanout.publish(aio_pika.Message(body), "", mandatory=False)
            due = max(due + self._pause, now() - CATCH_UP_SECONDS)
            await asyncio.sleep(due - now())

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


async def drill(
    broker: Broker,
    database_url: str,
    kills: int,
    folder: Path,
    *,
    pause: float = 0.01,
    processes: int = 0,
) -> Report:
    """Run the drill on an empty database; gives what came out."""
    service = Service(broker, database_url, folder, processes)
    with broker.fresh_vhost("kills") as vhost:
        async with oracle(broker, vhost) as records:
            service.start()
            try:
                await service.listening()
                await service.trace(vhost)
                load = Load(broker.amqp_url(vhost), pause)
                await load.start()
                for number in range(kills):
                    if processes and number % 2:
                        await _kill_a_process(service)
                    else:
                        await _kill(service, early=number % 5 == 4)
                await load.stop()
                await service.listening()
                store = await Store.open(database_url)
                try:
                    await settled(store, records)
                    code = await asyncio.to_thread(service.end, signal.SIGTERM)
                    if code != 0:
                        raise RuntimeError(f"a graceful stop ended with {code}")
                    return await judged(kills, store, records)
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


async def _kill_a_process(service: Service) -> None:
    """Kill a process that runs traces, at a random moment; the service starts another."""
    await service.listening()
    await asyncio.sleep(random.uniform(0.1, 1.5))
    await asyncio.to_thread(
        wait_until, lambda: bool(service.trace_processes()), START_SECONDS, "a trace process"
    )
    for pid in service.trace_processes()[:1]:
        os.kill(pid, signal.SIGKILL)


async def main(kills: int, processes: int) -> int:
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
                report = await drill(broker, address, kills, folder, processes=processes)
                print(name, report, flush=True)
                wrong += report.lost + report.doubled + report.wrong_stamps
    return wrong


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.kills")
    parser.add_argument("kills", nargs="?", type=int, default=20)
    parser.add_argument("--processes", type=int, default=0, help="as ITC_TRACE_PROCESSES")
    return parser.parse_args()


if __name__ == "__main__":
    given = arguments()
    sys.exit(asyncio.run(main(given.kills, given.processes)) > 0)
