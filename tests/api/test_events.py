"""Events over HTTP: lists, cursors, clocks, causes, fates, comparisons."""

from __future__ import annotations

from typing import Any

import httpx2
import msgspec
import pytest

from app.api.certainty import ListCertainty
from app.api.crossings import EventCrossing
from app.api.events import EventDetail, EventObject
from app.stored.causality import EventLinks
from itc import Stamp, decode
from model.event import EVENT_FIELDS
from model.payloads import payload_text
from tests.api.conftest import World, connected
from tests.api.described import conforms
from tests.api.story import (
    ALONE,
    AUDIT,
    AUDITED,
    BILLED,
    BILLING,
    BINARY,
    INVOICED,
    ORDERED,
    RUBBISH,
    SHOP,
    STRAY,
    UNSOUND,
    publish,
)

SECRET = 8  # the event of a virtual host that the user may not see


async def ids(client: httpx2.AsyncClient, **parameters: object) -> list[int]:
    answer = await client.get("/itc_db", params={"columns": "id", **parameters})
    assert answer.status_code == 200, answer.text
    return [event["id"] for event in answer.json()]


async def test_the_newest_come_first(client: httpx2.AsyncClient) -> None:
    assert await ids(client) == [7, 6, 5, 4, 3, 2, 1]
    assert await ids(client, page_size=3) == [7, 6, 5]


async def test_an_event_has_every_field_of_the_document(client: httpx2.AsyncClient) -> None:
    events = (await client.get("/itc_db")).json()

    for event in events:
        assert list(event) == [*EVENT_FIELDS]
    billed = events[7 - BILLED]
    assert billed.pop("stamp").startswith("(")
    assert billed == {
        "id": BILLED,
        "vhost": "/",
        "type": "received",
        "match": "routed",
        "cause": ORDERED,
        "candidates": None,
        "doubtful": False,
        "participant": 2,
        "participant_name": "billing@10.0.0.2 #2",
        "seq": 1,
        "lamport": 2,
        "recorded_at": "2026-01-02T03:04:06.000000Z",
        "exchange": "orders",
        "queue": "billing",
        "routing_keys": ["order.new"],
        "routed_queues": None,
        "redelivered": False,
        "quiet": False,
        "settlement": None,
        "settled_at": None,
        "settled_by": None,
        "node": "rabbit@one",
        "connection": "10.0.0.2:1 -> 10.0.0.9:5672",
        "channel": 1,
        "user": "billing",
        "properties": {"delivery_mode": 2, "headers": {}},
        "payload": "größe",
        "payload_encoding": "string",
        "payload_bytes": 7,
        "payload_truncated": False,
        "redactions": None,
    }


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"vhost": "/"}, [7, 6, 5, 4, 3, 2, 1]),
        ({"type": "published"}, [BINARY, ALONE, INVOICED, ORDERED]),
        ({"type": "received", "queue": "audit"}, [STRAY, AUDITED]),
        ({"exchange": "orders", "user": "billing"}, [INVOICED, BILLED]),
        ({"exchange": "order"}, []),
        ({"exchange": "^ord.rs$", "use_regex": True}, [7, 6, 5, 4, 3, 2, 1]),
        ({"connection": BILLING.connection}, [INVOICED, BILLED]),
        ({"channel": 1, "participant": 2}, [INVOICED, BILLED]),
        ({"channel": 2}, []),
        ({"routing_key": "order.new"}, [AUDITED, BILLED, ORDERED]),
        ({"match": "unmatched"}, [STRAY]),
        ({"match": "none", "q": "picture"}, [BINARY]),
        ({"redelivered": True}, []),
        ({"q": "größe"}, [AUDITED, BILLED, ORDERED]),
        ({"since": "2026-01-02T03:04:10Z"}, [STRAY, BINARY]),
        ({"until": "2026-01-02T04:04:06+01:00"}, [ORDERED]),
        ({"until": "2026-01-02T04:04:06 01:00"}, [ORDERED]),
        ({"since": "2026-01-02", "until": "2026-01-03"}, [7, 6, 5, 4, 3, 2, 1]),
        (
            {"since": "0001-01-01T00:00:00Z", "until": "9999-12-31T23:59:59Z", "type": "published"},
            [BINARY, ALONE, INVOICED, ORDERED],
        ),
        ({"since": "2026-01-02T03:04:06", "until": "2026-01-02T03:04:07"}, [BILLED]),
    ],
)
async def test_filters_leave_what_they_name(
    client: httpx2.AsyncClient, parameters: dict[str, Any], expected: list[int]
) -> None:
    assert await ids(client, **parameters) == expected


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"queues": "audit"}, "queues: "),
        ({"type": "sent"}, "type: "),
        ({"match": "lost"}, "match: "),
        ({"page": 0}, "page: "),
        ({"page_size": 0}, "page_size: "),
        ({"after": -1}, "after: "),
        ({"after": 2**63}, "after: "),
        ({"participant": "x"}, "participant: "),
        ({"since": "yesterday"}, "since: "),
        ({"since": "1767323045"}, "since: "),
        ({"columns": "id,nothing"}, "columns.1: "),
        ({"sort": "payload"}, "sort: "),
        ({"payload": "some"}, "payload: "),
        ({"q": "x" * 5_000}, "q: "),
        ({"queue": "(", "use_regex": True}, "the regular expression"),
        ({"after": 1, "page": 1}, "after and before"),
        ({"before": 1, "sort": "id"}, "after and before"),
        ({"wait": 1}, "wait goes with after"),
    ],
)
async def test_invalid_parameters_are_named(
    client: httpx2.AsyncClient, parameters: dict[str, Any], reason: str
) -> None:
    answer = await client.get("/itc_db", params=parameters)

    assert (answer.status_code, answer.json()["error"]) == (400, "bad_request")
    assert answer.json()["reason"].startswith(reason)


