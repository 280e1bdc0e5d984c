"""The rules of links of a virtual host, over HTTP and by the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.stored.capture import Batch
from app.tracker.links import BUILT_IN, Rule, merge_rules, of_all
from app.tracker.links.rules import MOST_RULES
from tests.api.conftest import World
from tests.api.test_cli import Command, run, url  # noqa: F401  fixtures

URL = "/itc_db/links"
SLASH = {"vhost": "/"}
ONE = "/itc_db/links/%2F/shipped-for"
RULE: dict[str, Any] = {
    "name": "shipped-for",
    "kind": "parent",
    "child": ["$message.payload#/caused_by"],
    "parent": ["$message.payload#/event/id"],
}

RULE_IN_YAML = """
name: shipped-for   # what a shipment names
kind: parent
child: $message.payload#/caused_by
parent: [$message.payload#/event/id]
"""


async def own(client: httpx2.AsyncClient) -> list[str]:
    listed = (await client.get(URL, params=SLASH)).json()
    return [each["name"] for each in listed if each["origin"] == "own"]


async def take_up(world: World) -> None:
    """As a running trace would, with its next batch."""
    trace = await world.store.traces.find("/")
    assert trace is not None
    rules = merge_rules(of_all(BUILT_IN), await world.store.link_rules.list_own(trace.id))
    checkpoint = world.tellers["/"]._tracker.checkpoint()
    await world.store.batches.append(trace.id, Batch([], checkpoint, b"", link_rules=rules))


async def test_a_rule_is_listed_with_its_origin_and_from_when_it_holds(
    world: World, client: httpx2.AsyncClient
) -> None:
    await take_up(world)
    new = await client.put(ONE, json=RULE)
    before = (await client.get(URL, params=SLASH)).json()
    await take_up(world)
    after = (await client.get(URL, params=SLASH)).json()

    assert (new.status_code, new.content) == (201, b"")
    assert [each["name"] for each in before] == [*(each.name for each in BUILT_IN), "shipped-for"]
    assert before[-1] == {
        "name": "shipped-for",
        "origin": "own",
        "state": "set",
        "from_event_id": None,
        "rule": RULE,
    }
    next_id = await world.store.events.last_id() + 1
    assert after[-1] == {**before[-1], "state": "holds", "from_event_id": next_id}
    assert {(each["origin"], each["state"]) for each in after[:-1]} == {("built_in", "holds")}
    assert [each["from_event_id"] for each in after[:-1]] == [next_id] * len(BUILT_IN)


async def test_a_rule_is_replaced_and_removed(world: World, client: httpx2.AsyncClient) -> None:
    await client.put(ONE, json=RULE)
    await take_up(world)
    replaced = await client.put(ONE, json={**RULE, "kind": "reply"})
    changed = (await client.get(URL, params=SLASH)).json()[-2:]
    gone = await client.delete(ONE)
    again = await client.delete(ONE)
    removed = (await client.get(URL, params=SLASH)).json()[-1]

    assert (replaced.status_code, gone.status_code, again.status_code) == (204, 204, 404)
    assert [(each["state"], each["rule"]["kind"]) for each in changed] == [
        ("set", "reply"),
        ("removed", "parent"),
    ]
    assert (removed["state"], removed["rule"]["kind"]) == ("removed", "parent")
    await take_up(world)
    assert await own(client) == []


async def test_an_own_rule_stands_for_a_built_in_one_of_its_name_and_in_its_place(
    client: httpx2.AsyncClient,
) -> None:
    await client.put("/itc_db/links/%2F/causation_id", json={**RULE, "name": "causation_id"})
    listed = (await client.get(URL, params=SLASH)).json()

    assert [each["name"] for each in listed] == [each.name for each in BUILT_IN]
    assert [each["name"] for each in listed if each["origin"] == "own"] == ["causation_id"]
    assert (await client.delete("/itc_db/links/%2F/causation_id")).status_code == 204
    assert await own(client) == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "the body is a rule"),
        (b"{", "body: Invalid JSON"),
        (b"[]", "body: Input should be"),
        (b'{"kind": "parent"}', "rule 'shipped-for': child: is missing"),
        (b'{"kind": "cousin", "child": "$message.header#/a"}', "kind: 'cousin' is none of"),
        (
            b'{"kind": "parent", "child": "$message.header#/a~2", "parent": "$message.header#/b"}',
            "'~' is written '~0', and '/' in a name '~1' (column 19)",
        ),
        (
            b'{"kind": "parent", "child": "$message.header#/", "parent": "$message.header#/b"}',
            "an empty pointer stands for everything",
        ),
        (
            b'{"kind": "conversation", "child": "$message.property#/type"}',
            "says where or what kind, not which message",
        ),
        (b'{"name": "other", "kind": "conversation", "child": "$message.header#/a"}', "'other'"),
        (b'{"kind": "conversation", "child": "$message.header#/a", "x": 1}', "no such field"),
        (
            b'{"kind": "conversation", "child": ["' + b'","'.join([b"$message.header#/a"] * 33)
            + b'"]}',
            "at most 32 places",
        ),
        (b"[" * 10_000, "body: "),
    ],
)  # fmt: skip
async def test_a_rule_that_cannot_be_is_refused_with_the_place_in_it(
    client: httpx2.AsyncClient, body: bytes, reason: str
) -> None:
    answer = await client.put(ONE, content=body)

    assert (answer.status_code, answer.json()["error"]) == (400, "bad_request")
    assert reason in answer.json()["reason"]
    assert len(answer.json()["reason"]) < 2_000
    assert await own(client) == []


@pytest.mark.parametrize("name", ["a%2Fb", "%00", "ü", "a b", ".a", "x" * 65, "%F0%9F%92%A9"])
async def test_a_name_with_other_characters_is_refused(
    client: httpx2.AsyncClient, name: str
) -> None:
    body = {key: value for key, value in RULE.items() if key != "name"}
    answer = await client.put(f"/itc_db/links/%2F/{name}", json=body)

    assert answer.status_code == 400
    assert (await client.delete(f"/itc_db/links/%2F/{name}")).status_code in (400, 404)
    assert await own(client) == []


async def test_there_are_no_more_rules_than_a_trace_may_have(client: httpx2.AsyncClient) -> None:
    room = MOST_RULES - len(BUILT_IN)
    short = {"kind": "conversation", "child": "$message.header#/a"}
    names = [f"r{number}" for number in range(room)]
    puts = [await client.put(f"/itc_db/links/%2F/{name}", json=short) for name in names]
    one_more = await client.put("/itc_db/links/%2F/more", json=short)
    instead = await client.put("/itc_db/links/%2F/r1", json=short)

    assert {put.status_code for put in puts} == {201}
    assert f"at most {room} of its own" in one_more.json()["reason"]
    assert (one_more.status_code, instead.status_code) == (409, 204)
    assert len(await own(client)) == room


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
@pytest.mark.parametrize("vhost", ["shop", "secret", "nowhere"])
async def test_where_nothing_was_traced_there_are_no_rules(
    client: httpx2.AsyncClient, method: str, vhost: str
) -> None:
    path = f"/itc_db/links/{vhost}/shipped-for"
    body = RULE if method == "PUT" else None
    assert (await client.request(method, path, json=body)).status_code == 404
    assert (await client.get(URL, params={"vhost": vhost})).status_code == 404


async def test_who_may_only_look_sets_nothing(client: httpx2.AsyncClient) -> None:
    client.auth = httpx2.BasicAuth("watcher", "secret")
    refused = [
        await client.put(ONE, json=RULE),
        await client.delete(ONE),
    ]

    assert [answer.status_code for answer in refused] == [401, 401]
    assert await own(client) == []
    assert len((await client.get(URL, params=SLASH)).json()) == len(BUILT_IN)


async def test_a_shell_sets_shows_and_removes_rules(
    world: World,
    run: Command,  # noqa: F811
    tmp_path: Path,
) -> None:
    one, many, none = tmp_path / "one.json", tmp_path / "many.json", tmp_path / "none"
    one.write_text(json.dumps(RULE))
    many.write_text(json.dumps([RULE, RULE]))
    assert (await run("links", "add", "/", one)).out == "/: rule shipped-for added\n"
    assert (await run("links", "add", "/", one)).out == "/: rule shipped-for replaced\n"
    shown = await run("links", "show", "/", "--own")
    assert shown.out.split("\n")[1].split() == [
        "shipped-for", "parent", "own", "-", *RULE["child"], *RULE["parent"], "holds", "soon",
    ]  # fmt: skip
    one.write_text(RULE_IN_YAML)
    assert (await run("links", "add", "/", one)).out == "/: rule shipped-for replaced\n"
    assert (await run("links", "show", "/", "--own")).out == shown.out
    one.write_text(json.dumps(RULE, indent="\t"))  # JSON alone has tabs there
    assert (await run("links", "add", "/", one)).code == 0
    told = (await run("links", "show", "/", "--json")).json["items"]
    assert [each["name"] for each in told] == [*(each.name for each in BUILT_IN), "shipped-for"]
    assert (await run("links", "remove", "/", "shipped-for")).out == "/: rule shipped-for removed\n"
    assert (await run("links", "remove", "/", "shipped-for")).code == 4
    for words, said in [
        (("add", "/", many), "one rule is expected"),
        (("add", "/", none), "No such file"),
    ]:
        refused = await run("links", *words)
        assert (refused.code, said in refused.err) == (2, True), refused.err
    for text in (
        "{",
        '{"name": "x", "kind": NaN}',
        '{"name": "\\ud800"}',
        "[" * 100_000,
        "name: [x",
        "name: &x [*x]",
        "name: 2026-01-01",
    ):
        one.write_text(text)
        refused = await run("links", "add", "/", one)
        assert (refused.code, refused.err.count("\n")) == (2, 1), refused.err
        assert ": expected YAML or JSON: " in refused.err
        assert "\\n" not in refused.err, "a line's end is no part of the sentence"
    one.write_text(json.dumps({**RULE, "child": "$message.body"}))
    wrong = await run("links", "add", "/", one)
    assert (wrong.code, "rule 'shipped-for': child: " in wrong.err) == (2, True)


def test_what_is_set_is_what_was_read() -> None:
    assert Rule.from_json(RULE).to_json() == RULE
