"""How long a trace waits to be told who is behind a connection, and for what."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence

import pytest

from app.errors import OutageError
from app.stored.capture import BrokerConnection, NewConnection
from app.traces.runs.introductions import (
    FORGET_SECONDS,
    SUCCESSOR_SECONDS,
    Introductions,
)

WAIT = 6.0
LONG_AGO = 3_600.0


class World:
    """The store, the broker and the clock; ``at`` says what happens when, in seconds."""

    def __init__(self) -> None:
        self.now = 0.0
        self.event_vhost: str | None = "/"
        self.management_is_away = False
        self.is_our_queue_bound = True
        self.present_ones: list[NewConnection] = []
        self.known: dict[str, BrokerConnection] = {}
        self.events: list[tuple[float, Callable[[], None]]] = []
        self.finds = self.lists = self.looks = 0

    def at(self, seconds: float, event: Callable[[], None]) -> None:
        self.events.append((seconds, event))

    def clock(self) -> float:
        return self.now

    async def pause(self, seconds: float) -> None:
        self.now += seconds
        due = [event for at, event in self.events if at <= self.now]
        self.events = [(at, event) for at, event in self.events if at > self.now]
        for event in due:
            event()

    def know(self, name: str, *, closed_ago: float | None = None) -> None:
        """Have the store know a new connection, closed some seconds ago or still open."""
        ended = None if closed_ago is None else int((time.time() - closed_ago) * 1e6)
        number = max((each.id for each in self.known.values()), default=0) + 1
        self.known[name] = BrokerConnection("n", name, "/", "u", "c", None, 1, number, ended)

    # The store

    async def find(self, names: Collection[str]) -> Mapping[str, BrokerConnection]:
        self.finds += 1
        return {name: self.known[name] for name in names if name in self.known}

    async def add(self, openings: Sequence[NewConnection]) -> None:
        for each in openings:
            self.know(each.name)

    # The broker

    async def event_exchange(self) -> str | None:
        self.looks += 1
        if self.management_is_away:
            raise OutageError("away")
        return self.event_vhost

    async def is_bound(self, vhost: str) -> bool:
        return self.is_our_queue_bound and vhost == self.event_vhost

    async def present(self) -> Sequence[NewConnection]:
        self.lists += 1
        if self.management_is_away:
            raise OutageError("away")
        return self.present_ones

    def listed(self, name: str) -> None:
        """Have the management API show a connection."""
        self.present_ones.append(NewConnection("n", name, "/", "u", None, None, 1))


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def introductions(world: World) -> Introductions:
    return Introductions(world, world, seconds=WAIT, clock=world.clock, pause=world.pause)


async def test_who_is_known_is_found_at_once(world: World, introductions: Introductions) -> None:
    world.know("a")
    assert await introductions.look_up(["a"]) == world.known
    assert (world.now, world.finds, world.looks) == (0, 1, 0)


async def test_who_is_being_announced_is_waited_for(
    world: World, introductions: Introductions
) -> None:
    world.know("a")
    world.at(0.03, lambda: world.know("b"))
    assert (await introductions.look_up(["a", "b"])).keys() == {"a", "b"}
    assert world.now == pytest.approx(0.04)
    assert world.lists == 0


async def test_who_was_never_announced_is_found_by_the_management_api(
    world: World, introductions: Introductions
) -> None:
    world.at(4.9, lambda: world.listed("a"))
    assert (await introductions.look_up(["a"])).keys() == {"a"}
    assert world.now < WAIT
    assert world.lists <= WAIT


async def test_who_cannot_be_found_is_missing_after_a_while_and_not_waited_for_again(
    world: World, introductions: Introductions
) -> None:
    world.know("a")
    assert (await introductions.look_up(["a", "b"])).keys() == {"a"}
    assert world.now == pytest.approx(WAIT, abs=0.1)
    before = world.now
    assert (await introductions.look_up(["a", "b"])).keys() == {"a"}
    assert world.now == before
    world.know("b")
    assert (await introductions.look_up(["b"])).keys() == {"b"}
    del world.known["b"]
    world.now += FORGET_SECONDS
    await introductions.look_up(["b"])
    assert world.now > before + FORGET_SECONDS + WAIT - 0.1


@pytest.mark.parametrize("is_away", [False, True])
async def test_without_announcements_nothing_is_waited_for(
    world: World, introductions: Introductions, is_away: bool
) -> None:
    world.event_vhost, world.management_is_away = None, is_away
    assert await introductions.look_up(["a"]) == {}
    assert world.now == 0


async def test_where_others_are_announced_to_nothing_is_waited_for(
    world: World, introductions: Introductions
) -> None:
    """The account has no right to a queue of its own, for instance."""
    world.is_our_queue_bound = False
    assert await introductions.look_up(["a"]) == {}
    assert world.now == 0


async def test_without_announcements_the_management_api_is_asked_now_and_then(
    world: World, introductions: Introductions
) -> None:
    world.event_vhost = None
    world.listed("a")
    assert (await introductions.look_up(["a", "b"])).keys() == {"a"}
    for number in range(100):
        await introductions.look_up([f"c{number}"])
    assert world.lists == 1
    world.now += 10
    await introductions.look_up(["d"])
    assert world.lists == 2


async def test_whether_there_is_an_event_exchange_is_asked_now_and_then(
    world: World, introductions: Introductions
) -> None:
    world.event_vhost = None
    for number in range(100):
        await introductions.look_up([f"a{number}"])
    assert world.looks == 1


async def test_a_port_that_is_used_again_is_waited_for_a_moment(
    world: World, introductions: Introductions
) -> None:
    world.know("a", closed_ago=LONG_AGO)
    world.at(0.05, lambda: world.know("a"))
    assert (await introductions.look_up(["a"]))["a"].closed_at is None
    assert world.now == pytest.approx(0.06)


async def test_of_a_connection_that_ended_long_ago_messages_may_come_late(
    world: World, introductions: Introductions
) -> None:
    """They waited in the trace queue while nobody consumed it."""
    world.know("a", closed_ago=LONG_AGO)
    assert (await introductions.look_up(["a"])) == world.known
    assert world.now == pytest.approx(SUCCESSOR_SECONDS, abs=0.03)
    before = world.now
    assert (await introductions.look_up(["a"])) == world.known
    assert world.now == before


async def test_a_connection_for_one_message_is_not_waited_for(
    world: World, introductions: Introductions
) -> None:
    world.know("a", closed_ago=0.1)
    assert (await introductions.look_up(["a"])) == world.known
    assert world.now == 0


async def test_without_the_management_api_announcements_go_on(
    world: World, introductions: Introductions
) -> None:
    await introductions.look_up(["unknown"])
    world.management_is_away = True
    world.at(world.now + 1.5, lambda: world.know("b"))
    assert (await introductions.look_up(["b"])).keys() == {"b"}


async def test_an_outage_of_the_store_is_the_callers(
    world: World, introductions: Introductions, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(names: Collection[str]) -> Mapping[str, BrokerConnection]:
        raise OutageError(f"away: {names}")

    monkeypatch.setattr(world, "find", away)
    with pytest.raises(OutageError):
        await introductions.look_up(["a"])
