"""Connections of which the other end is gone without a word."""

from __future__ import annotations

import asyncio
import socket
import time

from sqlalchemy import make_url, text
from yarl import URL

from app.store import Store
from app.store.database.postgres import DEAD_SECONDS, Postgres
from app.traces.pipeline import PipelineSettings
from tests.integration.conftest import Service
from tests.integration.proxy import Proxy
from tests.integration.test_capture import send_and_receive
from tools.servers import Broker, PostgresServer


async def test_a_broker_that_falls_silent_is_left_for_a_new_connection(
    store: Store, rabbit: Broker, vhost: str, settings: PipelineSettings
) -> None:
    """The heartbeat is 4 s here, with the default of 10 s it takes 2.5 times as long."""
    target = URL(rabbit.amqp_url("/"))
    async with Proxy.to(target.port or 5672) as proxy:
        url = target.with_host("127.0.0.1").with_port(proxy.port).with_query(heartbeat=4)
        service = Service(store, rabbit, settings, amqp_url=str(url))
        await service.running(vhost)
        await send_and_receive(rabbit, vhost, 1)
        await service.stored(vhost, 2)
        proxy.forget()
        began = time.monotonic()
        await send_and_receive(rabbit, vhost, 1, "meanwhile")
        assert len(await service.stored(vhost, 4)) == 4
        # The broker itself lets go of our old consumer only by its own heartbeats.
        assert time.monotonic() - began < 5 * 4
        await service.registry.stop(vhost)
        await service.close()


async def test_a_service_whose_broker_is_silent_ends_soon(
    store: Store, rabbit: Broker, vhost: str, settings: PipelineSettings
) -> None:
    target = URL(rabbit.amqp_url("/"))
    async with Proxy.to(target.port or 5672) as proxy:
        url = target.with_host("127.0.0.1").with_port(proxy.port)
        service = Service(store, rabbit, settings, amqp_url=str(url))
        await service.running(vhost)
        proxy.hold()
        async with asyncio.timeout(12):
            await service.registry.shutdown(deadline=2)
        await service.management.close()


async def test_a_database_whose_network_is_gone_is_noticed_by_the_system(
    postgres: PostgresServer,
) -> None:
    with postgres.fresh_database() as url:
        engine = Postgres(make_url(url)).writer()
        async with engine.begin() as connection:
            raw = await connection.get_raw_connection()
            own = raw.driver_connection._transport.get_extra_info("socket")  # type: ignore[union-attr]
            waits = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
            assert waits == DEAD_SECONDS * 1000
            assert own.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            idle = await connection.execute(text("show tcp_keepalives_idle"))
            assert idle.scalar_one() == str(DEAD_SECONDS // 2)
        await engine.dispose()