@pytest.mark.parametrize(
    "query",
    [
        "columns=" + "a," * 30_000,
        "columns=" + "a" * 60_000,
        "columns=" + "&columns=".join(["a"] * 6_000),
        "&".join(f"a{number}=" for number in range(5_000)),
        "a" * 60_000 + "=1",
        "sort=" + "a" * 60_000,
        "after=" + "1" * 60_000,
        "since=" + "a" * 60_000,
        "use_regex=1&queue=" + "(" * 400,
    ],
)
async def test_an_error_is_never_much_larger_than_a_sentence(
    client: httpx2.AsyncClient, query: str
) -> None:
    answer = await client.get(f"/itc_db?{query}")

    assert answer.status_code == 400
    assert len(answer.content) < 3_000


async def test_a_parameter_that_comes_twice_is_refused(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/itc_db?queue=audit&queue=billing")

    assert answer.status_code == 400
    assert answer.json()["reason"] == "more than once in the query: queue"


async def test_a_page_has_rabbitmqs_envelope(client: httpx2.AsyncClient) -> None:
    first = (
        await client.get("/itc_db", params={"page": 1, "page_size": 3, "type": "published"})
    ).json()
    last = (
        await client.get("/itc_db", params={"page": 2, "page_size": 3, "type": "published"})
    ).json()

    assert [event["id"] for event in first.pop("items")] == [BINARY, ALONE, INVOICED]
    assert [event["id"] for event in last.pop("items")] == [ORDERED]
    certainty = {name: first.pop(name) for name in ("complete", "sound", "period")}
    conforms(certainty, ListCertainty)
    assert first == {
        "total_count": 7,
        "item_count": 3,
        "filtered_count": 4,
        "page": 1,
        "page_size": 3,
        "page_count": 2,
    }
    assert (last["item_count"], last["page"]) == (1, 2)


async def test_a_page_is_sorted_as_asked(client: httpx2.AsyncClient) -> None:
    assert await ids(client, sort="id") == [1, 2, 3, 4, 5, 6, 7]
    assert await ids(client, sort="recorded_at", sort_reverse=True) == [7, 6, 5, 4, 3, 2, 1]
    assert await ids(client, sort="lamport") == [1, 4, 2, 5, 6, 3, 7]


@pytest.mark.parametrize(
    ("path", "query", "reason"),
    [
        ("/itc_db", {"page_size": 501}, "page_size: expected at most 500"),
        ("/itc_db", {"page": 99}, "page: expected at most 1, which is the last"),
        ("/itc_db", {"page": 2, "q": "nowhere"}, "page: expected at most 1, which is the last"),
        ("/itc_db/events/1/effects", {"limit": 1_001}, "limit: expected at most 1000"),
        ("/itc_db/participants", {"vhost": "/", "limit": 1_001}, "limit: expected at most 1000"),
    ],
)
async def test_more_than_there_is_or_may_be_is_refused(
    client: httpx2.AsyncClient, path: str, query: dict[str, Any], reason: str
) -> None:
    answer = await client.get(path, params=query)

    assert (answer.status_code, answer.json()["reason"]) == (400, reason)


@pytest.mark.parametrize("path", ["", "/live", "/failures", "/conversations", "/quarantine"])
async def test_a_virtual_host_that_there_is_not_is_no_empty_list(
    client: httpx2.AsyncClient, path: str
) -> None:
    answer = await client.get(f"/itc_db{path}", params={"vhost": "nowhere"})

    assert (answer.status_code, answer.json()["reason"]) == (404, "no such virtual host")


async def test_cursors_walk_in_both_directions(client: httpx2.AsyncClient) -> None:
    assert await ids(client, after=0, page_size=3) == [1, 2, 3]
    assert await ids(client, after=3, page_size=3) == [4, 5, 6]
    assert await ids(client, after=7) == []
    assert await ids(client, before=4, page_size=2) == [3, 2]
    assert await ids(client, before=1) == []
    assert await ids(client, after=2, before=6) == [3, 4, 5]


async def test_columns_are_chosen(client: httpx2.AsyncClient) -> None:
    by_comma = await client.get("/itc_db", params={"columns": "id,stamp", "page_size": 1})
    repeated = await client.get("/itc_db?columns=id&columns=stamp&page_size=1")

    assert list(by_comma.json()[0]) == ["id", "stamp"]
    assert by_comma.json() == repeated.json()


async def test_payloads_are_left_out_on_request(client: httpx2.AsyncClient) -> None:
    events = (await client.get("/itc_db", params={"payload": "none"})).json()

    assert {event["payload"] for event in events} == {None}
    assert {event["payload_bytes"] for event in events} == {7, 0, 3, 1}


async def test_a_payload_that_is_not_text_comes_in_base64(client: httpx2.AsyncClient) -> None:
    event = (await client.get(f"/itc_db/events/{BINARY}")).json()

    assert (event["payload"], event["payload_encoding"]) == ("//4A", "base64")


@pytest.mark.parametrize(
    ("payload", "cut", "expected"),
    [
        (None, False, (None, "string")),
        (b"", False, ("", "string")),
        ("ü".encode(), False, ("ü", "string")),
        ("aü".encode()[:2], True, ("a", "string")),
        ("a🐇".encode()[:4], True, ("a", "string")),
        ("aü".encode()[:2], False, ("YcM=", "base64")),
        (b"\xff\xff\xff\xff\xff", True, ("//////8=", "base64")),
        (b"\x00\x1b[2J", False, ("\x00\x1b[2J", "string")),
    ],
)
def test_payloads_become_text(
    payload: bytes | None, cut: bool, expected: tuple[str | None, str]
) -> None:
    assert payload_text(payload, cut) == expected


async def test_an_event_shows_its_three_clocks(client: httpx2.AsyncClient) -> None:
    answer = (await client.get(f"/itc_db/events/{AUDITED}")).json()
    conforms(answer, (EventDetail, EventObject, EventLinks, EventCrossing))
    clocks = answer["clocks"]
    tree = lambda node: tuple(map(tree, node)) if isinstance(node, list) else node  # noqa: E731
    stamp = Stamp.from_trees(tree(clocks["itc"]["id"]), tree(clocks["itc"]["event"]))

    assert clocks["lamport"] == answer["lamport"] == 2
    assert [(entry["participant"], entry["events"]) for entry in clocks["vector"]] == [
        (1, 1),
        (3, 2),
    ]
    assert clocks["vector"][0]["name"].startswith("shop@")
    assert clocks["itc"]["text"] == answer["stamp"] == str(stamp)
    assert decode(bytes.fromhex(clocks["itc"]["code"])) == stamp


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (f"/itc_db/events/{INVOICED}/causes", [BILLED, ORDERED]),
        (f"/itc_db/events/{ORDERED}/causes", []),
        (f"/itc_db/events/{ORDERED}/effects", [BILLED, INVOICED, AUDITED, BINARY, STRAY]),
        (f"/itc_db/events/{INVOICED}/effects", []),
    ],
)
async def test_causes_and_effects_come_nearest_first(
    client: httpx2.AsyncClient, path: str, expected: list[int]
) -> None:
    answer = (await client.get(path, params={"columns": "id"})).json()

    assert [event["id"] for event in answer["items"]] == expected
    assert answer["truncated"] is False


