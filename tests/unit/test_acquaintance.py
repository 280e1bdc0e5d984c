"""Who is behind a connection is known before its messages are stamped, and ends after them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, cast

import msgspec
import pytest

from app.stored.capture import BrokerConnection
from app.traces.runs.acquaintance import OVERLAP, SKEW, Acquaintance
from app.tracker import Bounds, Channel, Policy, Record, Tracker, Unreadable
from tests.unit.test_participants import channel, publish

if TYPE_CHECKING:
    from app.broker.consumer import TraceStream
    from app.traces.runs.introductions import Introductions

A_PORT, ANOTHER = (channel(f"127.0.0.1:{port}") for port in (5000, 5001))
REMOTE = channel("10.0.0.7:5000")
SECOND = 1_000_000


class Message:
    tag, at, redelivered, is_last = 1, 0, False, True

    def __init__(self, message: Record | Unreadable) -> None:
        self.message = message


class World:
    """The connections that are known, the stream, the clock, and a run's own loop."""

    remark = None
    queue_is_new = False

    def __init__(self, policy: Policy = Policy.client) -> None:
        self.opened: list[BrokerConnection] = []
        self.looked_up: list[str] = []
        self.buffer_size = self.ready = 0
        self.is_asked = True
        self.store = asyncio.Event()
        self.store.set()
        self.now = 1_000 * SECOND
        self.tracker = Tracker(policy, Bounds())
        self.begin()

    def begin(self, recorded_at: int | None = None) -> None:
        self.acquaintance = Acquaintance(
            "/",
            self.tracker,
            cast("Introductions", self),
            cast("TraceStream", self),
            recorded_at=self.now if recorded_at is None else recorded_at,
            clock=lambda: self.now / SECOND,
        )

    def open(self, where: Channel, client: str | None, user: str = "shop") -> None:
        number = len(self.opened) + 1
        self.opened.append(
            BrokerConnection("n", where.connection, "/", user, client, None, self.now, number, None)
        )

    def close(self, where: Channel) -> None:
        index = max(i for i, one in enumerate(self.opened) if one.name == where.connection)
        opened = self.opened[index]
        self.opened[index] = msgspec.structs.replace(opened, closed_at=self.now)

    async def idle(self, seconds: int = 10) -> None:
        """Nothing comes for some time."""
        self.now += seconds * SECOND
        for _ in range(2):
            await self.acquaintance.meet([])
            self.measure()

    async def act(self, *wheres: Channel, held_back: bool = False) -> list[int]:
        """Receive a batch of publishes; returns the numbers of the participants."""
        self.now += SECOND
        messages = [Message(publish(where)) for where in wheres]
        await self.acquaintance.meet(messages, held_back=held_back)
        self.measure()
        return [
            event.participant for where in wheres for event in self.tracker.apply(publish(where), 0)
        ]

    def measure(self) -> None:
        """Have the queue asked how much it holds, as the run does every second."""
        if self.is_asked:
            self.acquaintance.note_measure(self.now, self.ready)

    @property
    def assumed(self) -> list[int]:
        """Who was assumed, of those that acted since this was asked last."""
        return [each.number for each in self.tracker.checkpoint().participants if each.assumed]

    # The introductions, and the connections in the store

    @property
    def connections(self) -> World:
        return self

    async def look_up(self, names: Sequence[str]) -> Mapping[str, BrokerConnection]:
        self.looked_up += names
        return await self.find(names)

    async def find(self, names: Collection[str]) -> Mapping[str, BrokerConnection]:
        return {one.name: one for one in self.opened if one.name in names}

    async def list_closed(self, vhost: str, start: int) -> Sequence[BrokerConnection]:
        assert vhost == "/"
        await self.store.wait()
        return [one for one in self.opened if (one.closed_at or -1) >= start]

    async def owners(self, names: Collection[str], start: int) -> Sequence[BrokerConnection]:
        return [
            one
            for one in self.opened
            if one.name in names and (one.closed_at is None or one.closed_at >= start)
        ]


async def test_one_client_s_connections_are_one_participant() -> None:
    world = World()
    world.open(A_PORT, "orders")
    world.open(ANOTHER, "orders")
    assert await world.act(A_PORT, ANOTHER, A_PORT) == [1, 1, 1]
    assert sorted(world.looked_up) == sorted({A_PORT.connection, ANOTHER.connection})


async def test_a_pause_says_nothing_while_the_queue_holds_messages() -> None:
    """What was traced before a connection closed may be among them."""
    world = World(Policy.channel)
    world.open(A_PORT, "orders")
    (first,) = await world.act(A_PORT)
    world.close(A_PORT)
    world.ready = 3
    for _ in range(3):
        await world.idle(5)
        assert await world.act(A_PORT) == [first]
    world.ready = 0
    await world.idle(5)
    world.open(A_PORT, "orders")
    await world.act(ANOTHER)
    assert first not in await world.act(A_PORT)


async def test_names_that_are_only_shown_are_not_waited_for() -> None:
    world = World()
    world.open(REMOTE, "orders")
    await world.act(REMOTE)
    assert world.looked_up == []
    (state,) = world.tracker.checkpoint().participants
    assert state.name == "orders (shop@10.0.0.7)"


async def test_whoever_is_not_known_is_assumed() -> None:
    world = World()
    world.open(ANOTHER, None)
    assert await world.act(A_PORT, ANOTHER) == world.assumed


