"""Who is behind a connection is known before its messages are stamped, and ends after them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from app.stored.connections import BrokerConnection
from app.traces.acquaintance import HEAR_SECONDS, OVERLAP, Acquaintance
from app.traces.ports import Stream
from app.tracker import Bounds, Channel, Policy, Record, Tracker, Unreadable
from tests.unit.test_participants import channel, publish

A_PORT, ANOTHER = (channel(f"127.0.0.1:{port}") for port in (5000, 5001))
REMOTE = channel("10.0.0.7:5000")


class Message:
    tag, at, redelivered = 1, 0, False

    def __init__(self, message: Record | Unreadable) -> None:
        self.message = message


class World:
    """The connections that are known, the stream, the clock, and a run's own loop."""

    def __init__(self, policy: Policy = Policy.client) -> None:
        self.connections: list[BrokerConnection] = []
        self.looked_up: list[str] = []
        self.buffered = self.ready = 0
        self.now = 0.0
        self.tracker = Tracker(policy, Bounds())
        self.begin()

    def begin(self) -> None:
        stream = cast("Stream", self)
        self.acquaintance = Acquaintance("/", self.tracker, self, stream, clock=lambda: self.now)

    def open(self, where: Channel, client: str | None, user: str = "shop") -> None:
        number = len(self.connections) + 1
        self.connections.append(
            BrokerConnection(
                number, "n", where.connection, "/", user, client, client, None, number, None
            )
        )

    def close(self, where: Channel, at: int = OVERLAP) -> None:
        index = max(i for i, one in enumerate(self.connections) if one.name == where.connection)
        opened = self.connections[index]
        self.connections[index] = BrokerConnection(
            opened.id, "n", opened.name, "/", opened.user, opened.client, None, None, opened.id, at
        )

    async def act(self, *wheres: Channel, held_back: bool = False) -> list[int]:
        """Receive a batch of publishes; returns the numbers of the participants."""
        self.now += HEAR_SECONDS
        messages = [Message(publish(where)) for where in wheres]
        await self.acquaintance.meet(messages, held_back=held_back)
        return [
            event.participant for where in wheres for event in self.tracker.apply(publish(where), 0)
        ]

    # The introductions

    async def look_up(self, names: Sequence[str]) -> Mapping[str, BrokerConnection]:
        self.looked_up += names
        return await self.known(names)

    async def known(self, names: Sequence[str]) -> Mapping[str, BrokerConnection]:
        return {one.name: one for one in self.connections if one.name in names}

    async def closed_since(self, vhost: str, since: int) -> Sequence[BrokerConnection]:
        assert vhost == "/"
        return [one for one in self.connections if (one.closed_at or -1) >= since]

    async def newest_closed(self, vhost: str) -> int:
        return max((one.closed_at or 0 for one in self.connections), default=0)

    # The stream

    async def ready_messages(self) -> int:
        return self.ready


async def test_one_client_s_connections_are_one_participant() -> None:
    world = World()
    world.open(A_PORT, "orders")
    world.open(ANOTHER, "orders")
    assert await world.act(A_PORT, ANOTHER, A_PORT) == [1, 1, 1]
    assert sorted(world.looked_up) == sorted({A_PORT.connection, ANOTHER.connection})


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
    await world.act(A_PORT, ANOTHER)
    assert all(state.assumed for state in world.tracker.checkpoint().participants)


async def test_another_user_s_connection_of_that_name_says_nothing() -> None:
    world = World()
    world.open(A_PORT, "orders", user="somebody else")
    await world.act(A_PORT)
    (state,) = world.tracker.checkpoint().participants
    assert (state.client, state.assumed) == (None, True)


async def test_a_name_that_is_used_again_is_another_connection() -> None:
    world = World()
    world.open(A_PORT, "orders")
    assert await world.act(A_PORT) == [1]
    world.close(A_PORT)
    await world.act(REMOTE)  # hears of it
    world.open(A_PORT, "billing")
    assert await world.act(A_PORT) == [3]


async def test_what_was_queued_when_it_closed_is_still_the_closed_one_s() -> None:
    world = World()
    world.open(A_PORT, "orders")
    await world.act(A_PORT)
    world.close(A_PORT)
    world.buffered, world.ready = 1, 1
    assert await world.act(A_PORT) == [1]
    assert await world.act(A_PORT, A_PORT) == [1, 1]
    world.open(A_PORT, "billing")
    assert await world.act(A_PORT) == [2]


async def test_nothing_ends_while_messages_are_held_back() -> None:
    world = World()
    world.open(A_PORT, "orders")
    await world.act(A_PORT)
    world.close(A_PORT)
    await world.act(REMOTE)
    world.open(A_PORT, "billing")
    assert await world.act(A_PORT, held_back=True) == [1]
    assert await world.act(A_PORT) == [3]


async def test_what_closed_while_the_service_was_away_ends_too() -> None:
    world = World()
    world.open(A_PORT, "orders")
    await world.act(A_PORT)
    world.close(A_PORT)
    world.begin()
    assert await world.act(A_PORT) == [1]  # it was in the queue
    world.open(A_PORT, "billing")
    assert await world.act(A_PORT) == [2]


async def test_the_end_of_an_earlier_one_does_not_end_the_present_one() -> None:
    world = World()
    world.open(A_PORT, "orders")
    world.open(A_PORT, "billing")
    first = await world.act(A_PORT)
    world.connections[0] = BrokerConnection(
        1, "n", A_PORT.connection, "/", "shop", "orders", None, None, 1, OVERLAP
    )
    await world.act(REMOTE)
    assert await world.act(A_PORT) == first
    assert world.looked_up == [A_PORT.connection]


@pytest.mark.parametrize("policy", [Policy.host, Policy.user])
async def test_nobody_is_asked_for_where_no_name_is_shown(policy: Policy) -> None:
    world = World(policy)
    await world.act(A_PORT, REMOTE)
    assert world.looked_up == []


async def test_connections_for_a_message_each_take_one_participant() -> None:
    world = World()
    seen = set()
    for port in range(5000, 5100):
        where = channel(f"127.0.0.1:{port}")
        world.open(where, None)
        seen |= set(await world.act(where))
        world.close(where, at=OVERLAP + port)
    assert len(seen) <= 2  # one is open while the one before is noticed