async def test_a_walk_is_cut_and_says_so(client: httpx2.AsyncClient) -> None:
    answer = (await client.get(f"/itc_db/events/{ORDERED}/effects", params={"limit": 2})).json()

    assert [event["id"] for event in answer["items"]] == [BILLED, INVOICED]
    assert (answer["truncated"], answer["next"]) == (True, INVOICED)


async def test_a_walk_goes_on_at_its_cursor(client: httpx2.AsyncClient) -> None:
    effects, causes = f"/itc_db/events/{ORDERED}/effects", f"/itc_db/events/{INVOICED}/causes"
    rest = (await client.get(effects, params={"limit": 2, "after": INVOICED})).json()
    last = (await client.get(effects, params={"after": rest["next"]})).json()
    first = (await client.get(causes, params={"limit": 1})).json()
    before = (await client.get(causes, params={"before": first["next"]})).json()

    assert [event["id"] for event in rest["items"]] == [AUDITED, BINARY]
    assert [event["id"] for event in last["items"]] == [STRAY]
    assert [event["id"] for event in before["items"]] == [ORDERED]
    assert (last["truncated"], last["next"], before["next"]) == (False, None, None)


async def test_a_walk_takes_the_filters_of_the_list(client: httpx2.AsyncClient) -> None:
    effects = f"/itc_db/events/{ORDERED}/effects"
    received = (await client.get(effects, params={"type": "received", "vhost": "/"})).json()
    one = (await client.get(effects, params={"type": "published", "via": "links"})).json()
    elsewhere = (await client.get(effects, params={"vhost": "shop"})).json()
    unknown = await client.get(effects, params={"tpye": "received"})

    assert {event["type"] for event in received["items"]} == {"received"}
    assert BILLED in [event["id"] for event in received["items"]]
    assert one["items"] == elsewhere["items"] == []
    assert unknown.status_code == 400


