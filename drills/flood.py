"""Publish floods: is what the broker has not handed over yet ever taken for lost?

    python -m drills.flood [FLOODS] [--messages 240000] [--lose]

Publishers write as fast as the broker reads. It then counts publishes whose trace messages still
wait inside it, where no queue shows them. All must be stored, and once the virtual host is quiet no
gap may be left; what was suspected meanwhile is said. With ``--lose`` the trace queue is unbound
for a moment of each flood, and nobody looks but the audit: then a gap that is certain must be left.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import struct
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import aio_pika
import pamqp.frame
from pamqp import commands
from pamqp.base import Frame
from pamqp.body import ContentBody
from pamqp.header import ContentHeader, ProtocolHeader

from app.broker.consumer import TRACE_QUEUE
from app.broker.firehose import TRACE_EXCHANGE
from drills.service import Service
from tools.servers import Broker, RabbitNode

PUBLISHERS = 4
CHUNK = 100  # messages in one write
BODY = b"x" * 20
LOSE_SECONDS = 2.0
AUDIT_ALONE = {"ITC_MARK_SECONDS": "0", "ITC_TRACING_CHECK_SECONDS": "3600"}
LOOK_SECONDS = 0.5
SURE_SECONDS = 15.0  # of rest: whatever the broker counts later than it should would show
QUIET_SECONDS = 300.0  # for all to be stored, and for the audit to know it


class Flood(NamedTuple):
    """The outcome of a flood. ``suspected`` is the most suspected to be missing meanwhile."""

    seconds: float
    stored: int
    published: int
    suspected: int
    audit: dict[str, Any]
    gaps: Sequence[dict[str, Any]]

    @property
    def is_whole(self) -> bool:
        """Tell whether all is stored, and nothing said to be missing."""
        return self.stored == self.published and not self.gaps and not self.audit["missing"]

    @property
    def is_known(self) -> bool:
        """Tell whether something is missing, and a gap that is certain says so."""
        known = [gap for gap in self.gaps if not gap["suspected"] and gap["until"]]
        return self.stored < self.published and bool(known)

    def __str__(self) -> str:
        gaps = "; ".join(
            f"{'suspected' if each['suspected'] else 'certain'}: {each['reason']}"
            for each in self.gaps
        )
        return (
            f"{self.published:,} published in {self.seconds:.0f} s, {self.stored:,} stored, at most"
            f" {self.suspected:,} suspected meanwhile; {self.audit['sentence']};"
            f" {self.audit['missing']:,} missing, {self.audit['excess']:,} in excess,"
            f" gaps: {gaps or 'none'}"
        )


async def connected(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection with a channel, for whatever is written to it."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(ProtocolHeader().marshal())
    await answer(reader)
    secret = f"\0{unquote(parts.username or '')}\0{unquote(parts.password or '')}"
    writer.write(_frame(commands.Connection.StartOk({}, "PLAIN", secret, "en_US"), 0))
    await answer(reader)
    writer.write(_frame(commands.Connection.TuneOk(1, 131_072, 0), 0))
    writer.write(_frame(commands.Connection.Open(unquote(parts.path[1:])), 0))
    await answer(reader)
    writer.write(_frame(commands.Channel.Open()))
    await answer(reader)
    return reader, writer


async def publish(url: str, count: int) -> None:
    """Publish over a connection of its own, as fast as the broker takes it."""
    reader, writer = await connected(url)
    message = b"".join(
        (
            _frame(commands.Basic.Publish(routing_key="nowhere")),
            _frame(ContentHeader(body_size=len(BODY))),
            _frame(ContentBody(BODY)),
        )
    )
    for at in range(0, count, CHUNK):
        writer.write(message * min(CHUNK, count - at))
        await writer.drain()
    await end(reader, writer)


async def end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Close a connection once everything before has been read."""
    writer.write(_frame(commands.Channel.Close(200, "", 0, 0)))
    await answer(reader, seconds=QUIET_SECONDS)
    writer.close()
    await writer.wait_closed()


def _frame(what: Frame | ContentHeader | ContentBody, channel: int = 1) -> bytes:
    return pamqp.frame.marshal(what, channel)


