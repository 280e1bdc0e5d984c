"""Acknowledgements that are late, a trace queue at its limit, and cuts: nothing is stored twice."""

from __future__ import annotations

from collections import Counter

import aio_pika
import msgspec
import pytest
from yarl import URL

from app.broker.trace_queue import QueueBounds
from app.store import Store
from app.traces.pipeline import PipelineSettings
from tests.integration.conftest import Service, until
from tests.integration.proxy import Proxy
from tools.servers import Broker

BOUNDS = QueueBounds(messages=300)
PREFETCH, BATCH = 200, 70


async def publish(broker: Broker, vhost: str, first: int, count: int, body: bytes = b"") -> None:
    """Publish, numbered, or all alike if there is a body."""
    async with await aio_pika.connect(broker.amqp_url(vhost)) as connection:
        channel = await connection.channel()
        for number in range(first, first + count):
            message_id = None if body else str(number)
            message = aio_pika.Message(body or b"%d" % number, message_id=message_id)
            await channel.default_exchange.publish(message, "nowhere")


async def numbers(service: Service, vhost: str) -> list[int]:
    return [int((event.payload or b"").decode()) for event in await service.events(vhost)]


@pytest.mark.parametrize("more", [10, 90])
async def test_what_a_full_queue_hands_over_again_is_stored_once(
    more: int, store: Store, rabbit: Broker, vhost: str, settings: PipelineSettings
) -> None:
    settings = msgspec.structs.replace(settings, prefetch=PREFETCH, batch_events=BATCH)
    target = URL(rabbit.amqp_url("/"))
    async with Proxy.to(target.port or 5672) as proxy:
        url = str(target.with_host("127.0.0.1").with_port(proxy.port))
        service = Service(store, rabbit, settings, BOUNDS, amqp_url=url)
        await service.running(vhost)
        await publish(rabbit, vhost, 0, 50)
        await service.stored(vhost, 50)
        published = 50
        for _ in range(3):
            proxy.up.clear()  # no acknowledgement arrives
            before = len(await service.events(vhost))
            await publish(rabbit, vhost, published, PREFETCH + 200)
            # The last batch may be stored and not acknowledged, and so one less is handed over.
            await service.stored(vhost, before + PREFETCH - BATCH - 10)
            published += PREFETCH + 200
            proxy.cut()
            # The queue is over its limit with what was put back: the next ones drop its head.
            await publish(rabbit, vhost, published, more)
            published += more
            proxy.release()

            async def arrived(last: int = published - 1) -> bool:
                return last in await numbers(service, vhost)

            await until(arrived, "the last one is stored")

            async def settled() -> bool:
                return (await service.registry.status(vhost)).lag == 0

            await until(settled, "nothing is on its way any more")
        found = await numbers(service, vhost)
        assert [number for number, count in Counter(found).items() if count > 1] == []
        assert found == list(range(published))
        await service.registry.stop(vhost)
        await service.close()