async def test_another_user_s_connection_of_that_name_says_nothing() -> None:
    world = World()
    world.open(A_PORT, "orders", user="somebody else")
    assert await world.act(A_PORT) == world.assumed


async def test_another_user_on_a_known_connection_is_asked_for_too() -> None:
    world = World()
    world.open(A_PORT, "orders")
    await world.act(A_PORT)
    another = channel("127.0.0.1:5000", user="admin")
    assert await world.act(another) == world.assumed


async def test_a_name_that_is_used_again_is_another_connection() -> None:
    world = World()
    world.open(A_PORT, "orders")
    world.open(ANOTHER, "billing")
    assert await world.act(A_PORT, ANOTHER) == [1, 2]
    world.close(A_PORT)
    await world.idle()
    world.open(A_PORT, "billing")
    assert await world.act(A_PORT) == [2]


async def test_one_that_closed_before_its_first_message_came_ends_as_well() -> None:
    world = World()
    world.open(A_PORT, "orders")
    world.close(A_PORT)
    assert await world.act(A_PORT) == [1]
    await world.idle()
    world.open(A_PORT, "billing")
    assert await world.act(A_PORT) == [2]


async def test_what_may_be_either_owner_s_is_assumed_until_it_is_clear() -> None:
    """The one before may still have messages in the queue."""
    world = World()
    world.open(A_PORT, "orders")
    world.open(ANOTHER, "billing")
    assert await world.act(A_PORT, ANOTHER) == [1, 2]
    world.ready = 2
    world.close(A_PORT)
    world.open(A_PORT, "billing")
    assert await world.act(A_PORT) == world.assumed == [3]
    assert await world.act(A_PORT) == world.assumed == [3]
    world.ready = 0
    for _ in range(2 * SKEW // SECOND + 2):  # the queue's length is asked behind each
        last = await world.act(A_PORT)
    assert last == [2]


async def test_the_same_client_on_the_same_port_is_never_in_doubt() -> None:
    world = World()
    for _ in range(5):
        world.open(A_PORT, "orders")
        assert await world.act(A_PORT) == [1]
        world.close(A_PORT)
    assert world.assumed == []


async def test_nothing_ends_while_messages_are_held_back() -> None:
    world = World(Policy.connection)
    world.open(A_PORT, "orders")
    await world.act(A_PORT)
    world.close(A_PORT)
    await world.idle()
    assert await world.act(A_PORT, held_back=True) == [1]
    await world.act(REMOTE)
    assert await world.act(A_PORT) == [3]


@pytest.mark.parametrize("owner", ["orders", "billing"])
async def test_whoever_has_a_port_after_a_restart_is_told_by_what_is_known(owner: str) -> None:
    world = World()
    world.open(A_PORT, "orders")
    assert await world.act(A_PORT) == [1]
    recorded_at = world.now
    world.close(A_PORT)
    world.now += 100 * SECOND
    world.open(A_PORT, owner)
    world.begin(recorded_at)
    number = await world.act(A_PORT)
    if owner == "orders":
        assert number == [1]
    else:  # what was queued meanwhile may be of either
        assert number == world.assumed
        await world.idle()
        await world.act(REMOTE)
        (number,) = await world.act(A_PORT)
        assert number not in world.assumed


async def test_what_ended_before_a_restart_is_not_taken_up_by_the_next_owner() -> None:
    world = World()
    world.open(A_PORT, "orders")
    assert await world.act(A_PORT) == [1]
    world.close(A_PORT)
    world.now += 100 * SECOND
    world.open(A_PORT, "billing")
    world.begin()  # the tracker knows the channel again, as the store does
    assert await world.act(A_PORT) == [2]
    assert world.assumed == []


async def test_what_was_sent_meanwhile_counts_as_queued() -> None:
    world = World(Policy.connection)
    world.open(A_PORT, "orders")
    await world.act(A_PORT)
    world.close(A_PORT)
    world.is_asked = False
    assert await world.act(A_PORT) == [1]
    world.buffer_size = 2  # of three that waited, two were sent before the broker answered
    world.acquaintance.note_measure(world.now, 1)
    for _ in range(3):
        assert await world.act(A_PORT) == [1]


async def test_what_is_in_hand_while_the_store_is_slow_counts_as_taken() -> None:
    """Else what is still buffered, and was traced before the connection closed, is another's."""
    world = World(Policy.channel)
    world.open(A_PORT, "orders")
    (first,) = await world.act(A_PORT)
    world.close(A_PORT)
    world.now += 10 * SECOND
    world.buffer_size = 1
    world.store.clear()
    acting = asyncio.create_task(world.act(A_PORT))
    for _ in range(5):
        await asyncio.sleep(0)
    world.measure()  # the queue answers meanwhile
    world.store.set()
    (second,) = await acting
    world.buffer_size = 0
    assert [first, second, *await world.act(A_PORT)] == [first] * 3


@pytest.mark.parametrize("policy", [Policy.host, Policy.user])
async def test_nobody_is_asked_for_where_no_name_is_shown(policy: Policy) -> None:
    world = World(policy)
    await world.act(A_PORT, REMOTE)
    assert world.looked_up == []


async def test_connections_for_a_message_each_are_few_participants() -> None:
    world = World()
    seen: set[int] = set()
    for port in range(5000, 5500):
        where = channel(f"127.0.0.1:{port}")
        world.open(where, None)
        seen |= set(await world.act(where))
        world.close(where)
    assert len(seen) <= 2 * SKEW // SECOND + 4
    assert OVERLAP > SKEW
