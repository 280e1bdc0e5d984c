"""Conversations: what an order led to, and lists of them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest

from app.api.certainty import ListCertainty
from app.api.crossings import Crossings
from app.api.routes.conversations import WithExpectations
from app.stored.conversations import ConversationPage, FoundConversation
from model.conversations.conversation import Conversation
from model.sound import Certainty
from tests.api.conftest import World, connected
from tests.api.described import conforms
from tests.api.story import ALONE, AUDITED, BILLED, BINARY, INVOICED, ORDERED, STRAY
from tests.api.test_cli import Command, run, url  # noqa: F401  fixtures
from tests.api.test_links import ASKED, GOT, NOTED, REPLIED, SERVED, tell_links

PATH = "/itc_db/conversations"
OPEN = (
    "billing@10.0.0.2 #2 has published since, perhaps for it: to know, have messages carry their"
    " cause's id or a key"
)


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx2.AsyncClient]:
    async with connected(world.app(), auth=("admin", "secret")) as connection:
        await tell_links(world)
        yield connection


async def conversation(client: httpx2.AsyncClient, event: int, query: str = "") -> dict:  # type: ignore[type-arg]
    answer = await client.get(f"{PATH}/{event}{query}")
    assert answer.status_code == 200, answer.text
    shapes = FoundConversation, Conversation, Certainty, Crossings, WithExpectations
    conforms(answer.json(), shapes)
    return dict(answer.json())


@pytest.mark.parametrize("event", [ASKED, SERVED, REPLIED, GOT])
async def test_every_event_of_a_conversation_has_the_same(
    client: httpx2.AsyncClient, event: int
) -> None:
    answer = await conversation(client, event)
    assert (answer["event"], answer["root"], answer["other_roots"]) == (event, ASKED, [])
    assert [each["event"] for each in answer["messages"]] == [ASKED, REPLIED]
    reply = answer["messages"][1]
    assert (reply["cause"], reply["causes"]) == (SERVED, [SERVED])
    assert reply["how"] == {"rule": "rpc", "kind": "reply"}
    assert answer["critical_path"] == [ASKED, SERVED, REPLIED, GOT]
    assert answer["counts"] == {
        "messages": 2,
        "deliveries": 2,
        "redeliveries": 0,
        "deaths": 0,
        "waiting": 0,
        "participants": 2,
    }
    assert (answer["outcome"], answer["complete"], answer["sound"]) == ("open", True, True)
    assert answer["sentence"] == f"rpc led to 1 more message in under 1 ms. {OPEN}"
    assert [each["coverage"] for each in answer["participants"]] == [None, 0.0]
    [copy] = answer["messages"][0]["copies"]
    [delivery] = copy["deliveries"]
    assert (copy["queue"], copy["state"], copy["remark"]) == ("rpc", "handed_over", None)
    assert (delivery["event"], delivery["leads_to"]) == (SERVED, [REPLIED])
    assert (delivery["handled"], delivery["handled_until"]) == (1e-06, "published")
    assert (delivery["queued"], delivery["offset"], delivery["critical"]) == (1e-06, 1e-06, True)
    assert answer["amplification"] == {"most": 1, "event": ASKED}


async def test_keys_lead_further_and_influence_further_still(client: httpx2.AsyncClient) -> None:
    by_keys = await conversation(client, ASKED, "?via=conversation")
    assert [each["event"] for each in by_keys["messages"]] == [ASKED, REPLIED, NOTED]
    assert by_keys["messages"][2]["outcome"] == "failed"
    assert by_keys["messages"][2]["failure"]["kind"] == "unroutable"
    influenced = await conversation(client, ASKED, "?via=any")
    assert [each["event"] for each in influenced["messages"]] == [ASKED, REPLIED, NOTED, NOTED + 1]
    assert influenced["messages"][2]["how"] == {"rule": None, "kind": "any"}


async def test_what_waits_and_what_nobody_published_is_said(client: httpx2.AsyncClient) -> None:
    order = await conversation(client, AUDITED)
    [message] = order["messages"]
    assert (order["root"], message["type"]) == (ORDERED, "orders/order.new")
    assert [each["deliveries"][0]["event"] for each in message["copies"]] == [BILLED, AUDITED]
    invoice = await conversation(client, INVOICED)
    assert (invoice["outcome"], invoice["counts"]["waiting"]) == ("waiting", 1)
    [copy] = invoice["messages"][0]["copies"]
    assert copy["other_fate"] == "was dropped, or expired by its queue's own time"
    assert copy["remark"] == f"not handed over: it waits, or {copy['other_fate']}"
    assert copy["waits_since"] is not None
    stray = await conversation(client, STRAY)
    [unseen] = stray["messages"]
    assert (unseen["unseen"], unseen["participant"], unseen["event"]) == (True, None, STRAY)
    assert (await conversation(client, ALONE))["messages"][0]["failure"]["kind"] == "unroutable"


async def test_pages_hold_each_message_once(client: httpx2.AsyncClient) -> None:
    whole = await conversation(client, ASKED)
    first = await conversation(client, ASKED, "?limit=2")
    assert (first["truncated"], first["next"]) == (True, SERVED)
    assert "at least" in first["sentence"] or "more than is shown" in first["sentence"]
    second = await conversation(client, ASKED, f"?limit=2&after={first['next']}")
    assert (second["truncated"], second["next"]) == (False, None)
    events = [each["event"] for each in first["messages"] + second["messages"]]
    assert events == [each["event"] for each in whole["messages"]]
    assert second["messages"][0]["offset"] == whole["messages"][1]["offset"]


async def listed(client: httpx2.AsyncClient, query: str) -> dict:  # type: ignore[type-arg]
    answer = await client.get(f"{PATH}?{query}")
    assert answer.status_code == 200, answer.text
    conforms(answer.json(), (ConversationPage, ListCertainty))
    return dict(answer.json())


def _roots(answer: dict) -> list[int]:  # type: ignore[type-arg]
    return [each["root"] for each in answer["items"]]


async def test_a_list_has_the_newest_roots_first_and_goes_on(client: httpx2.AsyncClient) -> None:
    answer = await listed(client, "vhost=%2F")
    assert _roots(answer) == [BINARY, ALONE, INVOICED, ORDERED]
    assert (answer["truncated"], answer["next"], answer["looked_at"]) == (False, None, 4)
    first = await listed(client, "vhost=%2F&limit=3")
    assert (_roots(first), first["truncated"]) == ([BINARY, ALONE, INVOICED], True)
    rest = await listed(client, f"vhost=%2F&limit=3&before={first['next']}")
    assert (_roots(rest), rest["truncated"]) == ([ORDERED], False)
    assert _roots(await listed(client, "vhost=shop")) == [NOTED + 1, NOTED, ASKED]
    by_keys = await listed(client, "vhost=shop&via=conversation")
    assert _roots(by_keys) == [NOTED + 1, ASKED]
    assert by_keys["items"][1]["counts"]["messages"] == 3


async def test_a_list_says_who_sent_each_first_message_where_and_why_the_state_is_so(
    client: httpx2.AsyncClient,
) -> None:
    all_of_them = (await listed(client, "vhost=%2F"))["items"]
    items = {each["root"]: each["first"] for each in all_of_them}
    for each in all_of_them:
        assert each["reason"] == (await conversation(client, each["root"]))["reason"]
    order, nowhere = items[ORDERED], items[ALONE]
    assert (order["exchange"], order["routing_key"]) == ("orders", "order.new")
    assert order["queues"] == ["billing", "audit"]
    assert order["publisher"] == (await conversation(client, ORDERED))["participants"][0]["name"]
    assert nowhere["queues"] == []


@pytest.mark.parametrize(
    ("query", "roots"),
    [
        ("outcome=waiting", [INVOICED]),
        ("outcome=open", [ORDERED]),
        ("outcome=done", []),
        ("state=in_work", []),
        ("outcome=open&state=unknown", [ORDERED]),
        ("state=waiting", [INVOICED]),
        ("type=orders/invoice", [INVOICED]),
        ("min_seconds=2", [ORDERED]),
        ("max_seconds=1", [BINARY, ALONE, INVOICED]),
        ("participant_name=nobody", []),
        ("participant_name=bill", []),
        ("participant_name=billing", [INVOICED, ORDERED]),
        ("q=order.new", [ORDERED]),
        ("since=2026-01-02T03:04:08Z", [BINARY, ALONE]),
        ("until=2026-01-02T03:04:08Z", [INVOICED, ORDERED]),
    ],
)
async def test_a_list_is_of_those_that_are_asked_for(
    client: httpx2.AsyncClient, query: str, roots: list[int]
) -> None:
    assert _roots(await listed(client, f"vhost=%2F&{query}")) == roots


@pytest.mark.parametrize("query", ["", "&state=failed", "&participant_name=billing"])
async def test_a_list_counts_states_of_what_fits_but_for_the_state(
    client: httpx2.AsyncClient, query: str
) -> None:
    answer = await listed(client, f"vhost=%2F{query}")
    filters = query.replace("&state=failed", "")
    fitting = (await listed(client, f"vhost=%2F{filters}"))["items"]
    assert {each["state"] for each in answer["states"]} == {each["state"] for each in fitting}
    for counted in answer["states"]:
        matches = [each for each in fitting if each["state"] == counted["state"]]
        times = [each["position"]["since"] for each in matches if each["position"]]
        assert (counted["number"], counted["since"]) == (len(matches), min(times, default=None))


async def test_an_order_is_in_the_queue_where_its_oldest_copy_waits(
    client: httpx2.AsyncClient,
) -> None:
    answer = await conversation(client, INVOICED)
    waits = [
        (message["at"], copy["queue"], message["type"])
        for message in answer["messages"]
        for copy in message["copies"]
        if copy["state"] == "waiting"
    ]
    since, queue, kind = min(waits)
    assert answer["state"] == "waiting"
    assert answer["position"] == {
        "queue": queue,
        "holder": None,
        "since": since,
        "returns": 0,
        "type": kind,
    }


@pytest.mark.parametrize("query", ["message_id=m1", "correlation_id=m1", "header.tenant=a"])
async def test_what_a_message_is_called_finds_its_conversation(
    client: httpx2.AsyncClient, query: str
) -> None:
    assert _roots(await listed(client, query)) == [ASKED]


async def test_what_may_not_be_seen_is_not_there(world: World) -> None:
    world.broker.add("guest", "secret", "monitoring", "shop")
    async with connected(world.app(), auth=("guest", "secret")) as client:
        await tell_links(world)
        assert (await client.get(f"{PATH}/{ORDERED}")).status_code == 404
        assert (await client.get(f"{PATH}/999")).status_code == 404
        assert _roots(await listed(client, "limit=200"))[-1] == ASKED


@pytest.mark.parametrize("query", ["via=magic", "limit=0", "limit=5001", "nothing=1"])
async def test_what_cannot_be_asked_is_refused(client: httpx2.AsyncClient, query: str) -> None:
    assert (await client.get(f"{PATH}/{ASKED}?{query}")).status_code == 400
    if query != "limit=5001":
        assert (await client.get(f"{PATH}?{query}")).status_code == 400


async def test_the_command_line_tells_a_conversation_as_a_tree(world: World, run: Command) -> None:  # noqa: F811
    await tell_links(world)
    done = await run("conversation", GOT)
    assert done.code == 0, done.err
    first, state, *lines = done.out.splitlines()
    assert first == f"rpc led to 1 more message in under 1 ms. {OPEN}"
    assert state == "unknown"
    assert [line.rpartition("(")[2] for line in lines] == [
        f"{event})" for event in (ASKED, SERVED, REPLIED, GOT)
    ]
    assert all(len(line) <= 80 and line[10] == "*" for line in lines)
    assert "0 ms waiting, 0 ms handling" in lines[1]
    assert (await run("conversation", GOT, "--json")).json["root"] == ASKED
    waiting = await run("conversation", INVOICED)
    assert "mail: not handed over: it waits" in waiting.out
    assert (await run("conversation", "999")).code == 4


async def test_the_command_line_lists_conversations(world: World, run: Command) -> None:  # noqa: F811
    await tell_links(world)
    for option in ("--outcome", "--state"):
        table = await run("conversations", "/", option, "waiting")
        assert table.code == 0, table.err
        assert [line.split()[0] for line in table.out.splitlines()] == ["ROOT", str(INVOICED)]
    few = await run("conversations", "/", "-n", "2", "--json")
    assert (len(few.json["items"]), few.json["truncated"]) == (2, True)
    assert "there may be more" in few.err
    named = await run("conversations", "shop", "--header", "tenant=a", "--participant", "1")
    assert [line.split()[0] for line in named.out.splitlines()] == ["ROOT", str(ASKED)]
