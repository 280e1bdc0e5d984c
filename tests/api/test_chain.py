"""The chain at once, and what events touched, over HTTP."""

from __future__ import annotations

import httpx2
import pytest

from app.api.events import ChainEnds, Related, TouchedEvents
from app.stored.causality import ChainPart, Touched
from model.sound import Certainty
from tests.api.conftest import World, connected
from tests.api.described import described
from tests.api.story import (
    ALONE,
    AUDIT,
    AUDITED,
    BILLED,
    BILLING,
    BINARY,
    INVOICED,
    ORDERED,
    SHOP,
    STRAY,
    UNSOUND,
    deliver,
    publish,
)

SECRET = 8


def ids(answer: httpx2.Response, name: str = "events") -> list[int]:
    return [each["id"] for each in answer.json()[name]]


async def test_a_chain_comes_at_once_for_every_reader(world: World) -> None:
    async with connected(world.app(), auth=("watcher", "secret")) as client:
        answer = await client.get(f"/itc_db/chain/{ORDERED}/{INVOICED}")
        back = await client.get(f"/itc_db/chain/{INVOICED}/{ORDERED}")
        compared = (await client.get(f"/itc_db/compare/{ORDERED}/{INVOICED}")).json()
    chain = described(answer, (ChainEnds, ChainPart, Related, Certainty))
    assert ids(answer) == ids(back) == [ORDERED, BILLED, INVOICED]
    assert (answer.json()["from"], chain.to, chain.start, chain.end) == (
        ORDERED,
        INVOICED,
        ORDERED,
        INVOICED,
    )
    assert (back.json()["from"], back.json()["start"]) == (INVOICED, ORDERED)
    assert (chain.relation, back.json()["relation"]) == ("before", "after")
    assert (chain.count, chain.participants, chain.truncated, chain.next) == (3, 2, False, None)
    assert [(step.cause, step.effect, step.how) for step in chain.steps] == [
        (ORDERED, BILLED, "message")
    ]
    said = ("relation", "sentence", "answer", "path", "complete", "sound", "doubts", "quiet")
    assert {name: answer.json()[name] for name in said} == {name: compared[name] for name in said}
    assert world.spark.runs == 0


async def test_a_chain_comes_by_pages_and_columns(client: httpx2.AsyncClient) -> None:
    url = f"/itc_db/chain/{ORDERED}/{INVOICED}"
    first = await client.get(url, params={"limit": 2, "columns": "id,type"})
    assert first.json()["events"] == [
        {"id": ORDERED, "type": "published"},
        {"id": BILLED, "type": "received"},
    ]
    assert (first.json()["truncated"], first.json()["next"], first.json()["count"]) == (
        True,
        BILLED,
        3,
    )
    rest = await client.get(url, params={"limit": 2, "after": BILLED})
    assert (ids(rest), rest.json()["truncated"], rest.json()["next"]) == ([INVOICED], False, None)


@pytest.mark.parametrize("via", ["any", "links", "conversation"])
async def test_concurrent_events_have_no_chain(client: httpx2.AsyncClient, via: str) -> None:
    answer = await client.get(f"/itc_db/chain/{INVOICED}/{ALONE}", params={"via": via})
    chain = described(answer, (ChainEnds, ChainPart, Related, Certainty))
    assert (answer.status_code, chain.relation, chain.events) == (200, "concurrent", [])
    assert (chain.count, chain.participants, chain.answer) == (0, 0, "cannot have")


async def test_what_no_message_says_is_no_chain_along_links(client: httpx2.AsyncClient) -> None:
    url = f"/itc_db/chain/{ORDERED}/{INVOICED}"
    answer = (await client.get(url, params={"via": "links"})).json()
    assert (answer["relation"], answer["answer"], answer["count"]) == ("before", "may have", 0)


