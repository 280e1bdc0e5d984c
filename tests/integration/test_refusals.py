"""What a trace says while the broker refuses it: plain sentences, on a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import aiormq
import pytest
from aiormq.abc import ChannelFrame
from pamqp import commands
from yarl import URL

from app.broker.connection import VhostConnection, log_in
from app.broker.consumer import Firehose
from app.broker.outages import BrokerAddress, outages
from app.broker.source import TraceSource
from app.broker.trace_queue import QueueBounds
from app.errors import OutageError, UnreachableError
from app.store import Store
from app.traces.life import TraceState
from app.traces.pipeline import PipelineSettings
from app.traces.registry import TraceRegistry
from tests.integration.conftest import Service, until
from tests.integration.test_capture import send_and_receive
from tests.introductions import NOBODY
from tools.servers import Broker

ACCOUNT, PASSWORD = "capturer", "hush-hush"


async def waiting_for(service: Service, vhost: str, words: str) -> str:
    """Wait until the trace waits for something with these words in it; return the sentence."""

    async def waits() -> str | None:
        status = await service.registry.status(vhost)
        if status.state is TraceState.waiting and words in (status.waiting_for or ""):
            return status.waiting_for
        return None

    return await until(waits, f"the trace waits for: {words}")


def capturing_as(service: Service, url: str, settings: PipelineSettings) -> None:
    """Let the service capture with another account than it asks the management API with."""
    firehose = Firehose(url, bounds=QueueBounds())
    service.source = TraceSource(firehose, service.management)
    service.registry = TraceRegistry(service.store, service.source, settings, NOBODY)


@pytest.fixture
async def account(rabbit: Broker) -> AsyncIterator[str]:
    rabbit.add_user(ACCOUNT, PASSWORD)
    yield ACCOUNT
    rabbit.delete_user(ACCOUNT)


async def test_a_deleted_virtual_host_is_named_and_traced_again_when_it_is_back(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost)
    rabbit.delete_vhost(vhost)
    said = await waiting_for(service, vhost, "no virtual host")
    rabbit.add_vhost(vhost)
    await service.running(vhost)
    await send_and_receive(rabbit, vhost, 1)

    assert said == (
        f"the broker has no virtual host {vhost} any more: create it again, or stop this trace"
    )
    assert len(await service.stored(vhost, 2)) == 2


async def test_a_wrong_password_is_said_without_showing_it(
    store: Store, rabbit: Broker, vhost: str, settings: PipelineSettings, account: str
) -> None:
    service = Service(store, rabbit, settings)
    rabbit.permit(account, vhost)
    capturing_as(service, rabbit.amqp_url("/", account, "guessed"), settings)
    await service.registry.start(vhost, None)
    said = await waiting_for(service, vhost, "refuses user")
    rabbit.add_user(account, "guessed")  # the operator fixes it at the broker
    await service.running(vhost)
    await service.close()

    assert said == f"the broker refuses user {account}: check the name and password in ITC_AMQP_URL"
    assert "guessed" not in said


async def test_rights_that_are_missing_are_said_and_how_to_give_them(
    store: Store, rabbit: Broker, vhost: str, settings: PipelineSettings, account: str
) -> None:
    service = Service(store, rabbit, settings)
    capturing_as(service, rabbit.amqp_url("/", account, PASSWORD), settings)
    await service.registry.start(vhost, None)
    none = await waiting_for(service, vhost, "does not let user")
    rabbit.permit(account, vhost, read="^itc")
    some = await waiting_for(service, vhost, "too few rights")
    rabbit.permit(account, vhost)
    await service.running(vhost)
    await service.close()

    for said in (none, some):
        assert f"rabbitmqctl set_permissions -p {vhost} {account}" in said
        assert PASSWORD not in said
        assert rabbit.password not in said.replace(rabbit.user, "")


async def test_a_trace_of_a_deleted_virtual_host_is_stopped(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost)
    rabbit.delete_vhost(vhost)
    await service.registry.stop(vhost)
    status = await service.registry.status(vhost)
    trace = await service.store.traces.find(vhost)
    rabbit.add_vhost(vhost)  # for whoever cleans up

    assert (status.state, status.wanted) == (TraceState.stopped, False)
    assert trace is not None
    assert trace.holder is None


async def test_a_server_that_is_not_an_amqp_broker_is_reported(rabbit: Broker) -> None:
    http = rabbit.management_url.partition("://")[2]
    with pytest.raises(OutageError, match="ITC_AMQP_URL") as raised:
        await log_in(f"amqp://itc:{PASSWORD}@{http}", "/", 30)

    assert PASSWORD not in str(raised.value)


async def test_a_broker_that_closes_a_connection_over_a_channel_is_an_outage_to_the_next_channel(
    rabbit: Broker, vhost: str
) -> None:
    """It answers so to what comes for a channel that it has closed itself."""
    url, closed = URL(rabbit.amqp_url(vhost)), asyncio.Event()
    connection = VhostConnection(url, vhost)
    await connection.connect(timeout=10)
    connection.close_callbacks.add(lambda *_: closed.set())
    assert connection.transport is not None
    library = cast("aiormq.Connection", connection.transport.connection)
    library.write_queue.put_nowait(ChannelFrame.marshall(9, [commands.Basic.Qos()]))
    await asyncio.wait_for(closed.wait(), 10)
    with pytest.raises(UnreachableError, match="is gone"), outages(BrokerAddress.of(url, vhost)):
        await connection.channel()
