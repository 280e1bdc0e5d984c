"""Large events: their answers come in pieces, within bounds in bytes, and are no others for it."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.api.answers import GROWTH, PIECE, ByteBudget
from app.api.described import encode_json
from app.api.events import event_view
from app.api.signin.permissions import EVERYTHING_READ
from app.store import Store
from app.stored.reading import EventFilter
from model.event import ALL_LARGE
from tests.api.conftest import World, WorldBounds, connected, make_world
from tests.api.story import BILLING, SHOP, deliver, publish
from tests.api.test_live import next_event, reader, service

SIGN_IN = ("admin", "secret")
NULS = b"\0" * 60_000  # 360,000 bytes of JSON each
EVENTS = 40
BOUND = 4 << 20


@pytest.fixture
async def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose store keeps whole payloads."""
    opened = Store.open

    async def keeping_all(url: str, **options: Any) -> Store:
        return await opened(url, **{**options, "payload_max_bytes": 65_536})

    monkeypatch.setattr(Store, "open", keeping_all)
    return make_world(tmp_path, WorldBounds(answers_bytes=BOUND, tail_bytes=1 << 20))


async def at_once(world: World, **where: int) -> bytes:
    """The list as encoding all of it at once has it."""
    events, asked = world.store.events, EventFilter(vhosts=frozenset({"/", "shop"}))
    rows = await events.get_existing([row.id for row in (await events.find(asked, **where)).items])
    return encode_json([event_view(row, EVERYTHING_READ) for row in rows])


async def test_a_list_of_large_events_is_the_same_to_the_byte(large: World) -> None:
    async with connected(large.app(), auth=SIGN_IN) as client:
        await large.tell(*[publish(SHOP, "zero", body=NULS)] * EVENTS, publish(SHOP, "small"))
        newest_first = await client.get("/itc_db", params={"page_size": 500})
        rising = await client.get("/itc_db", params={"page_size": 500, "after": 0})
        page = await client.get("/itc_db", params={"page": 1, "page_size": 500})
        expected = await at_once(large, limit=500), await at_once(large, limit=500, after=0)

    assert (newest_first.content, rising.content) == expected
    assert page.json()["items"] == newest_first.json()
    assert page.json()["item_count"] == len(newest_first.json()) == 7 + EVENTS + 1


async def test_walks_and_fates_of_large_events_are_whole(large: World) -> None:
    async with connected(large.app(), auth=SIGN_IN) as client:
        [start, *received] = await large.tell(
            publish(SHOP, "zero", "billing", body=NULS),
            *[deliver(BILLING, "zero", "billing", NULS, redelivered=n > 0) for n in range(EVENTS)],
        )
        effects = (await client.get(f"/itc_db/events/{start}/effects")).json()
        fate = (await client.get(f"/itc_db/events/{start}/deliveries")).json()

    assert [event["id"] for event in effects["items"]] == received
    [queue] = fate["queues"]
    assert [event["id"] for event in queue["deliveries"]] == received
    payloads = {event["payload"] for event in effects["items"] + queue["deliveries"]}
    assert payloads == {NULS.decode()}


async def test_many_large_answers_hold_no_more_than_the_bound(large: World) -> None:
    app = large.app()
    async with connected(app, auth=SIGN_IN) as client:
        await large.tell(*[publish(SHOP, "zero", body=NULS)] * EVENTS)

        async def length() -> int:
            async with client.stream("GET", "/itc_db", params={"page_size": 500}) as answer:
                return sum([len(each) async for each in answer.aiter_raw()])

        lengths = await asyncio.gather(*(length() for _ in range(8)))
        budget = app.state.services.budget

    assert min(lengths) > EVENTS * len(NULS) * 6
    assert 0 < budget.highest <= BOUND
    assert budget.size == 0


