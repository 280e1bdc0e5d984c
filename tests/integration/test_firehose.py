"""The consumer of the firehose: what it says when it cannot connect, and how much it reads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from yarl import URL

from app.broker import consumer
from app.broker.consumer import Firehose, Reading
from app.broker.trace_queue import QueueBounds
from app.errors import OutageError
from bench.backlog import fill
from tests.integration.conftest import until
from tools.servers import Broker, free_port


async def test_what_is_not_taken_is_left_with_the_broker(
    rabbit: Broker, vhost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TCP holds the broker back."""
    monkeypatch.setattr(consumer, "BUFFER_BYTES", 100_000)
    count, size = 300, 100_000
    await fill(rabbit, vhost, [consumer.TRACE_QUEUE], 2, count, payload=b"x" * size)
    firehose = Firehose(rabbit.amqp_url("/"), bounds=QueueBounds())
    async with firehose.open(vhost, Reading(prefetch=1_000)) as stream:
        await until(_is(lambda: stream.buffer_size > 0), "something has arrived")
        await asyncio.sleep(0.5)  # for more to come, if it does
        # In sockets and buffers between are a few MB.
        assert stream.buffer_size * size < 15e6
        taken = 0
        while taken < count:
            taken += len(await stream.batch(1, 1.0))


def _is(condition: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    async def holds() -> bool:
        return condition()

    return holds


async def refusal(firehose: Firehose, vhost: str = "/") -> str:
    with pytest.raises(OutageError) as caught:
        async with firehose.open(vhost, Reading(prefetch=100)):
            pass
    return str(caught.value)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("amqp://localhost:{port}", "nothing listens at localhost:"),
        ("amqp://no.such.host.invalid", "has no address"),
        ("amqps://{broker}", "is that the broker's port for amqps?"),
        ("amqp://nobody:wrong@{broker}", "refuses user nobody"),
    ],
)
async def test_what_is_wrong_with_the_address_or_account_is_said(
    rabbit: Broker, url: str, said: str
) -> None:
    broker = URL(rabbit.amqp_url("/"))
    where = url.format(port=free_port(), broker=f"{broker.host}:{broker.port}")
    assert said in await refusal(Firehose(where, bounds=QueueBounds()))


async def test_who_hangs_up_during_tls_is_no_name_without_an_address() -> None:
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        url = f"amqps://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        said = await refusal(Firehose(url, bounds=QueueBounds()))
    assert "broke off without a word" in said


async def test_no_answer_on_how_much_waits_overtakes_what_is_on_its_way(
    rabbit: Broker, vhost: str
) -> None:
    """What the queue has handed out is neither ready nor here until the channel has sent it."""
    count = 5_000
    await fill(rabbit, vhost, [consumer.TRACE_QUEUE], 2, count, payload=b"x" * 2_000)
    firehose = Firehose(rabbit.amqp_url("/"), bounds=QueueBounds())
    for _ in range(3):
        async with firehose.open(vhost, Reading(prefetch=32_000, again=count)) as stream:
            while stream.buffer_size < count:
                assert await stream.queued() >= count