async def test_a_publishs_fate_is_told_queue_by_queue(client: httpx2.AsyncClient) -> None:
    order = (await client.get(f"/itc_db/events/{ORDERED}/deliveries")).json()
    invoice = (await client.get(f"/itc_db/events/{INVOICED}/deliveries")).json()
    tick = (await client.get(f"/itc_db/events/{ALONE}/deliveries")).json()
    received = await client.get(f"/itc_db/events/{BILLED}/deliveries")

    assert order["sentence"] == "handed over for 2 of 2 queues"
    assert [(queue["queue"], queue["state"]) for queue in order["queues"]] == [
        ("billing", "handed_over"),
        ("audit", "handed_over"),
    ]
    assert order["queues"][0]["deliveries"][0]["user"] == "billing"
    assert invoice["sentence"] == "handed over for 0 of 1 queue"
    assert invoice["queues"][0]["state"] == "waiting"
    assert tick["sentence"] == "routed to no queue: nobody was given it"
    assert received.status_code == 400


@pytest.mark.parametrize(
    ("a", "b", "relation", "sentence"),
    [
        (ORDERED, INVOICED, "before", "event 1 happened before event 3"),
        (INVOICED, ORDERED, "after", "event 3 happened after event 1"),
        (INVOICED, AUDITED, "concurrent", "events 3 and 5 are concurrent"),
        (ORDERED, ORDERED, "equal", "event 1 is event 1"),
    ],
)
async def test_two_events_are_compared(
    client: httpx2.AsyncClient, a: int, b: int, relation: str, sentence: str
) -> None:
    answer = (await client.get(f"/itc_db/compare/{a}/{b}")).json()

    assert (answer["a"], answer["b"], answer["vhost"]) == (a, b, "/")
    assert answer["relation"] == relation
    assert answer["sentence"].startswith(sentence)
    assert (answer["complete"], answer["gaps"]) == (True, [])


