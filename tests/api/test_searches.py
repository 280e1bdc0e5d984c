"""Searches that take long hold up other searches of the same user, and nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.api.readiness import Readiness
from app.api.searching import Slots
from app.errors import TooManyRequestsError
from app.store.database import regex
from tests.api.conftest import World, WorldBounds, make_world
from tests.api.fakes import basic
from tests.api.story import SHOP, publish
from tests.api.test_live import next_ids, reader, service, until

PATIENCE = 20
SLOW = {"q": "not there"}


class Held:
    """Lets no search of the store end before it says so; shows which are under way."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go = asyncio.Event()
        self.searching = 0
        self.most = 0
        find = world.store.events.find

        async def held(asked: Any, **more: Any) -> Any:
            if asked.names_traces_alone:
                return await find(asked, **more)
            self.searching += 1
            self.most = max(self.most, self.searching)
            try:
                await self.go.wait()
                return await find(asked, **more)
            finally:
                self.searching -= 1

        monkeypatch.setattr(world.store.events, "find", held)


@asynccontextmanager
async def asking(client: httpx2.AsyncClient, count: int, **signed: Any) -> AsyncIterator[list[Any]]:
    """Searches that go on meanwhile."""
    tasks = [
        asyncio.create_task(client.get("/itc_db", params=SLOW | {"channel": n}, **signed))
        for n in range(count)
    ]
    yield tasks
    await asyncio.gather(*tasks)


async def test_a_user_has_a_share_of_the_searches_and_the_rest_waits_or_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(tmp_path, WorldBounds(searches=3, searches_each=2, searches_waiting=3))
    async with service(world) as client:
        held = Held(world, monkeypatch)
        async with asking(client, 5) as mine:
            await until(lambda: held.searching == 2)
            await until(lambda: world.searches.slots.queue_size == 3)
            refused = await client.get("/itc_db", params=SLOW)
            spans = await client.put(  # what a link leads to is searched for
                "/itc_db/periods/%2F/day.otlp.json",
                params={"since": "2026-01-01", "until": "2026-01-03"},
            )
            async with asking(client, 1, headers=basic("watcher", "secret"), auth=None):
                await until(lambda: held.searching == 3)  # another user's own share
                quick = await client.get("/itc_db", params={"columns": "id"})
                ready = await client.get("/health/ready")
                held.go.set()
        statuses = {task.result().status_code for task in mine}

    assert (refused.status_code, refused.json()["error"]) == (429, "too_many_requests")
    assert (spans.status_code, spans.json()["error"]) == (429, "too_many_requests")
    assert "narrow them down" in refused.json()["reason"]
    assert (quick.status_code, ready.status_code) == (200, 200)
    assert statuses == {200}
    assert held.most == 3


async def test_tails_with_filters_of_their_own_are_searched_for_a_few_at_a_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with service(world) as client:
        held = Held(world, monkeypatch)
        polls = [
            asyncio.create_task(
                client.get("/itc_db/live", params={"q": f"nothing {n}"}, timeout=PATIENCE)
            )
            for n in range(50)
        ]
        await until(lambda: world.subscribers.count == 50)
        await until(lambda: held.searching > 0)
        async with reader(client) as everything:
            stored = await world.tell(publish(SHOP, "news"))
            assert await next_ids(everything, 1) == stored
            listed = await client.get("/itc_db", params={"columns": "id", "page_size": 1})
        most = held.most
        held.go.set()
        for poll in polls:
            poll.cancel()
        await asyncio.gather(*polls, return_exceptions=True)
        await until(lambda: world.subscribers.count == 0)
        await until(lambda: held.searching == 0)  # nobody searches for those that went away

    assert listed.json() == [{"id": stored[0]}]
    assert most <= 2


async def test_real_searches_that_find_nothing_keep_no_quick_read_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the store itself: every connection of the searches is busy in the database."""
    world = make_world(tmp_path, WorldBounds(searches_each=4))
    async with service(world) as client:
        held = Blocked(monkeypatch)
        async with asking_by_regex(client, 4):
            await until(lambda: held.inside == 4)
            quick = await client.get("/itc_db", params={"columns": "id"})
            one = await client.get("/itc_db/events/1")
            ready = await client.get("/health/ready")
            held.go.set()

    assert (quick.status_code, one.status_code, ready.status_code) == (200, 200, 200)


class Blocked:
    """Holds each connection that matches a regular expression, in its own thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import threading

        self.go = threading.Event()
        self.inside = 0
        compiled = regex._searcher

        def held(pattern: str) -> Callable[[str], Any]:
            search = compiled(pattern)

            def matches(value: str) -> Any:
                if not self.go.is_set():
                    self.inside += 1
                    self.go.wait(PATIENCE)
                return search(value)

            return matches

        monkeypatch.setattr(regex, "_searcher", held)


@asynccontextmanager
async def asking_by_regex(client: httpx2.AsyncClient, count: int) -> AsyncIterator[None]:
    tasks = [
        asyncio.create_task(
            client.get("/itc_db", params={"exchange": f"nothing{n}", "use_regex": True})
        )
        for n in range(count)
    ]
    yield
    for answer in await asyncio.gather(*tasks):
        assert answer.json() == []


async def test_owners_take_turns() -> None:
    slots = Slots(at_once=1, per_owner=1)
    order: list[str] = []

    async def one(owner: str) -> None:
        async with slots.slot(owner):
            order.append(owner)
            await asyncio.sleep(0)

    await asyncio.gather(*(one(owner) for owner in "aaaabbc"))
    assert "".join(order) == "aabcaba"


async def test_who_no_longer_waits_takes_no_turn() -> None:
    slots = Slots(at_once=1, per_owner=1, queue_length=2)
    async with slots.slot("a"):
        waiting = [asyncio.create_task(slots.slot("a").__aenter__()) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyRequestsError):
            await slots.slot("a").__aenter__()
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert slots.queue_size == 0
    async with asyncio.timeout(PATIENCE), slots.slot("a"):
        pass


async def test_readiness_waits_for_no_answer_that_cannot_be_broken_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.api.readiness._PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr("app.api.readiness._BELIEVED_SECONDS", 0.0)
    answered = asyncio.Event()
    asked = 0

    async def stubborn() -> None:
        nonlocal asked
        asked += 1
        answering = asyncio.ensure_future(answered.wait())
        try:
            await asyncio.shield(answering)
        except asyncio.CancelledError:
            await answering
            raise

    readiness = Readiness(database=stubborn)
    async with asyncio.timeout(PATIENCE):
        assert await readiness.checks() == {"database": "unavailable"}
        assert await readiness.checks() == {"database": "unavailable"}
        assert asked == 1  # one question at a time
        answered.set()
        while await readiness.checks() != {"database": "ok"}:
            pass
