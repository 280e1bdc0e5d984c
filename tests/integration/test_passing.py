"""Trace messages that the broker can hand to no consumer hold nobody up, whoever makes how many.

Their exchange's name has 255 bytes: their trace messages' routing keys are too long for AMQP.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aio_pika
import msgspec
import pytest

from app.broker.consumer import TRACE_QUEUE
from app.broker.source import TraceSource
from app.broker.trace_queue import QueueBounds, queue_arguments
from app.broker.undeliverable import UNSHOWN
from app.errors import OutageError
from app.store import Store
from app.traces.pipeline import PipelineSettings
from drills.service import Service as Process
from tests.integration.conftest import Service, until
from tests.integration.raw_client import RawPublisher, nested, table
from tools.servers import Broker

LONG = "x" * 255


@pytest.fixture
def settings(settings: PipelineSettings) -> PipelineSettings:
    return msgspec.structs.replace(settings, batch_events=50, prefetch=400)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[bool]]:
    """How often the trace queue was opened, by whether to pass messages."""
    counter: Counter[bool] = Counter()
    way: Any = TraceSource.open

    def counted(self: Any, *given: Any, passing: bool, **named: Any) -> Any:
        counter[passing] += 1
        return way(self, *given, passing=passing, **named)

    monkeypatch.setattr(TraceSource, "open", counted)
    return counter


async def publish(
    rabbit: Broker, vhost: str, good: int, every: int, together: int = 1, headers: bytes = table()
) -> int:
    """Publish good messages, and behind each so many some bad ones; gives how many of these."""
    rabbit.api("PUT", "exchanges", vhost, LONG, json={"type": "fanout"})
    bad = 0
    async with RawPublisher(rabbit.amqp_url(vhost)) as publisher:
        for number in range(good):
            publisher.publish(b"", b"nowhere", table(), b"good %d" % number)
            if number % every == every - 1:
                for _ in range(together):
                    publisher.publish(LONG.encode(), b"k", headers, b"bad %d" % bad)
                    bad += 1
    return bad


async def all_told(service: Service, vhost: str, good: int, bad: int) -> None:
    """Each good message is stored once and in its place, each bad one in quarantine once."""
    await service.stored(vhost, good)

    await until_quarantined(service, vhost, bad)

    async def runs() -> bool:
        return (await service.registry.status(vhost)).state == "running"

    await until(runs, "the trace runs again")
    events = await service.events(vhost)
    assert [event.payload for event in events] == [b"good %d" % n for n in range(good)]
    kept = await service.store.quarantine.newest([vhost], limit=1_000)
    assert [one.body for one in kept[::-1]] == [f"bad {n}" for n in range(bad)]
    assert await in_gaps(service, vhost) == bad


async def in_gaps(service: Service, vhost: str) -> int:
    """How many messages gaps tell of, none of which is a loss."""
    trace = await service.store.traces.find(vhost)
    assert trace is not None
    gaps = await service.store.gaps.newest(trace.id, limit=1_000)
    assert all(gap.declared and gap.quarantined for gap in gaps)
    return sum(gap.quarantined for gap in gaps)


async def until_quarantined(service: Service, vhost: str, bad: int) -> None:
    async def quarantined() -> bool:
        return (await service.registry.status(vhost)).counters.quarantined >= bad

    await until(quarantined, f"{bad} messages are in quarantine")


async def stop_tracing_but_keep(service: Service, vhost: str) -> None:
    """Let messages gather: the trace ends, its queue and tracing stay."""
    await service.running(vhost)
    await service.registry.shutdown(deadline=10)
    service.registry.here._running.clear()


@pytest.mark.parametrize(
    ("every", "together"),
    [
        pytest.param(10, 1, marks=pytest.mark.long(14)),
        pytest.param(1, 1, marks=pytest.mark.long(20)),
        (100, 60),
    ],
)
async def test_hundreds_are_passed_with_a_handful_of_connections(
    service: Service,
    rabbit: Broker,
    vhost: str,
    opened: Counter[bool],
    every: int,
    together: int,
) -> None:
    await stop_tracing_but_keep(service, vhost)
    bad = await publish(rabbit, vhost, 300, every, together)
    opened.clear()
    await service.running(vhost)
    await all_told(service, vhost, 300, bad)
    assert opened[True] <= 3


async def test_what_goes_on_and_how_much_waits_is_said(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await stop_tracing_but_keep(service, vhost)
    await publish(rabbit, vhost, 200, 1)
    await service.registry.start(vhost, None)

    async def said() -> bool:
        status = await service.registry.status(vhost)
        words = status.waiting_for or ""
        return status.lag is not None and "names of more than 247 bytes" in words

    await until(said, "the state tells of it")
    await all_told(service, vhost, 200, 200)


@pytest.mark.parametrize("moment", ["before", pytest.param("behind", marks=pytest.mark.long(15))])
async def test_what_was_stored_and_not_taken_out_is_recognised(
    service: Service,
    rabbit: Broker,
    vhost: str,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
) -> None:
    await stop_tracing_but_keep(service, vhost)
    bad = await publish(rabbit, vhost, 60, 15, 2)
    head, cut = TraceSource._head, Counter[str]()

    async def cut_off(self: TraceSource, vhost: str, count: int, remove: bool) -> Any:
        if not remove:
            return await head(self, vhost, count, remove)
        cut["calls"] += 1
        if cut["calls"] % 2 and moment == "before":
            raise OutageError("cut before anything was taken out")
        removed = await head(self, vhost, count, remove)
        if cut["calls"] % 2:
            raise OutageError("cut behind it")
        return removed

    monkeypatch.setattr(TraceSource, "_head", cut_off)
    await service.running(vhost)
    await all_told(service, vhost, 60, bad)
    assert cut["calls"] > 2


async def test_where_nothing_can_be_shown_in_numbers_each_is_looked_at(
    service: Service, rabbit: Broker, vhost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where headers are nested so deeply that the broker takes seconds to show a message."""
    await stop_tracing_but_keep(service, vhost)
    bad = await publish(rabbit, vhost, 40, 13, 2, nested(1_000))
    head = TraceSource._head

    async def slow(self: TraceSource, vhost: str, count: int, remove: bool) -> Any:
        return await head(self, vhost, count, remove) if remove or count == 1 else None

    monkeypatch.setattr(TraceSource, "_head", slow)
    await service.running(vhost)
    await all_told(service, vhost, 40, bad)