async def answer(reader: asyncio.StreamReader, seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        head = await reader.readexactly(7)
        await reader.readexactly(struct.unpack(">I", head[3:])[0] + 1)


async def flood(broker: Broker, messages: int, *, lose: bool) -> Flood:
    """One flood of a virtual host of its own, until all that it led to is known."""
    with tempfile.TemporaryDirectory() as place, broker.fresh_vhost("flood") as vhost:
        url, settings = f"sqlite:///{Path(place) / 'itc.db'}", AUDIT_ALONE if lose else {}
        service = Service(broker, url, Path(place), settings=settings)
        async with service.tracing(vhost):
            await _quiet(service, time.time())
            began, suspicions = time.monotonic(), [0]
            looking = asyncio.create_task(_look(service, suspicions))
            losing = asyncio.create_task(_lose(broker, vhost, service)) if lose else None
            await _publish(broker.amqp_url(vhost), messages)
            seconds, ended = time.monotonic() - began, time.time()
            if losing is not None:
                await losing
            await _quiet(service, await _quiet(service, ended) + SURE_SECONDS)
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
            (trace,) = await service.get("traces")
            published = messages // PUBLISHERS * PUBLISHERS
            audit, gaps = trace["audit"], trace["gaps"]
            return Flood(seconds, trace["events"], published, max(suspicions), audit, gaps)


async def _publish(url: str, messages: int) -> None:
    count = str(messages // PUBLISHERS)
    programs = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-m", "drills.flood", "--publish", url, count
        )
        for _ in range(PUBLISHERS)
    ]
    if any([await each.wait() for each in programs]):
        raise RuntimeError("a publisher failed")


async def _lose(broker: Broker, vhost: str, service: Service) -> None:
    """Unbind the trace queue for a moment, once the flood has come to the service."""
    while True:
        (trace,) = await service.get("traces")
        if trace["events"]:
            break
        await asyncio.sleep(LOOK_SECONDS)
    async with await aio_pika.connect(broker.amqp_url(vhost)) as connection:
        channel = await (await connection.channel()).get_underlay_channel()
        await channel.queue_unbind(TRACE_QUEUE, TRACE_EXCHANGE, routing_key="#")
        await asyncio.sleep(LOSE_SECONDS)
        await channel.queue_bind(TRACE_QUEUE, TRACE_EXCHANGE, routing_key="#")


async def _look(service: Service, suspicions: list[int]) -> None:
    while True:
        (trace,) = await service.get("traces")
        suspicions.append((trace["audit"] or {}).get("suspected", 0))
        await asyncio.sleep(LOOK_SECONDS)


async def _quiet(service: Service, since: float) -> float:
    """Wait until counters were compared at rest after this moment; returns when."""
    async with asyncio.timeout(QUIET_SECONDS):
        while True:
            (trace,) = await service.get("traces")
            as_of = (trace["audit"] or {}).get("as_of")
            if as_of and (at := datetime.fromisoformat(as_of).timestamp()) > since:
                return at
            await asyncio.sleep(LOOK_SECONDS)


async def main(floods: int, messages: int, *, lose: bool) -> int:
    """Run them on a private broker; returns how many went wrong."""
    wrong = 0
    given = Broker.from_environment(os.environ)
    with given or RabbitNode() as broker:
        for _ in range(floods):
            found = await flood(broker, messages, lose=lose)
            wrong += not (found.is_known if lose else found.is_whole)
            print(found, flush=True)
    print(f"{wrong} of {floods} went wrong")
    return wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m drills.flood")
    parser.add_argument("floods", type=int, nargs="?", default=5)
    parser.add_argument("--messages", type=int, default=240_000)
    parser.add_argument("--lose", action="store_true", help="a moment of each flood")
    parser.add_argument("--publish", nargs=2, metavar=("URL", "COUNT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.publish:
        sys.exit(asyncio.run(publish(options.publish[0], int(options.publish[1]))))
    sys.exit(asyncio.run(main(options.floods, options.messages, lose=options.lose)) > 0)
