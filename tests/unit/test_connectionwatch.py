"""The watch over connections goes on, whatever happens to the broker, the store or itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from app.broker.announcements import AnnouncementBatch
from app.errors import OutageError
from app.stored.capture import ClosedConnection, NewConnection
from app.traces.connectionwatch import NO_EXCHANGE, ConnectionWatch

A = NewConnection("n", "a", "/", "u", "orders", "12", 1, "<a>")


class World:
    """A broker, a store, and a pause that is over at once."""

    def __init__(self) -> None:
        self.vhost: str | None = "/"
        self.opened: list[str] = []
        self.bound = True
        self.refusal: Exception | None = None
        self.store_fails: Exception | None = None
        self.listed: list[NewConnection] = []
        self.to_hear: asyncio.Queue[AnnouncementBatch | Exception] = asyncio.Queue()
        self.consumed = self.bindings = self.pauses = self.reconciled = 0
        self.acknowledged: list[int] = []
        self.stored: list[NewConnection | ClosedConnection] = []
        self.pruned_to: int | None = None

    # The broker

    async def event_exchange(self) -> str | None:
        return self.vhost

    async def present(self) -> Sequence[NewConnection]:
        return self.listed

    async def is_bound(self, vhost: str) -> bool:
        return self.bound

    @asynccontextmanager
    async def open(self, vhost: str) -> AsyncIterator[World]:
        if self.refusal is not None:
            raise self.refusal
        self.opened.append(vhost)
        yield self

    async def consume(self) -> None:
        self.consumed += 1

    async def batch(self) -> AnnouncementBatch:
        heard = await self.to_hear.get()
        if isinstance(heard, Exception):
            raise heard
        return heard

    async def acknowledge(self, tag: int) -> None:
        self.acknowledged.append(tag)

    async def bind(self) -> None:
        self.bindings += 1
        self.bound = True

    # The store

    async def add(
        self, openings: Sequence[NewConnection], closings: Sequence[ClosedConnection]
    ) -> None:
        if self.store_fails is not None:
            failure, self.store_fails = self.store_fails, None
            raise failure
        self.stored += [*openings, *closings]

    async def reconcile(self, present: Sequence[NewConnection], moment: int) -> None:
        self.reconciled += 1
        self.stored += present

    async def prune(self, keep: int) -> int:
        self.pruned_to = keep
        return 0

    async def pause(self, seconds: float) -> None:
        self.pauses += 1
        await asyncio.sleep(0)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
async def watch(world: World) -> AsyncIterator[ConnectionWatch]:
    watch = ConnectionWatch(world, world, keep=50, pause=world.pause)
    yield watch
    await watch.stop()


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(100_000):
        if condition():
            return
        await asyncio.sleep(0)
    pytest.fail("that did not happen")


async def test_announcements_are_stored_and_then_acknowledged(
    world: World, watch: ConnectionWatch
) -> None:
    watch.start()
    world.to_hear.put_nowait(AnnouncementBatch([A], [ClosedConnection("n", "b", "<b>", 5)], tag=2))
    await until(lambda: world.acknowledged == [2])
    assert world.stored == [
        A,
        ClosedConnection("n", "b", "<b>", 5),
    ]
    assert (watch.why_not, world.opened) == (None, ["/"])


async def test_what_could_not_be_stored_is_not_acknowledged(
    world: World, watch: ConnectionWatch
) -> None:
    world.store_fails = OutageError("the disk is full")
    world.to_hear.put_nowait(AnnouncementBatch([A], [], tag=1))
    watch.start()
    await until(lambda: world.consumed == 2)
    assert world.acknowledged == []
    world.to_hear.put_nowait(AnnouncementBatch([A], [], tag=1))
    await until(lambda: world.acknowledged == [1])


@pytest.mark.parametrize(
    ("failure", "told"),
    [(OutageError("too few rights"), "too few rights"), (KeyError("x"), "an error in the service")],
)
async def test_while_it_fails_it_says_why_and_goes_on(
    world: World, watch: ConnectionWatch, failure: Exception, told: str
) -> None:
    world.refusal = failure
    watch.start()
    await until(lambda: world.pauses > 5)
    assert (watch.why_not or "").startswith(told)
    world.refusal = None
    await until(lambda: watch.why_not is None)


async def test_an_account_without_rights_to_a_queue_still_has_the_list(
    world: World, watch: ConnectionWatch
) -> None:
    world.refusal, world.listed = OutageError("too few rights"), [A]
    watch.start()
    await until(lambda: bool(world.stored))


async def test_without_an_event_exchange_connections_are_listed_until_there_is_one(
    world: World, watch: ConnectionWatch
) -> None:
    world.vhost, world.listed = None, [A]
    watch.start()
    await until(lambda: bool(world.stored) and world.pruned_to == 50)
    assert watch.why_not == NO_EXCHANGE
    world.vhost = "events"
    await until(lambda: world.opened == ["events"] and watch.why_not is None)


async def test_a_lost_binding_is_restored_and_what_was_missed_is_listed(
    world: World, watch: ConnectionWatch
) -> None:
    watch.start()
    await until(lambda: watch.why_not is None)
    listed, world.bound = world.reconciled, False
    await until(lambda: world.bindings == 1 and world.reconciled > listed)


async def test_a_lost_connection_is_opened_again(world: World, watch: ConnectionWatch) -> None:
    watch.start()
    world.to_hear.put_nowait(OutageError("the broker is gone"))
    await until(lambda: world.consumed == 2)
    assert watch.why_not is None


async def test_a_watch_that_was_never_started_can_be_stopped(world: World) -> None:
    await ConnectionWatch(world, world).stop()
