"""Answers with two bounds, and events found by what their messages are called."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import httpx2
import msgspec
import pytest

from app.store.reading import events as stored_events
from app.stored.capture import Batch
from app.tracker import Bounds, Deliver, Policy, Publish, Tracker
from app.tracker.events import Edge, StampedEvent
from app.tracker.links import Names, search_key
from model.words import EdgeKind
from tests.api.conftest import World, connected
from tests.api.story import BILLING, SHOP, START
from tests.api.test_cli import Command, run, url  # noqa: F401  fixtures
from tests.api.test_live import next_event, reader, service, until

# A request, its reply, and a message of the same conversation that names no parent; then one that
# belongs to nothing. The story before it has events 1 to 8.
ASKED, SERVED, REPLIED, GOT, NOTED, LATER = range(9, 15)


async def tell_links(world: World) -> None:
    """A request and its reply in ``shop``, with what the tracker would say of them."""
    tracker = Tracker(Policy.channel, Bounds())
    headers = {"tenant": "a", "n": 5}
    records = [
        Publish(SHOP, "", ("rpc",), ("rpc",), {"message_id": "m1", "headers": headers}, b"q"),
        Deliver(
            BILLING, "", ("rpc",), "rpc", False, {"message_id": "m1", "headers": headers}, b"q"
        ),
        Publish(BILLING, "", ("back",), ("back",), {"correlation_id": "m1", "headers": {}}, b"a"),
        Deliver(SHOP, "", ("back",), "back", False, {"correlation_id": "m1", "headers": {}}, b"a"),
        Publish(BILLING, "", ("note",), (), {"headers": {}}, b"n"),
        Publish(BILLING, "", ("later",), (), {"headers": {}}, b"l"),
    ]
    events: list[StampedEvent] = []
    for number, record in enumerate(records):
        events += tracker.apply(record, START + number)
    shared = (search_key("conversation", "t1"),)
    called = [search_key("message_id", "m1")]
    replied = [search_key("correlation_id", "m1")]
    names = [
        Names(conversations=shared, found_by=tuple(called)),
        Names(conversations=shared, found_by=tuple(called)),
        Names(found_by=tuple(replied)),
        Names(found_by=tuple(replied)),
        Names(conversations=shared),
        Names(),
    ]
    reply = Edge(events[1].reference, "rpc", EdgeKind.reply)
    told = [
        msgspec.structs.replace(event, names=its, edges=(reply,) if number == 2 else ())
        for number, (event, its) in enumerate(zip(events, names, strict=True))
    ]
    trace = await world.store.traces.create("shop", "channel")
    await world.store.batches.append(trace.id, Batch(told, tracker.checkpoint(), b""))
    world.traces.feed.advance(LATER)


@pytest.fixture
async def linked(world: World) -> AsyncIterator[httpx2.AsyncClient]:
    async with connected(world.app(), auth=("admin", "secret")) as client:
        await tell_links(world)
        yield client


def _ids(answer: httpx2.Response) -> list[int]:
    assert answer.status_code == 200, answer.text
    found = answer.json()
    return [event["id"] for event in (found if isinstance(found, list) else found["items"])]


@pytest.mark.parametrize(
    ("via", "effects"),
    [
        ("any", [SERVED, REPLIED, GOT, NOTED, LATER]),
        ("links", [SERVED, REPLIED, GOT]),
        ("conversation", [SERVED, REPLIED, GOT, NOTED]),
    ],
)
async def test_a_walk_follows_what_it_is_asked_to(
    linked: httpx2.AsyncClient, via: str, effects: list[int]
) -> None:
    answer = await linked.get(f"/itc_db/events/{ASKED}/effects", params={"via": via})
    assert _ids(answer) == effects
    back = {
        end: _ids(await linked.get(f"/itc_db/events/{end}/causes?via={via}"))
        for end in (GOT, NOTED)
    }
    assert back[GOT] == [REPLIED, SERVED, ASKED]
    assert (ASKED in back[NOTED]) is (via != "links")
    if via == "any":
        assert _ids(await linked.get(f"/itc_db/events/{ASKED}/effects")) == effects


async def test_a_way_that_there_is_not_is_refused(linked: httpx2.AsyncClient) -> None:
    answer = await linked.get(f"/itc_db/events/{ASKED}/effects?via=magic")
    assert answer.status_code == 400
    assert "'links'" in answer.json()["reason"]


NAMED = [{"cause": SERVED, "rule": "rpc", "kind": "reply"}]


@pytest.mark.parametrize("query", ["vhost=shop", "vhost=shop&after=0", "vhost=shop&sort=id"])
async def test_a_list_says_what_its_events_name_if_it_is_asked(
    linked: httpx2.AsyncClient, query: str
) -> None:
    plain = (await linked.get(f"/itc_db?{query}")).json()
    assert not any("links" in event for event in plain)
    events = (await linked.get(f"/itc_db?{query}&links=true")).json()
    assert {event["id"]: event["links"] for event in events if event["links"]} == {REPLIED: NAMED}
    assert [{**event, "links": []} for event in plain] == [{**each, "links": []} for each in events]


async def test_a_page_says_it_beside_the_columns_that_are_chosen(
    linked: httpx2.AsyncClient,
) -> None:
    answer = await linked.get("/itc_db?columns=id&links=true&page=1&message_id=m1")
    assert answer.json()["items"] == [{"id": SERVED, "links": []}, {"id": ASKED, "links": []}]
    answer = await linked.get(f"/itc_db?columns=id&links=true&before={GOT}&page_size=1")
    assert answer.json() == [{"id": REPLIED, "links": NAMED}]


async def test_large_events_say_what_they_name_as_well(
    linked: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.store.reading.events.LIGHT", 0)
    monkeypatch.setattr("app.store.reading.events.AT_ONCE", 0)
    stored_events._light_query.cache_clear()
    try:
        found = (await linked.get(f"/itc_db?before={GOT}&page_size=1&links=true")).json()
    finally:
        stored_events._light_query.cache_clear()
    assert [(event["id"], event["payload"], event["links"]) for event in found] == [
        (REPLIED, "a", NAMED)
    ]


async def test_an_event_says_what_it_names_and_what_names_it(linked: httpx2.AsyncClient) -> None:
    replied = (await linked.get(f"/itc_db/events/{REPLIED}")).json()
    served = (await linked.get(f"/itc_db/events/{SERVED}")).json()
    assert replied["links"] == NAMED
    assert replied["named_by"] == {"links": [], "truncated": False}
    assert served["links"] == []
    naming = [{"effect": REPLIED, "rule": "rpc", "kind": "reply"}]
    assert served["named_by"] == {"links": naming, "truncated": False}


async def test_the_live_tail_says_what_events_name_if_it_is_asked(world: World) -> None:
    async with service(world) as client:
        await tell_links(world)
        async with reader(client, after=SERVED, columns="id", links="true") as events:
            assert json.loads((await next_event(events)).data) == {"id": REPLIED, "links": NAMED}
        async with reader(client, after=SERVED, columns="id") as events:
            assert json.loads((await next_event(events)).data) == {"id": REPLIED}


STEPS = [
    {"cause": ASKED, "effect": SERVED, "how": "message", "rule": None, "kind": None},
    {"cause": SERVED, "effect": REPLIED, "how": "link", "rule": "rpc", "kind": "reply"},
    {"cause": REPLIED, "effect": GOT, "how": "message", "rule": None, "kind": None},
]


@pytest.mark.parametrize(
    ("a", "b", "relation", "answer", "sentence", "path"),
    [
        (ASKED, GOT, "before", "caused", "event 9 caused event 12, through 2 events", STEPS),
        (GOT, ASKED, "after", "caused", "event 12 was caused by event 9, through 2 events", STEPS),
        (ASKED, SERVED, "before", "caused", "event 9 caused event 10, directly", STEPS[:1]),
        (SERVED, GOT, "before", "caused", "event 10 caused event 12, through 1 event", STEPS[1:]),
        (
            SERVED,
            LATER,
            "before",
            "may have",
            "event 10 happened before event 14, and may have influenced it",
            None,
        ),
        (
            GOT,
            NOTED,
            "concurrent",
            "cannot have",
            "events 12 and 13 are concurrent: neither can have influenced the other",
            None,
        ),
        (GOT, GOT, "equal", "cannot have", "event 12 is event 12", None),
    ],
)
async def test_a_comparison_says_what_caused_what_and_what_may_have(
    linked: httpx2.AsyncClient,
    a: int,
    b: int,
    relation: str,
    answer: str,
    sentence: str,
    path: list[dict[str, object]] | None,
) -> None:
    said = (await linked.get(f"/itc_db/compare/{a}/{b}")).json()
    assert (said["relation"], said["answer"]) == (relation, answer)
    assert said["sentence"] == sentence
    assert said["path"] == path


async def test_where_messages_may_be_missing_it_is_unknown_but_a_cause_stays_one(
    linked: httpx2.AsyncClient, world: World
) -> None:
    trace = await world.store.traces.find("shop")
    assert trace is not None
    await world.store.gaps.open(trace.id, after_event_id=ASKED, since=5, reason="tracing was off")
    apart = (await linked.get(f"/itc_db/compare/{GOT}/{NOTED}")).json()
    caused = (await linked.get(f"/itc_db/compare/{ASKED}/{GOT}")).json()
    assert (apart["complete"], apart["answer"]) == (False, "unknown")
    assert (caused["complete"], caused["answer"]) == (False, "caused")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("message_id=m1", [ASKED, SERVED]),
        ("message_id=m1&type=received", [SERVED]),
        ("correlation_id=m1", [REPLIED, GOT]),
        ("conversation=t1", [ASKED, SERVED, NOTED]),
        ("conversation=t1&header.tenant=a", [ASKED, SERVED]),
        ("header.tenant=a&header.n=5", [ASKED, SERVED]),
        ("header.tenant=b", []),
        ("message_id=m1&vhost=%2F", []),
    ],
)
async def test_events_are_found_by_what_their_messages_are_called(
    linked: httpx2.AsyncClient, query: str, found: list[int]
) -> None:
    assert _ids(await linked.get(f"/itc_db?{query}")) == found[::-1]
    assert _ids(await linked.get(f"/itc_db?{query}&after=0&wait=0")) == found
    page = (await linked.get(f"/itc_db?{query}&page=1&page_size=1")).json()
    assert page["filtered_count"] == len(found)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("mesage_id=m1", "mesage_id: no such parameter"),
        ("headers.tenant=a", "headers.tenant: no such parameter"),
        ("header=a", "header: no such parameter"),
        ("header.=a", "header.: expected the name of a header"),
        ("header.a=%00", "the query holds a NUL"),
        ("header.a=" + "a" * 5_000, "header.a: expected at most 4096 characters"),
        ("header.a=1&header.a=2", "more than once in the query: header.a"),
    ],
)
async def test_a_filter_that_there_is_not_is_refused(
    linked: httpx2.AsyncClient, query: str, said: str
) -> None:
    answer = await linked.get(f"/itc_db?{query}")
    assert answer.status_code == 400
    assert answer.json()["reason"].startswith(said)


async def test_long_polling_waits_for_a_message_of_that_name(
    client: httpx2.AsyncClient, world: World
) -> None:
    query = {"after": ASKED - 1, "wait": 30, "message_id": "m1"}
    waiting = asyncio.create_task(client.get("/itc_db", params=query))
    await until(lambda: len(world.traces.feed.waiting) > 0)
    await tell_links(world)
    assert _ids(await waiting) == [ASKED, SERVED]


async def test_the_command_line_finds_and_compares(run: Command, world: World) -> None:  # noqa: F811
    await tell_links(world)
    found = {
        words: [one["id"] for one in (await run("events", "--json", *words)).json["items"]]
        for words in (
            ("--message-id", "m1"),
            ("--correlation-id", "m1"),
            ("--conversation", "t1"),
            ("--header", "tenant=a", "--header", "n=5"),
            ("--header", "tenant=b"),
        )
    }
    assert [*found.values()] == [
        [ASKED, SERVED],
        [REPLIED, GOT],
        [ASKED, SERVED, NOTED],
        [ASKED, SERVED],
        [],
    ]
    compared = await run("compare", ASKED, GOT)
    assert compared.code == 0
    assert compared.out.splitlines() == [
        "event 9 caused event 12, through 2 events",
        "  9 -> 10  received",
        "  10 -> 11  reply, named by rpc",
        "  11 -> 12  received",
    ]
    for words in (
        ("--header", "tenant"),
        ("--header", "=a"),
        ("--header", "a=1", "--header", "a=2"),
    ):
        refused = await run("events", *words)
        assert refused.code == 2
        assert "--header" in refused.err
