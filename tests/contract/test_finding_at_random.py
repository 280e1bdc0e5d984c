"""Events found by what their messages are called, as a walk over all of them finds them.

Three virtual hosts store messages with ids, correlation ids, an indexed header and one that names a
cause; ids jump to and over the borders of the runs in which keys are indexed, messages wait for
long to be handed out, some are handed out again, the service restarts with other headers indexed,
in one way or another, and retention takes the oldest of one virtual host or another, now and then
all.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pytest
from sqlalchemy import select

from app.store import Store
from app.store.database import tables
from app.store.database.searched import searched_keys
from app.stored.capture import Batch
from app.stored.reading import EventFilter
from app.tracker import Bounds, Channel, Deliver, Policy, Publish, Record, Tracker
from app.tracker.links import BUILT_IN, Rules
from model.words import EventType
from tests.contract.history import BEGINNING, RUN, number_from

STEPS, QUESTIONS = 12, 8
# How a service may have the header that names a cause: by publishes, as others, or not at all. And
# the other header with a row for each event, or not at all.
INDEXED = [
    {**cause, **order}
    for cause in ({"causation_id": True}, {"causation_id": False}, {})
    for order in ({"x-order": False}, {})
]


class Said(NamedTuple):
    """What an event's message says."""

    vhost: str
    type: EventType
    message_id: str
    correlation_id: str
    order: str
    cause: str


class Traffic:
    """One virtual host's messages, of which some wait to be handed out."""

    def __init__(self, trace_id: int, vhost: str, dice: random.Random) -> None:
        self.trace_id = trace_id
        self.vhost = vhost
        self.tracker: Tracker
        self._dice = dice
        self._waiting: list[Publish] = []
        self._handed_out: list[Deliver] = []

    async def restart(self, store: Store, indexed: Mapping[str, bool]) -> None:
        restored = await store.checkpoints.restore(self.trace_id, Bounds().handovers)
        rules = Rules(BUILT_IN, found_by=indexed)
        self.tracker = Tracker(Policy.channel, Bounds(), restored, rules=rules)

    def record(self, number: int) -> Record:
        dice = self._dice
        channel = Channel("rabbit@one", f"10.0.0.{dice.randint(1, 4)}:1 -> 10.0.0.9:5672", 1, "u")
        if self._handed_out and dice.random() < 0.1:
            again = dice.choice(self._handed_out)
            headers = dict(again.properties["headers"])
            if dice.random() < 0.5:
                headers["x-delivery-count"] = dice.randint(1, 3)
            properties = {**again.properties, "headers": headers}
            return Deliver(channel, "", again.routing_keys, again.queue, True, properties, b"")
        if self._waiting and dice.random() < 0.5:
            sent = self._waiting.pop(dice.randrange(len(self._waiting)))
            [queue] = sent.routing_keys
            self._handed_out.append(
                Deliver(channel, "", (queue,), queue, False, sent.properties, b"")
            )
            return self._handed_out[-1]
        queue = dice.choice("qr")
        properties = {
            "message_id": f"m{dice.randint(0, 25) if dice.random() < 0.3 else 100 + number}",
            "correlation_id": f"c{dice.randint(0, 4)}",
            "headers": {
                "x-order": f"o{dice.randint(0, 3)}",
                "causation_id": f"m{100 + number - dice.choice((1, 2, 5, 60))}",
            },
        }
        self._waiting.append(Publish(channel, "", (queue,), (queue,), properties, b""))
        return self._waiting[-1]


