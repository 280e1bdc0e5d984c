"""A trace of some exchanges and queues: what was asked for is all there, the rest is declared."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import aio_pika
import pytest
from aio_pika import Message
from aio_pika.abc import AbstractChannel, AbstractQueue

from app.broker.bundles import WISH
from app.broker.consumer import TRACE_QUEUE
from app.broker.firehose import TRACE_EXCHANGE
from app.broker.trace_queue import BOOKMARK
from app.errors import BadRequestError
from app.store import Store
from app.traces.losses.monitor import MARKS_MISSING, UNBOUND
from app.traces.pipeline import PipelineSettings
from app.tracker.taken import covers
from model.event import Event
from model.gaps import Gap
from model.words import Match
from tests.integration.conftest import Service, until
from tools.servers import Broker


class Traffic:
    """Exchanges ``a``, ``b`` and ``c.d``, each with a queue of its name and one for all."""

    def __init__(self, channel: AbstractChannel) -> None:
        self.channel = channel
        self.queues: dict[str, AbstractQueue] = {}
        self._numbers = itertools.count(1)

    async def declare(self) -> None:
        self.queues["all"] = await self.channel.declare_queue("all")
        for name in ("a", "b", "c.d"):
            exchange = await self.channel.declare_exchange(name, "fanout")
            self.queues[name] = await self.channel.declare_queue(name)
            await self.queues[name].bind(exchange)
            await self.queues["all"].bind(exchange)

    async def publish(self, *exchanges: str, key: str = "nowhere") -> None:
        """Publish a message to each of these, the default exchange among them."""
        for name in exchanges:
            exchange = (
                await self.channel.get_exchange(name) if name else self.channel.default_exchange
            )
            message = Message(b"%d" % next(self._numbers), message_id=f"m{next(self._numbers)}")
            await exchange.publish(message, key, mandatory=False)

    async def get(self, *queues: str) -> None:
        """Have each of these queues hand out a message."""
        for name in queues:
            await (await self.queues[name].get()).ack()


@asynccontextmanager
async def traffic(rabbit: Broker, vhost: str) -> AsyncIterator[Traffic]:
    async with await aio_pika.connect(rabbit.amqp_url(vhost)) as connection:
        made = Traffic(await connection.channel())
        await made.declare()
        yield made


async def start(
    service: Service,
    vhost: str,
    exchanges: Sequence[str] | None = None,
    queues: Sequence[str] | None = None,
    *,
    later: bool = False,
) -> None:
    await service.registry.start(vhost, None, exchanges=exchanges, queues=queues, later=later)
    await service.running(vhost)


def said(events: Sequence[Event]) -> list[tuple[str, str]]:
    """Of each event its exchange, and its queue if it is a delivery."""
    return [(event.exchange, event.queue or "-") for event in events]


async def gaps(service: Service, vhost: str) -> list[Gap]:
    return (await service.registry.status(vhost)).gaps


async def losses(service: Service, vhost: str) -> list[str]:
    return [gap.reason for gap in (await service.registry.status(vhost)).losses()]


def bindings(rabbit: Broker, vhost: str) -> set[str]:
    """The routing keys by which our queue gets traces from the trace exchange."""
    found = rabbit.api("GET", "queues", vhost, TRACE_QUEUE, "bindings")
    keys = {each["routing_key"] for each in found if each["source"] == TRACE_EXCHANGE}
    return {key for key in keys if not key.startswith((BOOKMARK, WISH))}


async def test_only_what_is_asked_for_arrives_and_marks_do_too(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    async with traffic(rabbit, vhost) as some:
        await start(service, vhost, ["a", "c.*"], ["a", "b"])
        await some.publish("a", "b", "c.d", "")
        await some.get("all", "b", "c.d", "a")
        await some.publish("a")
        events = await service.stored(vhost, 5)
    assert said(events) == [("a", "-"), ("c.d", "-"), ("b", "b"), ("a", "a"), ("a", "-")]
    [_, _, left_out, received, _] = events
    assert (left_out.match, left_out.cause) == (Match.unmatched, None)
    assert (received.match, received.cause) == (Match.routed, events[0].id)

    async def settled() -> bool:
        snapshots = service.registry.here.snapshots().values()
        return any(each.settled_id >= events[-1].id for each in snapshots)

    await until(settled, "a mark has come")
    status = await service.registry.status(vhost)
    assert (status.exchanges, status.queues) == (("a", "c.*"), ("a", "b"))
    assert (status.counters.unmatched, status.pending_copies, status.losses()) == (0, 1, [])
    assert status.remarks == (status.taken.sentence,)
    [hole] = status.gaps
    assert (hole.declared, hole.after_event_id, hole.until) == (True, 0, None)
    assert "only some exchanges and queues are taken" in hole.reason


async def test_the_default_exchange_has_the_empty_name_and_carries_marks_where_it_is_taken(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    async with traffic(rabbit, vhost) as some:
        await start(service, vhost, [""], None)
        assert bindings(rabbit, vhost) == {"publish.", "deliver.#"}
        await some.publish("a", "")
        await some.get("a")
        assert said(await service.stored(vhost, 2)) == [("", "-"), ("a", "a")]
    assert await losses(service, vhost) == []


PATTERNS = ("a", "*", "#", "a.#", "*.b", "#.b", "a.*.b", "a.#.b", "a..b", "*.*", "a*", "", "#.#.a")
NAMES = ("a", "b", "a.b", "a.b.b", "a..b", "a.c.b", "c.a", "ab", "a.", ".a", "b.a.b")


async def test_patterns_cover_what_the_broker_says_they_do(rabbit: Broker, vhost: str) -> None:
    async with await aio_pika.connect(rabbit.amqp_url(vhost)) as connection:
        channel = await connection.channel()
        exchange = await channel.declare_exchange("topics", "topic")
        for place, pattern in enumerate(PATTERNS):
            queue = await channel.declare_queue(f"q{place}")
            await queue.bind(exchange, f"publish.{pattern}")
        for name in ("", *NAMES):
            await exchange.publish(Message(name.encode()), f"publish.{name}")
        for place, pattern in enumerate(PATTERNS):
            queue = await channel.get_queue(f"q{place}")
            got = set()
            while message := await queue.get(fail=False, no_ack=True):
                got.add(message.body.decode())
            assert got == {name for name in ("", *NAMES) if covers(pattern, name)}, pattern


async def test_overlapping_patterns_bring_an_event_once(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    async with traffic(rabbit, vhost) as some:
        await start(service, vhost, ["a", "*", "c.#"], ["#.d"])
        await some.publish("a", "c.d", "b")
        events = await service.stored(vhost, 3)
    assert said(events) == [("a", "-"), ("c.d", "-"), ("b", "-")]


async def test_what_matches_nothing_is_named_unless_it_may_come_later(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    async with traffic(rabbit, vhost) as some:
        with pytest.raises(BadRequestError, match=r"no exchange 'aa', queue 'c'"):
            await start(service, vhost, ["aa", "a"], ["c", "c.*"])
        assert await service.store.traces.find(vhost) is None
        await start(service, vhost, ["aa"], ["#"], later=True)
        with pytest.raises(BadRequestError, match="no exchange 'ab'"):
            await start(service, vhost, ["ab"])
        await start(service, vhost, ["aa"], None)  # as it is: not asked again
        await some.channel.declare_exchange("aa", "fanout")
        await some.publish("a", "aa")
        assert said(await service.stored(vhost, 1)) == [("aa", "-")]


async def test_a_change_while_messages_flow_loses_nothing_that_is_taken_before_and_after(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    async with traffic(rabbit, vhost) as some:
        await service.running(vhost)
        stopping = asyncio.Event()
        sent = 0

        async def flow() -> None:
            nonlocal sent
            while not stopping.is_set():
                await some.publish("a", "b")
                await some.get("a")
                sent += 1

        flowing = asyncio.create_task(flow())
        wishes: list[tuple[list[str] | None, list[str] | None]] = [
            (["a"], None),
            (["a", "c.d"], ["a"]),
            (["#"], ["#"]),
            (["a", "b"], ["a", "b"]),
            (["*", "c.d"], ["#"]),
        ]
        for exchanges, queues in wishes:
            at = len(await service.events(vhost))
            await start(service, vhost, exchanges, queues)
            await service.stored(vhost, at + 20)
        stopping.set()
        await flowing
        await some.publish("c.d")

        async def ended() -> bool:
            return ("c.d", "-") in said(await service.events(vhost))

        await until(ended, "all has come")
    events = await service.events(vhost)
    assert said(events).count(("a", "-")) == sent
    received = [event for event in events if event.queue == "a"]
    assert len(received) == sent
    assert {event.match for event in received} == {Match.routed}
    assert await losses(service, vhost) == []
    found = await gaps(service, vhost)
    assert [gap.declared for gap in found] == [True] * 4
    assert [gap.until is None for gap in found] == [False, False, False, True]


async def test_lifting_it_ends_the_hole_and_answers_behind_it_are_complete(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    async with traffic(rabbit, vhost) as some:
        await service.running(vhost)
        await some.publish("a", "a")
        await service.stored(vhost, 2)
        await start(service, vhost, None, ["b"])
        await some.publish("a", "b")
        await some.get("all", "all", "all", "b")
        before = await service.stored(vhost, 5)
        await start(service, vhost, ["#"])

        async def lifted() -> bool:
            return all(gap.until is not None for gap in await gaps(service, vhost))

        await until(lifted, "the hole is lifted")
        await some.publish("b", "b")
        await some.get("all")  # whose publish was taken, and nobody was to see it come out
        ids = [event.id for event in await service.stored(vhost, 8)]
        trace = await service.store.traces.find(vhost)
    assert bindings(rabbit, vhost) == {"#"}
    assert len(before) == 5
    assert trace is not None
    assert trace.taken.is_all
    between = service.store.gaps.between
    assert await between(trace.id, ids[0], ids[1]) == []
    assert len(await between(trace.id, ids[1], ids[2])) == 1
    assert len(await between(trace.id, ids[0], ids[-1])) == 1
    assert await between(trace.id, ids[5], ids[-1]) == []
    status = await service.registry.status(vhost)
    assert (status.losses(), status.remarks) == ([], ())


async def test_it_stays_so_after_a_restart_and_what_came_meanwhile_is_there(
    store: Store, rabbit: Broker, vhost: str, settings: PipelineSettings
) -> None:
    async with traffic(rabbit, vhost) as some:
        first = Service(store, rabbit, settings)
        await start(first, vhost, ["a"], ["a"])
        await first.close()
        await some.publish("a", "b")
        second = Service(store, rabbit, settings)
        await second.registry.resume()
        await some.publish("b", "a")
        assert said(await second.stored(vhost, 2)) == [("a", "-"), ("a", "-")]
        assert bindings(rabbit, vhost) >= {"publish.a", "deliver.a"}
        found = await gaps(second, vhost)
        assert [(gap.declared, gap.until) for gap in found] == [(True, None)]
        await second.registry.stop(vhost)
        await second.close()


async def test_bindings_that_a_crash_left_behind_are_removed(
    store: Store, rabbit: Broker, vhost: str, settings: PipelineSettings
) -> None:
    async with traffic(rabbit, vhost) as some:
        first = Service(store, rabbit, settings)
        await start(first, vhost, ["a"], ["a"])
        await first.close()
        raw = await some.channel.get_underlay_channel()
        await raw.queue_bind(TRACE_QUEUE, TRACE_EXCHANGE, routing_key="#")
        second = Service(store, rabbit, settings)
        await second.running(vhost)
        await raw.queue_bind(TRACE_QUEUE, TRACE_EXCHANGE, routing_key="publish.b")  # while it runs

        async def as_wanted() -> bool:
            wanted = {"publish.a", "deliver.a", "publish.itc.trace.marks.*"}
            return bindings(rabbit, vhost) == wanted

        await until(as_wanted, "only the wanted bindings are there")
        assert await losses(second, vhost) == []
        await second.close()


async def test_a_loss_inside_the_hole_is_found_and_is_a_gap_of_its_own(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    async with traffic(rabbit, vhost) as some:
        await start(service, vhost, ["a"], ["a"])
        await some.publish("a")
        await service.stored(vhost, 1)
        raw = await some.channel.get_underlay_channel()
        await raw.queue_unbind(TRACE_QUEUE, TRACE_EXCHANGE, routing_key="publish.a")

        async def unbound() -> bool:
            return UNBOUND in await losses(service, vhost)

        await until(unbound, "it is noted that a binding was gone")
        assert "publish.a" in bindings(rabbit, vhost)


async def test_marks_tell_of_a_loss_though_nothing_that_is_taken_happens(
    store: Store, rabbit: Broker, vhost: str, settings: PipelineSettings
) -> None:
    quick = PipelineSettings(batch_seconds=0.02, check_seconds=3600.0, mark_seconds=0.1)
    service = Service(store, rabbit, quick)
    async with traffic(rabbit, vhost) as some:
        await start(service, vhost, ["a"], ["a"])
        await some.publish("a")
        await service.stored(vhost, 1)
        raw = await some.channel.get_underlay_channel()
        for key in bindings(rabbit, vhost):
            await raw.queue_unbind(TRACE_QUEUE, TRACE_EXCHANGE, routing_key=key)

        async def noted() -> bool:
            return bool({MARKS_MISSING, UNBOUND} & {*await losses(service, vhost)})

        await until(noted, "the missing marks tell of it")
    await service.close()


async def test_the_audit_says_what_it_cannot_compare(
    store: Store, rabbit: Broker, vhost: str
) -> None:
    settings = PipelineSettings(batch_seconds=0.02, check_seconds=0.5, audit_seconds=0.5)
    service = Service(store, rabbit, settings)
    async with traffic(rabbit, vhost) as some:
        await start(service, vhost, None, ["a"])
        await some.publish("a", "b")
        await some.get("b", "a")
        await service.stored(vhost, 3)

        async def compared() -> bool:
            audit = (await service.registry.status(vhost)).audit
            return audit is not None and audit.publishes.counted is not None

        await until(compared, "publishes are compared")
        audit = (await service.registry.status(vhost)).audit
        assert audit is not None
        assert audit.publishes.counted == audit.publishes.traced
        assert (audit.deliveries.counted, audit.missing) == (None, 0)
        assert "deliveries cannot be compared" in audit.sentence
        await start(service, vhost, ["a"], ["a"])
        audit = (await service.registry.status(vhost)).audit
        assert audit is not None
        assert "publishes and deliveries cannot be compared" in audit.sentence
        await start(service, vhost, ["#"], ["#"])
        await some.publish("a", "b")

        async def even() -> bool:
            audit = (await service.registry.status(vhost)).audit
            return audit is not None and audit.as_of is not None

        await until(even, "both are compared again")
    assert await losses(service, vhost) == []
    await service.close()