async def test_a_large_answer_is_not_in_memory_at_once(large: World) -> None:
    app = large.app()
    async with connected(app, auth=SIGN_IN) as client:
        await large.tell(*[publish(SHOP, "zero", body=NULS)] * EVENTS)
        await client.get("/itc_db", params={"columns": "id"})  # what is made only once
        scope = client.build_request("GET", "/itc_db", params={"page_size": 500})
        sent = await unread_pieces(app, scope)

    assert sent.total > EVENTS * len(NULS) * 6
    assert sent.peak < sent.total / 2


class Sent:
    """What an answer of the application came to: its bytes, and those of Python's memory."""

    def __init__(self) -> None:
        self.total = 0
        self.peak = 0


async def unread_pieces(app: Any, request: httpx2.Request) -> Sent:
    """Answer a request without a client that would keep what it is sent."""
    sent = Sent()

    async def receive() -> dict[str, Any]:
        if sent.total == 0 and not hasattr(sent, "asked"):
            sent.asked = True  # type: ignore[attr-defined]
            return {"type": "http.request", "body": b"", "more_body": False}
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        sent.total += len(message.get("body", b""))

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": request.url.path,
        "raw_path": request.url.raw_path.partition(b"?")[0],
        "query_string": request.url.query,
        "root_path": "",
        "headers": [
            (b"host", b"localhost"),
            (b"authorization", httpx2.BasicAuth(*SIGN_IN)._auth_header.encode()),
        ],
        "client": ("127.0.0.1", 1),
        "server": ("localhost", 80),
    }
    tracemalloc.start()
    try:
        await app(scope, receive, send)
        sent.peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return sent


async def test_what_retention_takes_meanwhile_leaves_the_answer_whole(
    large: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(large.app(), auth=SIGN_IN) as client:
        stored = await large.tell(*[publish(SHOP, "zero", body=NULS)] * EVENTS)

        async def gone(ids: list[int], columns: frozenset[str] = ALL_LARGE) -> list[Any]:
            return []

        monkeypatch.setattr(large.store.events, "get_existing", gone)
        answer = await client.get("/itc_db", params={"page_size": EVENTS, "columns": "id,payload"})

    assert answer.json() == [{"id": each, "payload": None} for each in reversed(stored)]


async def test_the_live_tail_gives_large_events_in_batches_that_fit(large: World) -> None:
    async with service(large) as client, reader(client, after=8) as events:
        stored = await large.tell(*[publish(SHOP, "zero", body=NULS)] * EVENTS)
        given = [await next_event(events) for _ in stored]

    assert [int(event.id) for event in given] == stored
    assert {json.loads(event.data)["payload"] for event in given} == {NULS.decode()}


async def test_the_tail_keeps_no_more_than_its_bound(large: World) -> None:
    app = large.app()
    async with connected(app, auth=SIGN_IN) as client:
        body = "x" * 1_000
        stored = await large.tell(*[publish(SHOP, "light", body=body.encode())] * 300)
        for start in range(20):  # 300 kB each
            answer = await client.get("/itc_db", params={"after": stored[start], "page_size": 500})
            assert answer.json()[-1]["id"] == stored[-1]
        batches = app.state.services.tail._batches.values()
        kept = sum(each.bytes for each in batches if each.task.done())

    assert 300_000 < kept <= 1 << 20


async def test_bytes_are_let_in_first_come_first_served() -> None:
    budget = ByteBudget(10)
    order: list[int] = []

    async def one(size: int, go: asyncio.Event) -> None:
        async with budget.hold(size):
            order.append(size)
            await go.wait()

    go = asyncio.Event()
    tasks = [asyncio.create_task(one(size, go)) for size in (6, 30, 4, 3)]
    for _ in range(3):
        await asyncio.sleep(0)
    assert (order, budget.size) == ([6], 6)
    tasks[1].cancel()  # whoever waits behind it does so no more
    for _ in range(5):
        await asyncio.sleep(0)
    assert (order, budget.size) == ([6, 4], 10)
    go.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (order, budget.size) == ([6, 4, 3], 0)


def test_a_piece_fits_into_the_smallest_sensible_bound() -> None:
    assert PIECE * GROWTH <= BOUND
