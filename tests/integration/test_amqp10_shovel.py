"""A shovel that speaks AMQP 1.0: two connections without a name, of which nobody knows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import pytest

from app.store.conversations import conversing
from model.conversations.messages import Outcome
from model.words import Via
from tests.integration.conftest import Service
from tests.integration.test_cases import Clients
from tests.integration.test_moved import SHOVEL, send
from tests.integration.test_streams import Node

LONG = 3_600_000_000  # µs


@pytest.fixture(scope="module")
def rabbit() -> Iterator[Node]:
    with Node(*SHOVEL, "rabbitmq_amqp1_0") as node:
        yield node


@pytest.fixture
async def clients(service: Service, rabbit: Node, vhost: str) -> AsyncIterator[Clients]:
    await service.running(vhost)
    async with AsyncExitStack() as stack:
        yield Clients(rabbit, vhost, stack)


@pytest.mark.parametrize("to", ["amqp10", "amqp091"])
async def test_what_it_took_away_is_not_done_as_it_may_have_published_it(
    service: Service,
    rabbit: Node,
    clients: Clients,
    to: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queues = "/queues/" if rabbit.version >= (4, 0) else "/amq/queue/"
    for name in ("src", "dst"):
        await clients.queue(name)
    uri = f"amqp://guest:guest@127.0.0.1:{rabbit.amqp_port}"
    by_1_0 = f"{uri}?hostname=vhost:{clients.vhost}&sasl=plain"
    moving = {"src-protocol": "amqp10", "src-uri": by_1_0, "src-address": f"{queues}src"}
    moving |= (
        {"dest-protocol": to, "dest-uri": by_1_0, "dest-address": f"{queues}dst"}
        if to == "amqp10"
        else {"dest-protocol": to, "dest-uri": f"{uri}/{clients.vhost}", "dest-queue": "dst"}
    )
    rabbit.api("PUT", "parameters", "shovel", clients.vhost, "s", json={"value": moving})
    send(rabbit, clients.vhost, "", "src", message_id="m1")
    await (await clients.take("dst")).ack()
    sent, *_ = await service.stored(clients.vhost, 4)
    now = conversing.present()
    monkeypatch.setattr(conversing, "present", lambda: now + LONG)

    for via in (Via.links, Via.conversation):
        found = await service.store.conversations.of_event(sent.id, via)
        assert found.conversation.outcome is Outcome.unknown
        assert "and may publish by another connection" in found.conversation.sentence
    trace = await service.store.traces.find(clients.vhost)
    assert trace is not None
    assert await service.store.doubts.of_trace(trace.id)