@pytest.mark.parametrize(
    ("url", "status", "reason"),
    [
        ("/itc_db/chain/1/1", 400, "a chain needs two events"),
        (f"/itc_db/chain/1/{SECRET}", 404, f"no event has the id {SECRET}"),
        ("/itc_db/chain/1/99", 404, "no event has the id 99"),
        ("/itc_db/chain/1/2?limit=0", 400, "limit"),
        ("/itc_db/chain/1/2?nonsense=0", 400, "nonsense"),
        ("/itc_db/touched", 400, "events"),
        ("/itc_db/touched?events=", 400, "events"),
        ("/itc_db/touched?events=1,x", 400, "events"),
        (f"/itc_db/touched?events=1,{SECRET}", 404, f"no event has the id {SECRET}"),
        ("/itc_db/touched?events=99", 404, "no event has the id 99"),
        ("/itc_db/touched?events=1&verdict=perhaps", 400, "verdict"),
        (f"/itc_db/touched?events={','.join(['1'] * 101)}", 400, "events"),
    ],
)
async def test_what_cannot_be_asked_is_refused(
    client: httpx2.AsyncClient, url: str, status: int, reason: str
) -> None:
    answer = await client.get(url)
    assert answer.status_code == status
    assert reason in answer.json()["reason"]


async def test_what_an_event_touched_is_counted_and_listed(
    world: World, client: httpx2.AsyncClient
) -> None:
    answer = await client.get("/itc_db/touched", params={"events": ORDERED})
    found = described(answer, (TouchedEvents, Touched, Certainty))
    assert (found.events, found.vhost, found.as_of) == ([ORDERED], "/", STRAY)
    assert (found.since, found.caused, found.may_have, found.cannot_have) == (6, 2, 3, 1)
    assert (found.items, found.truncated, found.next) == (None, False, None)
    assert found.sentence == (
        "of 6 events since, 2 were caused by it, 3 more may have been, 1 cannot have been"
    )
    listed = {
        verdict: ids(await client.get(f"/itc_db/touched?events=1&verdict={verdict}"), "items")
        for verdict in ("caused", "may_have", "cannot_have")
    }
    assert listed == {
        "caused": [BILLED, AUDITED],
        "may_have": [INVOICED, BINARY, STRAY],
        "cannot_have": [ALONE],
    }
    for verdict, events in listed.items():
        for event in events:
            said = (await client.get(f"/itc_db/compare/{ORDERED}/{event}")).json()["answer"]
            assert said.replace(" ", "_") == verdict
    page = await client.get("/itc_db/touched?events=1&verdict=may_have&limit=2&columns=id")
    assert (page.json()["items"], page.json()["next"]) == ([{"id": INVOICED}, {"id": BINARY}], 6)
    rest = await client.get("/itc_db/touched?events=1&verdict=may_have&limit=2&after=6")
    assert (ids(rest, "items"), rest.json()["truncated"]) == ([STRAY], False)


async def test_several_events_touched_what_any_of_them_did(client: httpx2.AsyncClient) -> None:
    answer = (await client.get(f"/itc_db/touched?events={BILLED},{ALONE},{BILLED}")).json()
    assert answer["events"] == [BILLED, ALONE]
    assert (answer["since"], answer["caused"]) == (4, 0)
    assert (answer["may_have"], answer["cannot_have"]) == (3, 1)
    assert "caused by them" in answer["sentence"]


async def test_nothing_is_said_to_be_impossible_across_a_gap_or_in_doubt(
    world: World, client: httpx2.AsyncClient
) -> None:
    trace = await world.store.traces.find("/")
    assert trace is not None
    await world.store.gaps.open(trace.id, after_event_id=5, since=0, reason="lost")
    await world.tell(*UNSOUND)
    answer = (await client.get("/itc_db/touched", params={"events": ORDERED})).json()
    assert (answer["complete"], answer["sound"]) == (False, False)
    assert answer["sentence"].startswith("as far as is known, of ")
    assert "cannot" not in answer["sentence"]
    assert answer["sentence"].endswith(
        "but messages may be missing and some participants may be parts of one program"
    )


async def test_it_is_looked_at_up_to_where_a_gap_begins(
    world: World, client: httpx2.AsyncClient
) -> None:
    await world.store.gaps.open(1, after_event_id=5, since=0, reason="lost")
    asked = {"events": ORDERED, "until": "gap"}
    answer = (await client.get("/itc_db/touched", params=asked)).json()
    assert (answer["as_of"], answer["complete"]) == (5, True)
    assert [each["name"] for each in answer["queues"]] == ["billing", "audit"]
    now = (await client.get("/itc_db/touched?events=1&until=minute")).json()
    assert (now["as_of"], now["complete"]) == (STRAY, False)
    inside = (await client.get("/itc_db/touched?events=6&until=gap")).json()
    assert (inside["as_of"], inside["since"], inside["complete"]) == (6, 0, False)


