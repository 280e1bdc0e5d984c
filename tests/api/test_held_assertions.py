"""Assertions that are held against a virtual host, and what did not hold: HTTP and commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.cli.conversations import violation_lines
from app.stored.assertions import JudgingStep, NewViolation, ViolationKind, WebhookState
from tests.api.conftest import World
from tests.api.test_cli import Command, run, url  # noqa: F401  fixtures

URL = "/itc_db/assertions"
OF_SLASH = f"{URL}/%2F"
ONE = f"{OF_SLASH}/ship-approved"
FILE = """
assertions:
  - name: invoice-in-time
    every: order.new
    leads_to: invoice
    within: 30s
  - name: ship-approved
    every: ship
    after: approve
"""
IN_TIME = {"every": "order.new", "leads_to": "invoice", "within": "30s"}


async def listed(client: httpx2.AsyncClient, **asked: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await client.get(URL, params=asked)).json()
    return found


async def found(
    world: World, name: str, *events: int, delivery: WebhookState = WebhookState.none
) -> None:
    """As the watcher would, once their time is over."""
    (held,) = [each for each in await world.store.assertions.list() if each.name == name]
    judged = JudgingStep(
        name=name,
        text=held.text,
        before=held.judged_id,
        judged_id=held.judged_id + 10,
        held=3,
        unknown=1,
        waiting=2,
        violations=tuple(
            NewViolation(
                event=event,
                last_id=event + 1,
                root=None,
                kind=ViolationKind.overdue,
                type="order.new",
                recorded_at=1_000_000,
                sentence=f"event {event}: order.new led to no invoice within 30.0 s",
            )
            for event in events
        ),
    )
    assert await world.store.assertions.note_judgement(held.trace_id, judged, delivery)


async def test_a_file_in_yaml_or_json_is_set_as_a_whole(client: httpx2.AsyncClient) -> None:
    before = await listed(client)
    answer = await client.put(OF_SLASH, content=FILE)
    both = await listed(client, vhost="/")
    as_json = json.dumps({"assertions": [{"name": "mine", **IN_TIME}]})
    again = await client.put(OF_SLASH, content=as_json)
    one = await listed(client)
    assert (before, answer.status_code, again.status_code) == ([], 204, 204)
    assert [each["name"] for each in both] == ["invoice-in-time", "ship-approved"]
    assert [each["assertion"] for each in one] == [{"name": "mine", **IN_TIME}]
    assert both[0].keys() >= {"set_by", "set_at", "from_event_id", "judged_id"}
    assert {both[0][name] for name in ("held", "violated", "unknown", "waiting")} == {0}
    assert both[0]["unwatched"] is None


async def test_one_is_removed(client: httpx2.AsyncClient) -> None:
    await client.put(OF_SLASH, content=FILE)
    gone = await client.delete(ONE)
    again = await client.delete(ONE)
    assert [each["name"] for each in await listed(client)] == ["invoice-in-time"]
    assert [gone.status_code, again.status_code] == [204, 404]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("assertions:\n  - name: a\n    every: b\n    leads: c\n", "line "),
        ("assertions: [", "not YAML"),
        ("", "there are no assertions in it"),
        ("- &a {name: a}\n- *a", "line 2, column 3: aliases are not read"),
        ("- {[a]: b}", "line 1, column 4: expected a key"),
    ],
)
async def test_a_file_that_cannot_be_read_says_where(
    client: httpx2.AsyncClient, body: str, reason: str
) -> None:
    await client.put(OF_SLASH, content=FILE)
    answer = await client.put(OF_SLASH, content=body)
    assert answer.status_code == 400
    assert reason in answer.json()["reason"]
    assert len(await listed(client)) == 2, "what was there stays"


async def test_what_cannot_be_held_live_says_why(client: httpx2.AsyncClient) -> None:
    texts: dict[str, dict[str, Any]] = {
        "no-time": {"every": "a", "leads_to": "b"},
        "by-clocks": {"every": "a", "after": "b", "evidence": "may_have"},
        "by-key": {"never_concurrent": ["a", "b"], "per": "body.order"},
        "too-many": {"no": "*", "causes_more_than": 1_000},
    }
    file = {"assertions": [{"name": name, **text} for name, text in texts.items()]}
    assert (await client.put(OF_SLASH, json=file)).status_code == 204
    assert all(each["unwatched"] for each in await listed(client))


async def test_a_conversation_has_what_did_not_hold_for_its_events(
    world: World, client: httpx2.AsyncClient
) -> None:
    await client.put(OF_SLASH, content=FILE)
    answer = (await client.get("/itc_db/conversations/1")).json()
    first = answer["messages"][0]["event"]
    assert answer["violations"] == []
    await found(world, "invoice-in-time", first, 10_000)
    answer = (await client.get("/itc_db/conversations/1")).json()
    assert [each["event"] for each in answer["violations"]] == [first]
    assert answer["violations"] == (await client.get("/itc_db/violations")).json()["items"][1:]
    assert violation_lines(answer) == [
        f"assertion invoice-in-time did not hold: event {first}: order.new led to no invoice "
        "within 30.0 s"
    ]


async def test_what_did_not_hold_is_listed_newest_first_a_page_at_a_time(
    world: World, client: httpx2.AsyncClient
) -> None:
    await client.put(OF_SLASH, content=FILE)
    await found(world, "invoice-in-time", 1, 2, 3, delivery=WebhookState.due)
    await found(world, "ship-approved", 4)
    page = (await client.get("/itc_db/violations", params={"limit": 2})).json()
    rest = (await client.get("/itc_db/violations", params={"before": page["next"]})).json()
    assert [each["event"] for each in page["items"]] == [4, 3]
    assert [each["event"] for each in rest["items"]] == [2, 1]
    assert (page["truncated"], rest["truncated"], rest["next"]) == (True, False, None)
    one = page["items"][1]
    assert (one["delivery"], one["kind"], one["type"]) == ("due", "overdue", "order.new")
    assert one["complete"] is True
    of_one = await client.get("/itc_db/violations", params={"assertion": "ship-approved"})
    assert [each["event"] for each in of_one.json()["items"]] == [4]
    assert (await client.get("/itc_db/violations", params={"kind": "storm"})).json()["items"] == []
    (first, _) = await listed(client)
    assert [first[name] for name in ("held", "violated", "unknown", "waiting")] == [3, 3, 1, 2]


async def test_metrics_count_by_assertion(world: World, client: httpx2.AsyncClient) -> None:
    await client.put(OF_SLASH, content=FILE)
    await found(world, "invoice-in-time", 1, 2, delivery=WebhookState.due)
    text = (await client.get("/metrics")).text
    labels = 'assertion="invoice-in-time"'
    for outcome, count in {"held": 3, "violated": 2, "unknown": 1}.items():
        name = f'itc_assertion_events_total{{{labels},outcome="{outcome}",vhost="/"}}'
        assert f"{name} {count}.0" in text
    assert f'itc_assertion_waiting{{{labels},vhost="/"}} 2.0' in text
    assert 'itc_webhook_violations{delivery="due"} 2.0' in text


async def test_the_commands_set_show_and_remove(run: Command, tmp_path: Path) -> None:  # noqa: F811
    file = tmp_path / "shop.yaml"
    file.write_text(FILE)
    done = await run("assertions", "set", "/", str(file))
    shown = await run("assertions", "show")
    as_json = await run("assertions", "show", "/", "--json")
    gone = await run("assertions", "remove", "/", "ship-approved")
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("assertions: [")
    refused = await run("assertions", "set", "/", str(wrong))
    missing = await run("assertions", "set", "/", str(tmp_path / "none"))
    assert done.out == "/: 2 assertions\n"
    assert "leads_to invoice, within 30s" in shown.out
    assert [each["name"] for each in json.loads(as_json.out)["items"]] == [
        "invoice-in-time",
        "ship-approved",
    ]
    assert gone.out == "/: assertion ship-approved removed\n"
    assert refused.code != 0
    assert "not YAML" in refused.err
    assert missing.code == 2


async def test_the_command_lists_violations(
    run: Command,  # noqa: F811
    world: World,
    tmp_path: Path,
) -> None:
    (tmp_path / "shop.yaml").write_text(FILE)
    await run("assertions", "set", "/", str(tmp_path / "shop.yaml"))
    await found(world, "invoice-in-time", 1, 2)
    shown = await run("violations", "/", "--limit", "1")
    as_json = await run("violations", "--json")
    assert "event 2: order.new led to no invoice within 30.0 s" in shown.out
    assert "there are more: --until" in shown.out
    assert [each["event"] for each in json.loads(as_json.out)["items"]] == [2, 1]
