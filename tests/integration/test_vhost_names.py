"""A virtual host is entered under its own name, whatever that looks like in an address."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from app.broker.connection import log_in
from app.broker.outages import VirtualHostError
from tests.integration.conftest import Service
from tests.integration.raw_client import RawPublisher, table
from tools.servers import Broker

NAMES = ("a%2Fb", "a/b", "%25", "%", "a b", "ä", "?x#y", "a%252Fb", "a\\b")


@pytest.fixture
def vhosts(rabbit: Broker) -> Iterator[tuple[str, ...]]:
    with ExitStack() as stack:
        for name in NAMES:
            rabbit.add_vhost(name)
            stack.callback(rabbit.delete_vhost, name)
        yield NAMES


async def test_each_is_captured_as_itself(
    vhosts: tuple[str, ...], service: Service, rabbit: Broker
) -> None:
    """The hosts come first, and so go last: the service waits for one that is gone as it ends."""
    await asyncio.gather(*map(service.running, vhosts))
    for vhost in vhosts:
        async with RawPublisher(rabbit.amqp_url(vhost)) as publisher:
            publisher.publish(b"", b"nowhere", table(), vhost.encode())
    for vhost in vhosts:
        (event,) = await service.stored(vhost, 1)
        assert event.payload == vhost.encode()


async def test_signing_in_is_for_the_one_that_is_named(rabbit: Broker) -> None:
    with ExitStack() as stack:
        rabbit.add_vhost("c/d")
        stack.callback(rabbit.delete_vhost, "c/d")
        await log_in(rabbit.amqp_url(), "c/d", 10)
        with pytest.raises(VirtualHostError, match="c%2Fd"):
            await log_in(rabbit.amqp_url(), "c%2Fd", 10)
        await asyncio.to_thread(rabbit.add_vhost, "c%2Fd")
        stack.callback(rabbit.delete_vhost, "c%2Fd")
        await log_in(rabbit.amqp_url(), "c%2Fd", 10)
