"""A program whose connections have two names: doubted where they speak for one program."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

import aiormq
import pytest
from yarl import URL

from tests.clients.conftest import Pipeline
from tests.integration.conftest import Service, until
from tests.integration.ports import FromPort
from tools.servers import Broker

QUEUE = "mail"
ATTEMPTS = 5  # a machine at work may open what is asked for at once one after the other


def free_ports(apart: int) -> Sequence[int]:
    """Two ports that nobody has, this far from each other."""
    for _ in range(100):
        with socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
            try:
                other.bind(("127.0.0.1", port - apart))
            except OSError:
                continue
            return port, port - apart
    raise AssertionError("no two ports are free")


async def exchange(url: URL, ports: Sequence[int], processes: Sequence[str]) -> None:
    """Send a message by a connection called `front` to one called `notify`."""
    names = ("notify", "front")
    opening = [
        aiormq.connect(
            url,
            client_properties={
                "connection_name": name,
                **({"process_id": process} if process else {}),
            },
            transport_factory=FromPort(port),
        )
        for name, process, port in zip(names, processes, ports, strict=True)
    ]
    connections = await asyncio.gather(*opening)
    reads, writes = [await connection.channel() for connection in connections]
    is_handed = asyncio.Event()

    async def handle(delivery: aiormq.abc.DeliveredMessage) -> None:
        await reads.basic_ack(delivery.delivery_tag or 0)
        is_handed.set()

    await reads.basic_consume(QUEUE, handle)
    await writes.basic_publish(b"", routing_key=QUEUE)
    await is_handed.wait()
    for connection in connections:
        await connection.close()


@pytest.mark.parametrize(
    ("apart", "processes", "sign"),
    [
        (200, ("71", "71"), "one process id"),
        (2, ("", ""), "neighbouring ports"),
        (200, ("71", "72"), None),
        (200, ("", ""), None),
    ],
)
async def test_connections_of_two_names_are_doubted_where_they_speak_for_one_program(
    service: Service,
    pipeline: Pipeline,
    rabbit: Broker,
    vhost: str,
    apart: int,
    processes: Sequence[str],
    sign: str | None,
) -> None:
    pipeline.add_queues()
    await service.running(vhost)
    trace = await service.store.traces.find(vhost)
    assert trace is not None
    for attempt in range(1, ATTEMPTS + 1):
        await exchange(URL(rabbit.amqp_url(vhost)), free_ports(apart), processes)

        async def is_stored(count: int = 2 * attempt) -> bool:
            return len(await service.events(vhost)) == count

        await until(is_stored, "the message is stored")
        doubts = await service.store.doubts.of_trace(trace.id)
        if doubts or sign is None:
            break
    assert [sign in doubt.statement for doubt in doubts if sign] == [True] * bool(sign)
    assert bool(doubts) is bool(sign)
