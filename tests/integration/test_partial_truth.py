"""Traces of some exchanges and queues against a truth that the clients kept themselves.

Programs publish and get at random while what is taken changes again and again. All that was asked
for is stored once, and whatever the service calls complete is as the clients know it.
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Sequence
from typing import NamedTuple

import aio_pika
import pytest
from aio_pika import Message
from aio_pika.abc import AbstractChannel

from app.broker.consumer import TRACE_QUEUE
from app.broker.firehose import TRACE_EXCHANGE
from app.tracker.taken import Takes, make_selection
from itc.stamp import Relation, compare
from model.event import Event
from tests.integration.conftest import Service, until
from tools.servers import Broker

BINDINGS = {
    "a": ("qa", "q.all"),
    "b": ("qb", "q.all"),
    "c.d": ("qa", "qc"),
    "e": ("qb",),
    "": (),
}
QUEUES = ("qa", "qb", "qc", "q.all")
WISHES: tuple[tuple[list[str] | None, list[str] | None], ...] = (
    (["#"], ["#"]),
    (["a", "c.*"], None),
    (None, ["qa", "q.*"]),
    (["a", "b"], ["qa"]),
    (["", "e"], ["qb", "qc"]),
    (["*.d"], ["#"]),
)
PROGRAMS = 4
PAIRS = 4_000
NEAR = 60  # events between the two of a pair at most: across a change no answer is complete


class Done(NamedTuple):
    """What a program did, by its message and, if it got that, its queue; what it was asked of."""

    key: tuple[bytes, str | None]
    asked: bool | None  # None: what is taken was being changed
    past: frozenset[int]  # the places in the history of what it knew of, itself included


class Programs:
    """Programs with a connection each, and what they did, in order."""

    def __init__(self, seed: int, channels: Sequence[AbstractChannel]) -> None:
        self.random = random.Random(seed)
        self._channels = channels
        self._pasts: list[frozenset[int]] = [frozenset() for _ in channels]
        self._sent: dict[bytes, frozenset[int]] = {}
        self.done: list[Done] = []
        self.takes: tuple[Takes, ...] = (Takes(),)  # two of them while one gives way to the other

    async def declare(self) -> None:
        channel = self._channels[0]
        for queue in QUEUES:
            await channel.declare_queue(queue)
        for name, queues in BINDINGS.items():
            for queue in queues:
                exchange = await channel.declare_exchange(name, "fanout")
                await (await channel.get_queue(queue)).bind(exchange)

    async def act(self) -> None:
        number = self.random.randrange(len(self._channels))
        if self.random.random() < 0.5:
            await self._publish(number, self.random.choice(list(BINDINGS)))
        else:
            await self._get(number, self.random.choice(QUEUES))

    async def _publish(self, number: int, name: str) -> None:
        channel, body = self._channels[number], b"%d" % len(self.done)
        before = self.takes
        exchange = await channel.get_exchange(name) if name else channel.default_exchange
        key = self.random.choice(QUEUES) if not name else ""
        await exchange.publish(Message(body), key)
        self._note(number, (body, None), before, [each.publishes(name) for each in self.takes])
        self._sent[body] = self._pasts[number]

    async def _get(self, number: int, name: str) -> None:
        before = self.takes
        queue = await self._channels[number].get_queue(name, ensure=False)
        message = await queue.get(fail=False, no_ack=True)
        if message is not None:
            self._pasts[number] |= self._sent[message.body]
            key = message.body, name
            self._note(number, key, before, [each.deliveries(name) for each in self.takes])

    def _note(
        self,
        number: int,
        key: tuple[bytes, str | None],
        before: tuple[Takes, ...],
        asked: list[bool],
    ) -> None:
        """Note an action; what was taken may have changed since it began."""
        certain = asked[0] if len(set(asked)) == 1 and before == self.takes else None
        self._pasts[number] |= {len(self.done)}
        self.done.append(Done(key, certain, self._pasts[number]))


class Verdict(NamedTuple):
    """What was asked for and is not stored, or the other way round; and answers that are wrong."""

    missing: list[Done]
    unasked: list[Done]
    wrong: list[str]
    complete: int


async def judged(service: Service, vhost: str, programs: Programs) -> Verdict:
    events = await service.events(vhost)
    places = {each.key: place for place, each in enumerate(programs.done)}
    stored: dict[int, Event] = {}
    for event in events:
        assert event.payload is not None
        place = places[event.payload, event.queue]
        assert place not in stored, "an event is stored twice"
        stored[place] = event
    trace = await service.store.traces.find(vhost)
    assert trace is not None
    gaps = await service.store.gaps.between(trace.id, 0, 2**62)
    missing = [d for n, d in enumerate(programs.done) if d.asked is True and n not in stored]
    unasked = [d for n, d in enumerate(programs.done) if d.asked is False and n in stored]
    wrong, complete, listed = [], 0, sorted(stored)
    for _ in range(PAIRS):
        at = programs.random.randrange(len(listed))
        near = listed[max(at - NEAR, 0) : at + NEAR]
        first, second = listed[at], programs.random.choice(near)
        a, b = stored[first], stored[second]
        if any(gap.is_spanned(a.id, b.id) for gap in gaps):
            continue
        complete += 1
        truth = _relation(programs.done, first, second)
        if compare(a.stamp, b.stamp) is not truth:
            wrong.append(f"{programs.done[first]} and {programs.done[second]} are {truth}")
        between = {
            place
            for place in programs.done[second].past
            if first in programs.done[place].past and place not in stored
        }
        if between:
            wrong.append(f"between {a.id} and {b.id}: {between} are not stored")
    return Verdict(missing, unasked, wrong, complete)


def _relation(done: Sequence[Done], first: int, second: int) -> Relation:
    if first == second:
        return Relation.equal
    if first in done[second].past:
        return Relation.before
    return Relation.after if second in done[first].past else Relation.concurrent


@pytest.mark.parametrize(("seed", "lossy"), [(1, False), (2, False), (3, True)])
async def test_what_is_complete_is_right_and_what_was_asked_for_is_there(
    service: Service, rabbit: Broker, vhost: str, seed: int, lossy: bool
) -> None:
    connections = [await aio_pika.connect(rabbit.amqp_url(vhost)) for _ in range(PROGRAMS)]
    try:
        channels = [await each.channel() for each in connections]
        await service.running(vhost, "connection")
        programs = Programs(seed, channels)
        await programs.declare()
        stopping = asyncio.Event()

        async def flow() -> None:
            while not stopping.is_set():
                await programs.act()

        flowing = asyncio.create_task(flow())
        for wish in programs.random.choices(WISHES, k=8):
            await _goes_on(programs, 40)
            if lossy and programs.random.random() < 0.6:
                raw = await channels[0].get_underlay_channel()
                for key in _bound(rabbit, vhost):
                    await raw.queue_unbind(TRACE_QUEUE, TRACE_EXCHANGE, routing_key=key)
                await _goes_on(programs, 10)
            before = programs.takes[-1]
            programs.takes = (before, Takes(make_selection(*wish)))
            await service.registry.start(vhost, None, exchanges=wish[0], queues=wish[1])
            await service.running(vhost)
            programs.takes = programs.takes[-1:]
        await _goes_on(programs, 10)
        await until(functools.partial(_is_whole, service, vhost), "the losses are over")
        await _goes_on(programs, 60)
        stopping.set()
        await flowing
        await service.registry.stop(vhost)
        verdict = await judged(service, vhost, programs)
    finally:
        for each in connections:
            await each.close()
    assert (verdict.unasked, verdict.wrong) == ([], [])
    # Where losses reach how far back depends on when the last check before each was.
    assert lossy or verdict.complete > 100
    losses = (await service.registry.status(vhost)).losses()
    if lossy:
        assert not verdict.missing or len(losses) > 1
    else:
        assert verdict.missing == []
        assert [gap.reason for gap in losses] == ["the trace was stopped"]


async def _goes_on(programs: Programs, actions: int) -> None:
    wanted = len(programs.done) + actions

    async def enough() -> bool:
        return len(programs.done) >= wanted

    await until(enough, "the programs go on")


async def _is_whole(service: Service, vhost: str) -> bool:
    losses = (await service.registry.status(vhost)).losses()
    return all(gap.before_event_id is not None for gap in losses)


def _bound(rabbit: Broker, vhost: str) -> set[str]:
    found = rabbit.api("GET", "queues", vhost, TRACE_QUEUE, "bindings")
    return {each["routing_key"] for each in found if each["source"] == TRACE_EXCHANGE}
