"""Names and records that map to one stored text: they are stored, and the trace goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import quote

import aio_pika
import httpx2
import pytest
from aio_pika import Message

from app.store import Store, migrate
from app.traces.losses import queuewatch
from app.traces.runs import run
from model.event import Event
from tests.integration.conftest import Service, until
from tests.integration.test_cases import Clients
from tests.integration.test_hostile import GOOD, is_well, open_the_trace_exchange
from tools.servers import Broker

# The broker's numbers are up to 5 s old.
WAITED = 7_000_000
NUL, SPELT = "nul\0", "nul\\x00"  # the second is what the first is stored as


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "QUEUE_SECONDS", 0.5)
    monkeypatch.setattr(queuewatch, "WAIT", WAITED)


@pytest.fixture(params=["sqlite", "postgresql"])
async def store(request: pytest.FixtureRequest, store: Store) -> AsyncIterator[Store]:
    if request.param == "sqlite":
        yield store
        return
    url = request.getfixturevalue("postgres_url")
    await migrate(url)
    there = await Store.open(url)
    yield there
    await there.close()


async def lost(service: Service, publish: Event) -> list[str]:
    """The queues in which copies of a publish are gone, once one is."""

    async def gone() -> list[str]:
        copies = (await service.store.copies.fate_of(publish.id)).message.copies
        return [each.queue for each in copies if each.loss is not None]

    return await until(gone, f"a copy of event {publish.id} is gone")


async def manage(broker: Broker, method: str, *path: str) -> None:
    """Ask the management API, which takes names that client libraries refuse."""
    url = "/".join((broker.management_url, "api", *(quote(part, safe="") for part in path)))
    async with httpx2.AsyncClient(auth=(broker.user, broker.password)) as client:
        body = {"json": {}} if method != "DELETE" else {}
        (await client.request(method, url, **body)).raise_for_status()


async def test_queues_of_which_two_map_to_one_text_are_deleted(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost)
    for name in (NUL, SPELT):
        await manage(rabbit, "PUT", "queues", vhost, name)
        await manage(rabbit, "POST", "bindings", vhost, "e", "amq.fanout", "q", name)
    async with AsyncExitStack() as stack:
        await Clients(rabbit, vhost, stack).send("any", exchange="amq.fanout")
        [sent] = await service.stored(vhost, 1)
    for name in (NUL, SPELT):
        await manage(rabbit, "DELETE", "queues", vhost, name)
    assert await lost(service, sent) == [SPELT]
    await is_well(service, rabbit, vhost)


async def test_a_forged_publish_names_a_queue_twice(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost)
    await open_the_trace_exchange(rabbit, vhost)
    forged: dict[str, Any] = {**GOOD, "routed_queues": ["gone", "gone", "gone"]}
    async with await aio_pika.connect(rabbit.amqp_url(vhost)) as connection:
        exchange = await (await connection.channel()).get_exchange("rubbish")
        await exchange.publish(Message(b"body", headers=forged), "publish.", mandatory=False)
    events = await service.stored(vhost, 2)  # the forging is traced as well
    [event] = [each for each in events if each.node == GOOD["node"]]
    assert await lost(service, event) == ["gone"]
    await is_well(service, rabbit, vhost)