async def test_an_answer_that_spans_a_gap_says_so(world: World) -> None:
    async with connected(world.app(), auth=("admin", "secret")) as client:
        trace = await world.store.traces.find("/")
        gap = await world.store.gaps.open(
            trace.id, after_event_id=3, since=5, reason="tracing was off"
        )
        open_ = (await client.get(f"/itc_db/compare/{INVOICED}/{AUDITED}")).json()
        await world.store.gaps.close(gap, before_event_id=4, until=7_000_000)
        closed = (await client.get(f"/itc_db/compare/{INVOICED}/{AUDITED}")).json()
        beside = (await client.get(f"/itc_db/compare/{AUDITED}/{STRAY}")).json()

    assert open_["complete"] is False
    assert open_["sentence"].endswith("Messages may be missing between them")
    assert open_["gaps"][0]["until"] is None
    assert closed["gaps"] == [
        {
            "id": gap,
            "after_event_id": 3,
            "before_event_id": 4,
            "since": "1970-01-01T00:00:00.000005Z",
            "until": "1970-01-01T00:00:07.000000Z",
            "reason": "tracing was off",
            "suspected": False,
            "declared": False,
            "quarantined": 0,
            "channel": None,
        }
    ]
    assert beside["complete"] is True


@pytest.mark.parametrize("key", ["publish.orders", "deliver.billing", "settle.settled", "rubbish"])
async def test_no_answer_that_spans_what_is_in_quarantine_is_complete(
    world: World, key: str
) -> None:
    hidden = msgspec.structs.replace(RUBBISH, routing_key=key, reason="too deep", channel=BILLING)
    async with connected(world.app(), auth=("admin", "secret")) as client:
        last = (await client.get("/itc_db")).json()[0]["id"]
        await world.tellers["/"].tell([], [hidden])
        [later] = await world.tell(publish(SHOP, "later", "later"))
        urls = [f"compare/{BINARY}/{later}", f"chain/{ORDERED}/{later}"]
        urls += [f"events/{later}/causes", f"events/{ORDERED}/effects"]
        for url in urls:
            answer = (await client.get(f"/itc_db/{url}")).json()
            assert answer["complete"] is False, url
            [gap] = answer["gaps"]
            assert (gap["after_event_id"], gap["quarantined"], gap["declared"]) == (last, 1, True)
            assert gap["channel"] == f"{BILLING.connection} ({BILLING.number})"
            assert gap["reason"].endswith("is in quarantine: too deep")
            assert answer.get("answer") != "cannot have"
        before = (await client.get(f"/itc_db/compare/{ORDERED}/{BINARY}")).json()
    assert before["complete"] is True


async def test_an_answer_that_is_not_sound_says_so_and_claims_less(world: World) -> None:
    async with connected(world.app(), auth=("admin", "secret")) as client:
        await world.tell(*UNSOUND)
        apart = (await client.get(f"/itc_db/compare/{INVOICED}/{AUDITED}")).json()
        ordered = (await client.get(f"/itc_db/compare/{ORDERED}/{INVOICED}")).json()

    assert (apart["complete"], apart["sound"], apart["quiet"]) == (True, False, 0)
    [doubt] = apart["doubts"]
    assert doubt.startswith("participants are channels, and 2 of 4 publishes are by channels")
    assert apart["sentence"] == (
        "events 3 and 5 are concurrent as far as is known, but a path may be unrecorded. Some"
        " participants may be parts of one program"
    )
    assert ordered["sound"] is False
    assert "as far as is known" not in ordered["sentence"]


