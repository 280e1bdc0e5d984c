"""The live tail and long polling: what is new arrives, and who cannot keep up is let go."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from app.api import parameters, streams
from app.api.routes import events as live
from app.stored.reading import EventFilter, EventList
from model.event import Large
from tests.api.conftest import World, WorldBounds, make_world, served
from tests.api.fakes import basic
from tests.api.story import BILLING, SHOP, deliver, publish

PATIENCE = 10  # seconds, for what comes at once unless something is wrong
NEWS = publish(SHOP, "news")


@asynccontextmanager
async def service(world: World) -> AsyncIterator[httpx2.AsyncClient]:
    limits = httpx2.Limits(max_connections=None)
    async with (
        served(world.app(), world.settings) as url,
        httpx2.AsyncClient(
            base_url=url, auth=("admin", "secret"), timeout=PATIENCE, limits=limits
        ) as client,
    ):
        yield client


@asynccontextmanager
async def reader(
    client: httpx2.AsyncClient, headers: dict[str, str] | None = None, **parameters: Any
) -> AsyncIterator[AsyncIterator[httpx2.ServerSentEvent]]:
    async with client.stream(
        "GET", "/itc_db/live", params=parameters, headers=headers or {}
    ) as answer:
        assert answer.status_code == 200
        yield aiter(httpx2.EventSource(answer))


async def next_event(events: AsyncIterator[httpx2.ServerSentEvent]) -> httpx2.ServerSentEvent:
    """The next that a page would see."""
    while True:
        event = await asyncio.wait_for(anext(events), PATIENCE)
        if event.data:
            return event


async def next_ids(events: AsyncIterator[httpx2.ServerSentEvent], count: int) -> list[int]:
    found = [await next_event(events) for _ in range(count)]
    assert [json.loads(event.data)["id"] for event in found] == [int(event.id) for event in found]
    return [int(event.id) for event in found]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110  the server's numbers are no events
            await asyncio.sleep(0.01)


async def test_events_come_as_they_are_stored(world: World) -> None:
    async with service(world) as client, reader(client) as events:
        await until(lambda: world.subscribers.count == 1)
        first = await world.tell(NEWS, NEWS)
        assert await next_ids(events, 2) == first
        second = await world.tell(NEWS, vhost="shop")
        assert await next_ids(events, 1) == second


async def test_a_reader_gets_what_it_asks_for_and_may_see(world: World) -> None:
    async with service(world) as client, reader(client, after=0, user="billing") as events:
        assert await next_ids(events, 2) == [2, 3]
        await world.tell(publish(BILLING, "hidden"), vhost="secret")
        await world.tell(NEWS)
        asked_for = await world.tell(publish(BILLING, "seen"))
        assert await next_ids(events, 1) == asked_for


async def test_a_reader_gets_the_columns_it_asks_for(world: World) -> None:
    async with service(world) as client:
        async with reader(client, after=6, columns="id,payload") as events:
            assert json.loads((await next_event(events)).data) == {"id": 7, "payload": "?"}
        async with reader(client, after=6, payload="none") as events:
            assert json.loads((await next_event(events)).data)["payload"] is None


async def test_a_reader_resumes_behind_the_event_it_saw_last(world: World) -> None:
    async with service(world) as client:
        async with reader(client, {"last-event-id": "5"}) as events:
            assert await next_ids(events, 2) == [6, 7]
        async with reader(client, {"last-event-id": "6"}, after=0) as events:
            assert await next_ids(events, 1) == [7]


async def test_a_reader_resumes_behind_events_that_its_filter_left_out(world: World) -> None:
    async with service(world) as client, reader(client, user="nobody") as events:
        seen = await asyncio.wait_for(anext(events), PATIENCE)

    assert (seen.id, seen.data) == ("8", "")  # the newest, of whatever virtual host


@pytest.mark.parametrize("value", [b"x", b"-1", b"1.0", b"9" * 30, "²".encode()])
async def test_a_wrong_last_event_id_is_refused(client: httpx2.AsyncClient, value: bytes) -> None:
    answer = await client.get("/itc_db/live", headers=[(b"last-event-id", value)])

    assert answer.status_code == 400


async def test_a_reader_that_leaves_is_forgotten(world: World) -> None:
    async with service(world) as client:
        async with reader(client):
            await until(lambda: world.subscribers.count == 1)
        await until(lambda: world.subscribers.count == 0)


async def test_no_more_readers_than_the_bound(tmp_path: Path) -> None:
    world = make_world(tmp_path, WorldBounds(readers=1))
    async with service(world) as client, reader(client):
        refused = await client.get("/itc_db/live")

    assert (refused.status_code, refused.json()["error"]) == (429, "too_many_requests")


async def test_readers_end_when_the_service_stops(world: World) -> None:
    async with service(world) as client, reader(client) as events:
        world.stop()
        async with asyncio.timeout(PATIENCE):
            assert [event async for event in events if event.data] == []


async def test_a_reader_whose_rights_are_taken_away_is_told_and_ended(tmp_path: Path) -> None:
    world = make_world(tmp_path, auth_cache_seconds=1e-3)
    async with service(world) as client, reader(client) as events:
        await until(lambda: world.subscribers.count == 1)
        world.broker.add("admin", "changed", "administrator", "/")
        await world.tell(NEWS)
        notice = await next_event(events)
        while notice.event != "dropped":  # one answer of the broker's may be believed still
            notice = await next_event(events)
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(anext(events), PATIENCE)

    assert "refuses these credentials" in json.loads(notice.data)["reason"]


async def test_a_reader_that_falls_behind_is_told_and_ended(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "BEHIND_EVENTS", 200)
    async with service(world) as client, reader(client) as events:
        await until(lambda: world.subscribers.count == 1)
        await world.tell(*[NEWS] * 400)
        notice = await next_event(events)
        while notice.event != "dropped":
            notice = await next_event(events)

    assert "too slow" in json.loads(notice.data)["reason"]
    assert world.subscribers.dropped == 1


async def test_a_reader_far_behind_may_catch_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "BEHIND_EVENTS", 200)
    async with service(world) as client:
        stored = await world.tell(*[NEWS] * 400)
        async with reader(client, after=7) as events:
            assert await next_ids(events, 400) == stored


async def test_a_reader_that_does_not_read_is_let_go(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "SEND_SECONDS", 0.3)
    async with service(world) as client:
        parts = urlsplit(str(client.base_url))
        _, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=1_024)
        [(name, value)] = basic("admin", "secret").items()
        request = f"GET /itc_db/live?after=0 HTTP/1.1\r\nhost: x\r\n{name}: {value}\r\n\r\n"
        writer.write(request.encode())
        await until(lambda: world.subscribers.count == 1)
        record = publish(SHOP, "news", body=b"x" * 1_000)
        for _ in range(20):  # more than the sockets' buffers hold
            await world.tell(*[record] * 500)
        await until(lambda: world.subscribers.count == 0)
        writer.close()


async def test_a_long_poll_answers_as_soon_as_there_is_something(world: World) -> None:
    async with service(world) as client:
        waiting = asyncio.create_task(
            client.get("/itc_db", params={"after": 7, "wait": 60, "columns": "id"})
        )
        await until(lambda: len(world.traces.feed.waiting) > 0)
        stored = await world.tell(NEWS)
        answer = await asyncio.wait_for(waiting, PATIENCE)

    assert [event["id"] for event in answer.json()] == stored


async def test_a_long_poll_waits_for_an_event_that_passes_its_filter(world: World) -> None:
    async with service(world) as client:
        waiting = asyncio.create_task(
            client.get(
                "/itc_db", params={"after": 7, "wait": 60, "type": "received", "columns": "id"}
            )
        )
        await until(lambda: len(world.traces.feed.waiting) > 0)
        await world.tell(NEWS)
        [_, received] = await world.tell(
            publish(SHOP, "order.new", "billing"), deliver(BILLING, "order.new", "billing")
        )
        answer = await asyncio.wait_for(waiting, PATIENCE)

    assert [event["id"] for event in answer.json()] == [received]


@pytest.mark.parametrize("wait", [0, 0.05])
async def test_a_long_poll_ends_empty_at_the_end_of_its_wait(
    client: httpx2.AsyncClient, wait: float
) -> None:
    answer = await client.get("/itc_db", params={"after": 7, "wait": wait})

    assert (answer.status_code, answer.json()) == (200, [])


async def test_a_wait_is_bounded_by_the_service(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parameters, "WAIT_SECONDS", 0.05)
    async with service(world) as client:
        assert (await client.get("/itc_db", params={"after": 7, "wait": 3_600})).json() == []


async def test_readers_of_the_same_share_one_query(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with service(world) as client:
        queries = count_calls(world, monkeypatch)
        polls = [
            asyncio.create_task(client.get("/itc_db", params={"after": 7, "wait": 60}))
            for _ in range(50)
        ]
        await until(lambda: len(world.traces.feed.waiting) == 50)
        assert len(queries) == 1
        stored = await world.tell(NEWS)
        answers = await asyncio.gather(*polls)

    assert [[event["id"] for event in answer.json()] for answer in answers] == [stored] * 50
    assert len(queries) == 2


def count_calls(world: World, monkeypatch: pytest.MonkeyPatch) -> list[EventFilter]:
    """The filters that the store is asked with from now on."""
    asked: list[EventFilter] = []
    events: Callable[..., Awaitable[EventList]] = world.store.events.find

    async def counted(each: EventFilter, **more: int | Large) -> EventList:
        asked.append(each)
        return await events(each, **more)

    monkeypatch.setattr(world.store.events, "find", counted)
    return asked


async def test_a_failed_query_is_not_remembered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with service(world) as client:
        with monkeypatch.context() as broken:
            broken.setattr(world.store.events, "find", None)
            assert (await client.get("/itc_db", params={"after": 6})).status_code == 500
        assert (await client.get("/itc_db", params={"after": 6})).json()[0]["id"] == 7


async def test_a_long_poll_ends_when_rights_are_taken_away(tmp_path: Path) -> None:
    world = make_world(tmp_path, auth_cache_seconds=1e-3)
    async with service(world) as client:
        waiting = asyncio.create_task(client.get("/itc_db", params={"after": 7, "wait": 60}))
        await until(lambda: len(world.traces.feed.waiting) > 0)
        world.broker.add("admin", "secret", "administrator", "shop")
        answer = await asyncio.wait_for(waiting, PATIENCE)

    assert answer.status_code == 401
    assert "rights have changed" in answer.json()["reason"]


async def test_a_long_poll_tells_nothing_new_to_whom_it_may_not_be_told(tmp_path: Path) -> None:
    world = make_world(tmp_path, auth_cache_seconds=1e-3)
    async with service(world) as client:
        waiting = asyncio.create_task(client.get("/itc_db", params={"after": 7, "wait": 60}))
        await until(lambda: len(world.traces.feed.waiting) > 0)
        world.broker.add("admin", "changed", "administrator", "/")
        await world.tell(NEWS)
        answer = await asyncio.wait_for(waiting, PATIENCE)

    assert answer.status_code == 401