async def test_what_is_never_shown_is_taken_alone_and_said(
    service: Service, rabbit: Broker, vhost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stop_tracing_but_keep(service, vhost)
    await publish(rabbit, vhost, 20, 10)
    head = TraceSource._head
    removed: list[str] = []

    async def hidden(self: TraceSource, vhost: str, count: int, remove: bool) -> Any:
        """Show nothing whose name is too long."""
        shown = await head(self, vhost, count, remove)
        if remove:
            removed.extend(one.body.decode() for one in shown or ())
        return shown if remove or all(one.is_deliverable for one in shown or ()) else None

    monkeypatch.setattr(TraceSource, "_head", hidden)
    await service.running(vhost)
    await service.stored(vhost, 20)
    await until_quarantined(service, vhost, 2)
    assert removed == ["bad 0", "bad 1"]
    kept = await service.store.quarantine.newest([vhost], limit=1_000)
    assert [one.reason for one in kept] == [UNSHOWN, UNSHOWN]
    events = await service.events(vhost)
    assert [event.payload for event in events] == [b"good %d" % n for n in range(20)]
    assert await in_gaps(service, vhost) >= 1


async def test_a_quorum_queue_that_holds_one_is_made_anew_with_a_gap(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    """It gives nothing back in its old order, so that nothing can be looked at and left there."""
    async with await aio_pika.connect(rabbit.amqp_url(vhost)) as connection:
        channel = await connection.channel()
        ours = {**queue_arguments(QueueBounds(), quorum=True), "x-single-active-consumer": True}
        await channel.declare_queue(TRACE_QUEUE, durable=True, arguments=ours)
        raw = await channel.get_underlay_channel()
        await raw.queue_bind(TRACE_QUEUE, "amq.rabbitmq.trace", routing_key="#")
    await service.running(vhost)
    await publish(rabbit, vhost, 20, 10)

    async def told() -> bool:
        status = await service.registry.status(vhost)
        return any("more than 247 bytes" in gap.reason for gap in status.gaps)

    await until(told, "a gap tells of it")
    await service.running(vhost)
    before = len(await service.events(vhost))
    async with RawPublisher(rabbit.amqp_url(vhost)) as publisher:
        publisher.publish(b"", b"nowhere", table(), b"after")
    events = await service.stored(vhost, before + 1)
    assert events[-1].payload == b"after"


async def test_a_trace_that_is_stopped_meanwhile_is_read_to_its_end(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await stop_tracing_but_keep(service, vhost)
    bad = await publish(rabbit, vhost, 100, 2)
    await service.registry.start(vhost, None)
    await service.registry.stop(vhost)
    assert len(await service.events(vhost)) == 100
    assert len(await service.store.quarantine.newest([vhost], limit=1_000)) == bad


async def test_nothing_is_lost_or_doubled_where_the_service_is_killed_meanwhile(
    rabbit: Broker, vhost: str, store: Store, tmp_path: Path
) -> None:
    """Killed by the system, five times, wherever that finds it."""
    process = Process(rabbit, f"sqlite:///{tmp_path / 'itc.db'}", tmp_path)
    reader = Service(store, rabbit, PipelineSettings())
    async with process.tracing(vhost):

        async def is_traced() -> bool:
            return bool(rabbit.api("GET", "vhosts", vhost)["tracing"])

        await until(is_traced, "tracing is on")
        bad = await publish(rabbit, vhost, 900, 3)
        for kill in range(1, 6):

            async def further(least: int = kill * 60) -> bool:
                return len(await store.quarantine.newest([vhost], limit=1_000)) >= least

            await until(further, "some more are passed")
            process.end(signal.SIGKILL)
            process.start()
            await process.listening()
        await all_stored(reader, vhost, 900, bad)
    await reader.management.close()


async def all_stored(reader: Service, vhost: str, good: int, bad: int) -> None:
    await reader.stored(vhost, good)

    async def enough() -> bool:
        return len(await reader.store.quarantine.newest([vhost], limit=1_000)) >= bad

    await until(enough, f"{bad} messages are in quarantine")
    events = await reader.events(vhost)
    assert [event.payload for event in events] == [b"good %d" % n for n in range(good)]
    kept = await reader.store.quarantine.newest([vhost], limit=1_000)
    assert [one.body for one in kept[::-1]] == [f"bad {n}" for n in range(bad)]