async def test_what_comes_later_counts(world: World, client: httpx2.AsyncClient) -> None:
    before = (await client.get("/itc_db/touched?events=1")).json()
    await world.tell(publish(SHOP, "more", "mail"), deliver(SHOP, "more", "mail"))
    after = (await client.get("/itc_db/touched?events=1")).json()
    assert (after["since"], after["may_have"]) == (before["since"] + 2, before["may_have"] + 2)
    assert after["as_of"] > before["as_of"]


LATER = publish(AUDIT, "tick", body=b"later")


async def test_what_came_after_a_delivery_of_a_publish_that_was_not_seen_is_unknown(
    world: World, client: httpx2.AsyncClient
) -> None:
    [later] = await world.tell(LATER)
    # Its queue had handed over what was published before, so it is not from before the trace.
    assert (await client.get(f"/itc_db/events/{STRAY}")).json()["doubtful"] is True
    why = (
        "events {} and {} are concurrent as far as is known, but a path may be unrecorded."
        f" The publish of delivery {STRAY} from queue 'audit' was not seen"
    )
    for event in (STRAY, later):
        for url in ("compare", "chain"):
            for a, b in ((BINARY, event), (event, BINARY)):
                said = (await client.get(f"/itc_db/{url}/{a}/{b}")).json()
                assert (said["relation"], said["answer"]) == ("concurrent", "unknown")
                assert (said["complete"], said["sound"]) == (True, True)
                assert said["sentence"] == why.format(a, b)
    exported = await client.put(f"/itc_db/undefined/{BINARY}/{later}/chain.jsonl")
    assert (exported.json()["answer"], exported.json()["sentence"]) == (
        "unknown",
        why.format(BINARY, later),
    )
    # Nothing doubtful is in the past of these, or only what is older.
    for a, b in ((INVOICED, ALONE), (INVOICED, AUDITED), (STRAY, later), (later, ORDERED)):
        assert (await client.get(f"/itc_db/compare/{a}/{b}")).json()["answer"] != "unknown"
    answer = await client.get("/itc_db/touched", params={"events": BINARY, "verdict": "unknown"})
    found = described(answer, (TouchedEvents, Touched, Certainty))
    assert (found.since, found.unknown, found.cannot_have) == (2, 2, 0)
    assert found.sentence == (
        "of 2 events since, 0 were caused by it, 0 more may have been, 0 cannot have been, and for"
        " 2 it is unknown, because the publish of a delivery in their past was not seen"
    )
    assert ids(answer, "items") == [STRAY, later]


async def test_a_delivery_that_may_be_of_several_publishes_is_one_of_equal_messages(
    world: World, client: httpx2.AsyncClient
) -> None:
    one, other, handed = await world.tell(
        publish(SHOP, "equal", "equals"),
        publish(BILLING, "equal", "equals"),
        deliver(AUDIT, "equal", "equals"),
    )
    assert (await client.get(f"/itc_db/events/{handed}")).json()["candidates"] == 2
    for publisher in (one, other):
        for url in ("compare", "chain"):
            said = (await client.get(f"/itc_db/{url}/{publisher}/{handed}")).json()
            assert said["answer"] == "may have"
            assert said["sentence"] == (
                f"event {publisher} happened before event {handed}, and may have influenced it."
                f" Event {handed} is a delivery of one of 2 equal messages"
            )


async def test_what_cannot_have_led_anywhere_says_that_its_copy_is_gone(
    world: World, client: httpx2.AsyncClient
) -> None:
    [lost] = await world.tell(publish(SHOP, "lost", "lost"))
    await world.tellers["/"].lose("queue_deleted")
    [later] = await world.tell(publish(AUDIT, "later", "later"))
    for a, b in ((lost, later), (later, lost)):
        said = (await client.get(f"/itc_db/compare/{a}/{b}")).json()
        assert said["answer"] == "cannot have"
        assert (
            f"; the copy of event {lost} in lost was deleted with its queue by "
            in (said["sentence"])
        )