class World:
    """Everything that is stored, and what each event's message says."""

    def __init__(self, database_url: str, seed: int) -> None:
        self.store: Store
        self._database_url = database_url
        self.dice = random.Random(seed)
        self.said: dict[int, Said] = {}
        self.next_id = 1
        self._number = 0

    async def begin(self) -> None:
        self.store = await Store.open(self._database_url)
        self.all = [
            Traffic((await self.store.traces.create(name, "channel")).id, name, self.dice)
            for name in ("one", "two", "three")
        ]
        await self.restart()

    async def restart(self) -> None:
        indexed = self.dice.choice(INDEXED)
        await self.store.close()
        self.store = await Store.open(self._database_url, indexed_headers=indexed)
        for traffic in self.all:
            await traffic.restart(self.store, indexed)

    async def jump(self) -> None:
        dice = self.dice
        border = (self.next_id // RUN + dice.randint(1, 3)) * RUN
        near = max(self.next_id, border - dice.randint(1, 20))
        self.next_id = dice.choice((near, self.next_id + 5_000))
        await number_from(self.store, self.next_id)

    async def append(self) -> None:
        traffic, events = self.dice.choice(self.all), []
        for _ in range(self.dice.randint(1, 40)):
            self._number += 1
            events += traffic.tracker.apply(traffic.record(self._number), BEGINNING + self._number)
        batch = Batch(events, traffic.tracker.checkpoint(), b"")
        ids = await self.store.batches.append(traffic.trace_id, batch)
        for event_id, event in zip(ids, events, strict=True):
            its = event.record.properties
            self.said[event_id] = Said(
                traffic.vhost,
                event.record.event_type,
                its["message_id"],
                its["correlation_id"],
                its["headers"]["x-order"],
                its["headers"]["causation_id"],
            )
        self.next_id = ids[-1] + 1

    async def prune(self) -> None:
        traffic, kept = self.dice.choice(self.all), self.dice.choice((0, 1, 3, 10, 30))
        plan = await self.store.retention.plan(traffic.trace_id, keep_events=kept)
        if plan is None:
            return
        traffic.tracker.forget_before(plan.before_id)
        await self.store.retention.prune(plan, traffic.tracker.checkpoint())
        self.said = {
            event_id: said
            for event_id, said in self.said.items()
            if said.vhost != traffic.vhost or event_id >= plan.before_id
        }

    def question(self) -> tuple[EventFilter, list[int]]:
        """What to ask, and the ids of the events that are meant, as they rise."""
        dice = self.dice
        vhost = dice.choice((None, "one", "two", "three"))
        kind = dice.choice((None, EventType.published, EventType.received))
        field = dice.choice(("message_id", "correlation_id", "order", "cause", "cause"))
        some = [getattr(said, field) for said in self.said.values()]
        value = dice.choice([*some, "c5", "m7"])
        header = {"order": "x-order", "cause": "causation_id"}.get(field)
        named = {field: value} if header is None else {"headers": ((header, value),)}
        meant = [
            event_id
            for event_id, said in sorted(self.said.items())
            if getattr(said, field) == value
            and vhost in (None, said.vhost)
            and kind in (None, said.type)
        ]
        return EventFilter(vhost=vhost, type=kind, **named), meant  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(each, marks=pytest.mark.long(3)) for each in (1, 2, 3))]
)
async def test_what_is_found_is_what_there_is(database_url: str, seed: int) -> None:
    world = World(database_url, seed)
    await world.begin()
    for _ in range(STEPS):
        if world.dice.random() < 0.6:
            await world.jump()
        await world.append()
        if world.dice.random() < 0.35:
            await world.prune()
        if world.dice.random() < 0.3:
            await world.restart()
        assert await _looked_up(world.store) == await _stored(world.store)
        for _ in range(QUESTIONS):
            await _check(world)
    await world.store.close()


async def _looked_up(store: Store) -> Sequence[object]:
    its = searched_keys.c
    query = select(its.trace_id, its.event_id, its.key, its.roles)
    async with store._database._writer.connect() as connection:
        return sorted((await connection.execute(query)).all())


async def _stored(store: Store) -> Sequence[object]:
    async with store._database._writer.connect() as connection:
        return sorted((await connection.execute(select(tables.keys))).all())


async def _check(world: World) -> None:
    dice, events = world.dice, world.store.events
    asked, meant = world.question()
    limit = dice.choice((1, 2, 5, len(meant) or 1, 100))
    borders = range(RUN, world.next_id + RUN, RUN)
    edge = dice.choice((0, world.next_id, *meant, *borders))
    falling = (await events.find(asked, before=edge, limit=limit)).items
    assert [row.id for row in falling] == [each for each in meant[::-1] if each < edge][:limit]
    rising = (await events.find(asked, after=edge, limit=limit)).items
    assert [row.id for row in rising] == [each for each in meant if each > edge][:limit]
    assert await events.count(asked) == len(meant)
    number, size = dice.randint(1, 3), dice.choice((1, 3, len(meant) or 1, 50))
    descending = dice.random() < 0.5
    page = await events.page(asked, page=number, page_size=size, descending=descending)
    in_order = meant[::-1] if descending else meant
    assert [row.id for row in page.items] == in_order[(number - 1) * size : number * size]
    assert page.filtered_count == len(meant)
