"""Reading in a process of its own: the same events, the same errors, and its death is a cut."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from yarl import URL

from app.broker import consumer, reading
from app.broker.consumer import Firehose, Reading
from app.broker.reading import ReadingProcess
from app.broker.trace_queue import QueueBounds
from app.errors import OutageError
from app.store import Store
from app.traces.pipeline import PipelineSettings
from bench.backlog import fill
from bench.player import playing, recorded
from model.event import Event
from tests.integration.conftest import Service, until
from tests.integration.test_capture import send_and_receive
from tools.servers import Broker, free_port


def pid_of(apart: ReadingProcess) -> int:
    assert apart.pid is not None
    return apart.pid


def without_time(events: list[Event]) -> list[Event]:
    return [event._replace(recorded_at=0) for event in events]


async def test_the_same_backlog_becomes_the_same_events(
    store: Store,
    rabbit: Broker,
    vhost: str,
    settings: PipelineSettings,
    apart: ReadingProcess,
    tmp_path: Path,
    migrated_file: Path,
) -> None:
    await fill(rabbit, vhost, ["recorded"], 5, 3_000)
    what = await recorded(rabbit, vhost, "recorded", 3_000)
    shutil.copy(migrated_file, tmp_path / "other.db")
    other = await Store.open(f"sqlite:///{tmp_path / 'other.db'}")
    found = []
    async with playing(rabbit, "played", what) as url:
        for where, process in ((store, None), (other, apart)):
            service = Service(where, rabbit, settings, amqp_url=url, queue="played", apart=process)
            await service.running(vhost)
            found.append(await service.stored(vhost, 3_000))
            await service.close()
    await other.close()
    assert len(found[0]) == 3_000
    assert without_time(found[0]) == without_time(found[1])


async def test_after_its_death_nothing_is_lost_or_doubled(
    store: Store, rabbit: Broker, vhost: str, settings: PipelineSettings, apart: ReadingProcess
) -> None:
    service = Service(store, rabbit, settings, apart=apart)
    await service.running(vhost)
    pids = set()
    for killed in range(1, 4):
        sending = asyncio.create_task(send_and_receive(rabbit, vhost, 200))
        await service.stored(vhost, 400 * killed - 300)
        pids.add(pid_of(apart))
        os.kill(pid_of(apart), signal.SIGKILL)
        await sending
        await service.stored(vhost, 400 * killed)
    events = await service.events(vhost)
    assert len(events) == len({event.id for event in events}) == 1200
    assert [e.cause for e in events if e.cause] == [e.id for e in events if not e.cause]
    assert len(pids) == 3
    await service.registry.stop(vhost)
    await service.close()


async def test_one_that_stands_still_is_left_for_another(
    store: Store,
    rabbit: Broker,
    vhost: str,
    settings: PipelineSettings,
    apart: ReadingProcess,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "TAKE_SECONDS", 5.0)
    url = str(URL(rabbit.amqp_url("/")).with_query(heartbeat=2))
    service = Service(store, rabbit, settings, amqp_url=url, apart=apart)
    await service.running(vhost)
    pid = pid_of(apart)
    os.kill(pid, signal.SIGSTOP)
    await send_and_receive(rabbit, vhost, 1)
    assert len(await service.stored(vhost, 2)) == 2
    assert pid_of(apart) != pid
    await service.registry.stop(vhost)
    await service.close()


async def test_what_is_not_taken_is_left_with_the_broker(
    store: Store,
    rabbit: Broker,
    vhost: str,
    apart: ReadingProcess,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """TCP holds the broker back, by way of the other process."""
    monkeypatch.setattr(consumer, "BUFFER_BYTES", 100_000)
    count, size = 300, 100_000
    await fill(rabbit, vhost, [consumer.TRACE_QUEUE], 2, count, payload=b"x" * size)
    firehose = Firehose(rabbit.amqp_url("/"), bounds=QueueBounds(), apart=apart)
    async with firehose.open(vhost, Reading(prefetch=1_000)) as stream:
        await until(_is(lambda: stream.buffered > 0), "something has arrived")
        await asyncio.sleep(0.5)  # for more to come, if it does
        # In sockets and buffers between are a few MB.
        assert stream.buffered * size < 15e6
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
async def test_what_is_wrong_is_said_as_if_it_were_read_here(
    rabbit: Broker, either: ReadingProcess | None, url: str, said: str
) -> None:
    broker = URL(rabbit.amqp_url("/"))
    where = url.format(port=free_port(), broker=f"{broker.host}:{broker.port}")
    assert said in await refusal(Firehose(where, bounds=QueueBounds(), apart=either))


async def test_who_hangs_up_during_tls_is_no_name_without_an_address(
    either: ReadingProcess | None,
) -> None:
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        url = f"amqps://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        said = await refusal(Firehose(url, bounds=QueueBounds(), apart=either))
    assert "broke off without a word" in said


async def test_an_order_that_does_not_fit_harms_no_other(
    rabbit: Broker, vhost: str, apart: ReadingProcess
) -> None:
    url = URL(rabbit.amqp_url("/"))
    firehose = Firehose(str(url), bounds=QueueBounds(), apart=apart)
    async with firehose.open(vhost, Reading(prefetch=100)) as stream:
        long = str(url.with_query(capath="x" * 1_000_000))
        said = await refusal(Firehose(long, bounds=QueueBounds(), apart=apart))
        assert "Message too long" in said
        assert await stream.queued() == 0


async def test_it_ends_with_whoever_started_it() -> None:
    apart = ReadingProcess()
    firehose = Firehose(f"amqp://localhost:{free_port()}", bounds=QueueBounds(), apart=apart)
    with pytest.raises(OutageError):
        await firehose.delete_queue("/")
    assert apart.pid is None  # nothing is read there
    await refusal(firehose)
    pid = pid_of(apart)
    await apart.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    await apart.close()  # once more does no harm