@pytest.mark.parametrize(("side", "complete"), [("causes", True), ("effects", False)])
async def test_causes_and_effects_say_how_far_they_are_to_be_relied_on(
    world: World, side: str, complete: bool
) -> None:
    async with connected(world.app(), auth=("admin", "secret")) as client:
        trace = await world.store.traces.find("/")
        await world.store.gaps.open(trace.id, after_event_id=5, since=5, reason="tracing was off")
        sound = (await client.get(f"/itc_db/events/{INVOICED}/{side}")).json()
        await world.tell(*UNSOUND)
        unsound = (await client.get(f"/itc_db/events/{INVOICED}/{side}")).json()

    assert (sound["complete"], len(sound["gaps"])) == (complete, 0 if complete else 1)
    assert (sound["sound"], sound["doubts"], sound["quiet"]) == (True, [], 0)
    assert (unsound["sound"], len(unsound["doubts"])) == (False, 1)


async def test_events_of_two_virtual_hosts_have_no_relation(world: World) -> None:
    seer = world.broker.add("seer", "secret", "monitoring", "/", "secret")
    async with connected(world.app(), headers=seer) as client:
        answer = await client.get(f"/itc_db/compare/{ORDERED}/{SECRET}")

    assert (answer.status_code, answer.json()["error"]) == (400, "bad_request")


@pytest.mark.parametrize("event_id", [SECRET, 99, 2**63 - 1])
@pytest.mark.parametrize(
    "path",
    [
        "/itc_db/events/{}",
        "/itc_db/events/{}/causes",
        "/itc_db/events/{}/effects",
        "/itc_db/events/{}/deliveries",
        "/itc_db/compare/{}/1",
        "/itc_db/compare/1/{}",
    ],
)
async def test_an_event_that_the_user_may_not_see_looks_as_if_it_were_not_there(
    client: httpx2.AsyncClient, path: str, event_id: int
) -> None:
    answer = await client.get(path.format(event_id))

    assert answer.status_code == 404
    assert answer.json() == {
        "error": "Object Not Found",
        "reason": f"no event has the id {event_id}",
    }


@pytest.mark.parametrize("event_id", ["0", "-1", "x", str(2**63), "1.5"])
async def test_an_invalid_id_is_refused(client: httpx2.AsyncClient, event_id: str) -> None:
    assert (await client.get(f"/itc_db/events/{event_id}")).status_code == 400


async def test_every_list_leaves_out_what_one_may_not_see(client: httpx2.AsyncClient) -> None:
    page = (await client.get("/itc_db", params={"page": 1})).json()

    assert SECRET not in await ids(client, after=0)
    assert SECRET not in await ids(client)
    assert (page["total_count"], page["filtered_count"]) == (7, 7)
    assert [one["vhost"] for one in (await client.get("/itc_db/quarantine")).json()] == ["/"]
    for path in ("/itc_db/participants", "/itc_db/quarantine"):
        assert (await client.get(path, params={"vhost": "secret"})).status_code == 404


async def test_who_took_part_is_listed(client: httpx2.AsyncClient) -> None:
    everybody = (await client.get("/itc_db/participants", params={"vhost": "/"})).json()
    older = await client.get("/itc_db/participants", params={"vhost": "/", "before": 6, "limit": 1})

    assert [one["participant"] for one in everybody] == [3, 1, 2]
    assert everybody[0]["events"] == 3
    assert everybody[0]["channels"] == [
        {"node": AUDIT.node, "connection": AUDIT.connection, "channel": 1, "user": "audit"}
    ]
    assert [one["participant"] for one in older.json()] == [2]


async def test_a_payload_beyond_the_bound_is_cut(world: World) -> None:
    body = ("ü" * 600).encode()
    async with connected(world.app(), auth=("admin", "secret")) as client:
        [event_id] = await world.tell(publish(SHOP, "large", body=body))
        event = (await client.get(f"/itc_db/events/{event_id}")).json()

    assert event["payload"] == "ü" * 500  # the story's store keeps 1,000 bytes
    assert (event["payload_bytes"], event["payload_truncated"]) == (1_200, True)
