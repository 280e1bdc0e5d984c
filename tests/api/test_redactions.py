"""Rules of redaction over HTTP and by the command line."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from tests.api.conftest import World
from tests.api.test_cli import Command, run, url  # noqa: F401  fixtures

URL, ONE = "/itc_db/redactions", "/itc_db/redactions/%2F/card"
SLASH = {"vhost": "/"}
RULE: dict[str, Any] = {"places": ["$message.payload#/card"], "keep": "nothing"}


async def test_a_rule_is_set_listed_replaced_and_removed(
    world: World, client: httpx2.AsyncClient
) -> None:
    new = await client.put(ONE, json=RULE)
    again = await client.put(ONE, json={**RULE, "places": "$message.header#/x"})
    listed = (await client.get(URL, params=SLASH)).json()
    gone, none = await client.delete(ONE), await client.delete(ONE)

    assert [new.status_code, again.status_code] == [201, 204]
    assert listed == [{"name": "card", "places": ["$message.header#/x"], "keep": "nothing"}]
    assert [gone.status_code, none.status_code] == [204, 404]
    stored = await world.store.redactions.of_trace(1)
    assert (stored.rules, [len(rules) for rules in stored.former]) == ((), [1, 1, 0])


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ({"places": ["$message.payload#/card"]}, "ITC_REDACTION_KEY is not set"),
        ({"places": "$message.body#/card"}, "'body' is no part of a message"),
        ({}, "places: write places such as"),
        ({**RULE, "name": "other"}, "the body's rule is called 'other'"),
    ],
)
async def test_a_rule_that_cannot_hold_is_refused(
    client: httpx2.AsyncClient, rule: dict[str, Any], reason: str
) -> None:
    answer = await client.put(ONE, json=rule)
    assert (answer.status_code, (await client.get(URL, params=SLASH)).json()) == (400, [])
    assert reason in answer.json()["reason"]


async def test_the_command_line_sets_shows_and_removes_rules(run: Command) -> None:  # noqa: F811
    place = "$message.payload#/lines/*/card"
    refused = await run("redactions", "add", "/", "card", place)
    assert (refused.code, "ITC_REDACTION_KEY" in refused.err) == (2, True)
    for word in ("added", "replaced"):
        done = await run("redactions", "add", "/", "card", place, "--nothing")
        assert done.out == f"/: rule card {word}\n"
    assert (await run("redactions", "show", "/")).out.split()[-3:] == ["card", "nothing", place]
    assert (await run("redactions", "remove", "/", "card")).out == "/: rule card removed\n"
    assert (await run("redactions", "remove", "/", "card")).code == 4
