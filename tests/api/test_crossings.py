"""What a shovel or a federation link takes to another virtual host, from either side."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from app.api.whereabouts import Whereabouts
from app.broker.management import QueueInfo
from app.tracker import Channel, Deliver, Publish
from model.event import NOTHING_LARGE
from model.sound import Certainty
from tests.api.conftest import World
from tests.api.described import described
from tests.api.story import BILLING, SHOP, Teller

UP, DOWN = "/", "shop"
LINK = "Federation link (upstream: dc2, policy: all)"
TAKING = Channel("rabbit@one", "10.0.0.7:9 -> 10.0.0.9:5672", 1, "guest")
PUTTING = Channel("rabbit@two", "<rabbit@two.1.2.3>", 1, "none")
ID = {"message_id": "m1"}
PERIOD = {"since": "2026-01-01", "until": "2026-01-03"}  # when tellers tell
FROM_QUEUE = {"x-received-from": [{"uri": "amqp://one/%2F", "queue": "jobs"}]}


def crossing(
    properties: dict[str, Any],
    body: bytes = b"m",
    queue: str = "jobs",
    headers: dict[str, Any] | None = None,
) -> tuple[list[Any], list[Any]]:
    """What is traced of one message upstream, and downstream."""
    headers = FROM_QUEUE if headers is None else headers
    moved = {**properties, "headers": headers}
    return [
        Publish(SHOP, "", (queue,), (queue,), properties, body),
        Deliver(TAKING, "", (queue,), queue, False, properties, body),
    ], [
        Publish(PUTTING, "", (queue,), (queue,), moved, body),
        Deliver(BILLING, "", (queue,), queue, False, moved, body),
    ]


async def tell(
    world: World, properties: dict[str, Any] | None = None, name: str = LINK, **message: Any
) -> list[int]:
    """Tell of a message that crosses; the ids are those of its publish, and so on to its end."""
    upstream, downstream = crossing(ID if properties is None else properties, **message)
    world.tellers.setdefault(DOWN, Teller(world.store, DOWN))
    for vhost, channel in ((UP, TAKING), (DOWN, PUTTING)):
        world.tellers[vhost].introduce(channel, name)
    return await world.tell(*upstream, vhost=UP) + await world.tell(*downstream, vhost=DOWN)


async def get(client: httpx2.AsyncClient, path: str) -> dict[str, Any]:
    answer = await client.get(f"/itc_db/{path}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.parametrize("name", [LINK, "Shovel dc2"])
async def test_each_side_names_its_event_on_the_other(
    world: World, client: httpx2.AsyncClient, name: str
) -> None:
    headers = {} if name.startswith("Shovel") else FROM_QUEUE
    sent, left, came, handed = await tell(world, name=name, headers=headers)
    mover = "shovel dc2" if not headers else "federation link dc2"
    for event, other, vhost, verb in ((left, came, DOWN, "left"), (came, left, UP, "came")):
        there = (await get(client, f"events/{event}"))["crossing"]
        at = (await get(client, f"events/{other}"))["recorded_at"]
        assert there["elsewhere"] == [{"event": other, "vhost": vhost, "at": at}]
        assert (there["mover"], there["certain"]) == (mover, True)
        assert there["sentence"] == (
            f"event {event} {verb} by {mover}: on its other side it is event {other} in {vhost!r}"
        )
    for event in (sent, handed):
        assert (await get(client, f"events/{event}"))["crossing"] is None


async def test_a_conversation_that_left_is_not_done_and_leads_across(
    world: World, client: httpx2.AsyncClient
) -> None:
    sent, left, came, _ = await tell(world)
    upstream = await get(client, f"conversations/{sent}")
    assert upstream["outcome"] == "unknown"
    assert upstream["sentence"].endswith(". 1 left by federation link dc2")
    assert [each["event"] for each in upstream["crossings"]] == [left]
    downstream = await get(client, f"conversations/{came}")
    assert [each["elsewhere"][0]["event"] for each in downstream["crossings"]] == [left]
    fate = await get(client, f"events/{sent}/deliveries")
    assert fate["sentence"] == "handed over for 1 of 1 queue; left by federation link dc2"


async def test_two_sides_are_compared_through_the_link(
    world: World, client: httpx2.AsyncClient
) -> None:
    sent, left, came, handed = await tell(world)
    caused = await get(client, f"compare/{sent}/{handed}")
    assert (caused["answer"], caused["relation"]) == ("caused", "before")
    assert caused["sentence"] == (
        f"event {sent} caused event {handed}, through federation link dc2"
    )
    ways = [(step["cause"], step["effect"]) for step in caused["path"]]
    assert ways == [(sent, left), (left, came), (came, handed)]
    assert (await get(client, f"compare/{came}/{left}"))["relation"] == "after"
    [after] = await world.tell(Publish(BILLING, "", ("out",), (), {}, b"after"), vhost=DOWN)
    possible = await get(client, f"compare/{sent}/{after}")
    assert (possible["answer"], possible["path"]) == ("may have", None)


async def test_exported_spans_lead_to_the_other_side_where_that_is_clear(
    world: World, client: httpx2.AsyncClient
) -> None:
    _, left, came, _ = await tell(world)
    at = (await world.store.events.get(left, NOTHING_LARGE)).recorded_at
    for _ in range(2):  # of two equal messages without an id none is clear
        await tell(world, {}, body=b"equal")
    for vhost, arrivals in ((DOWN, {str(came): (UP, left, at)}), ("%2F", {})):
        for name in ("day.otlp.json", "day.ocel.json"):
            answer = await client.put(f"/itc_db/periods/{vhost}/{name}", params=PERIOD)
            assert answer.status_code == 201, answer.text
            expected = arrivals if "otlp" in name else {}
            assert world.spark.works[-1]["arrivals"] == expected


async def test_without_a_link_two_virtual_hosts_are_not_compared(
    world: World, client: httpx2.AsyncClient
) -> None:
    _, _, _, handed = await tell(world)
    [other] = await world.tell(Publish(SHOP, "", ("jobs",), (), {}, b"other"), vhost=UP)
    answer = await client.get(f"/itc_db/compare/{other}/{handed}")
    assert answer.status_code == 400
    assert "no shovel or federation link is known" in answer.json()["reason"]


async def test_of_equal_messages_without_an_id_none_is_said_to_be_the_one(
    world: World, client: httpx2.AsyncClient
) -> None:
    sent, left, came, handed = await tell(world, {})
    assert (await get(client, f"events/{left}"))["crossing"]["certain"]
    await tell(world, {})
    there = (await get(client, f"events/{left}"))["crossing"]
    assert (there["certain"], len(there["elsewhere"]), there["elsewhere"][0]["event"]) == (
        *(False, 2),
        came,
    )
    assert "may be event" in there["sentence"]
    assert (await get(client, f"compare/{sent}/{handed}"))["answer"] == "may have"


async def test_it_is_where_its_other_side_is(world: World, client: httpx2.AsyncClient) -> None:
    for vhost in (UP, DOWN):
        await client.put(f"/itc_db/{vhost.replace('/', '%2F')}/undefined/undefined/undefined")
    await tell(world)
    answer = await client.get("/itc_db/where", params={"id": "m1", "vhost": UP})
    found = described(answer, (Whereabouts, Certainty))
    assert (found.word, len(found.messages)) == ("handed_over", 1)
    assert "left jobs by federation link dc2: in 'shop', event" in found.sentence


async def test_what_is_not_traced_on_the_other_side_is_not_known(
    world: World, client: httpx2.AsyncClient
) -> None:
    upstream, _ = crossing(ID)
    world.tellers[UP].introduce(TAKING, LINK)
    await client.put("/itc_db/%2F/undefined/undefined/undefined")
    sent, left = await world.tell(*upstream)
    there = (await get(client, f"events/{left}"))["crossing"]
    assert (there["elsewhere"], there["certain"]) == ([], False)
    assert there["sentence"].endswith("whose other side is not traced here")
    assert (await get(client, "where?id=m1"))["word"] == "unknown"
    assert (await get(client, f"conversations/{sent}"))["outcome"] == "unknown"


async def test_who_may_not_read_the_other_side_is_not_led_there(
    world: World, client: httpx2.AsyncClient
) -> None:
    _, left, came, _ = await tell(world)
    world.broker.add("upstream", "secret", "monitoring", UP, DOWN, read={UP: ".*"})
    client.auth = httpx2.BasicAuth("upstream", "secret")
    assert (await get(client, f"events/{left}"))["crossing"]["elsewhere"] == []
    assert (await get(client, f"events/{came}"))["crossing"] is None


async def test_what_a_local_shovel_may_have_moved_unseen_is_not_called_dead(
    world: World, client: httpx2.AsyncClient
) -> None:
    await client.put("/itc_db/%2F/undefined/undefined/undefined")
    world.broker.queues[UP, "src"] = QueueInfo("src", messages_ready=0)
    await world.tell(Publish(SHOP, "", ("src",), ("src",), ID, b"moved"), vhost=UP)
    assert (await get(client, "where?id=m1"))["word"] == "died"
    world.broker.shovels = True
    answer = await get(client, "where?id=m1")
    assert answer["word"] == "unknown"
    assert "or moved by a local shovel" in answer["sentence"]
