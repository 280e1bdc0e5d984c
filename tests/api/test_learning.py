"""What is learnt from a period, over HTTP and on the command line."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from model.reports.learning import (
    ComparisonFacts,
    ComparisonReport,
    ExpectationsFacts,
    ExpectationsReport,
)
from tests.api.described import conforms
from tests.api.test_cli import Command, run, url  # noqa: F401  fixtures

DAY = {"vhost": "/", "since": "2026-01-01", "until": "2026-01-02"}


@pytest.mark.parametrize(
    ("kind", "asked", "facts", "report"),
    [
        ("expectations", {"wait": 60.0}, ExpectationsFacts, ExpectationsReport),
        ("comparison", {"via": "conversation"}, ComparisonFacts, ComparisonReport),
    ],
)
async def test_a_report_is_made_listed_and_read(
    client: httpx2.AsyncClient, kind: str, asked: dict[str, Any], facts: Any, report: Any
) -> None:
    made = await client.put(f"/itc_db/reports/{kind}", params={**DAY, **asked})
    assert made.status_code == 201
    found = made.json()
    conforms(found, report)
    assert {name: found[name] for name in asked} == asked
    [listed] = (await client.get("/itc_db/reports")).json()
    conforms(listed, facts)
    assert (listed["id"], listed["report"]) == (found["id"], kind)
    assert (await client.get(f"/itc_db/reports/{found['id']}")).json() == found


async def test_a_period_is_compared_with_as_long_a_one_before_it(
    client: httpx2.AsyncClient,
) -> None:
    path = "/itc_db/reports/comparison"
    found = (await client.put(path, params=DAY)).json()
    before = (found["before_since"], found["before_until"])
    assert before == ("2025-12-31T00:00:00.000000Z", "2026-01-01T00:00:00.000000Z")
    asked = {**DAY, "before_since": "2025-11-01", "before_until": "2025-11-08"}
    found = (await client.put(path, params=asked)).json()
    before = (found["before_since"], found["before_until"])
    assert before == ("2025-11-01T00:00:00.000000Z", "2025-11-08T00:00:00.000000Z")


@pytest.mark.parametrize(
    ("kind", "asked", "status"),
    [
        ("expectations", {"vhost": "none"}, 404),
        ("expectations", {"via": "any"}, 400),
        ("expectations", {"wait": -1}, 400),
        ("expectations", {"until": "2026-01-01"}, 400),
        ("comparison", {"wait": -1}, 400),
        ("comparison", {"before_since": "2026-01-01"}, 400),
    ],
)
async def test_what_cannot_be_asked_is_refused(
    client: httpx2.AsyncClient, kind: str, asked: dict[str, Any], status: int
) -> None:
    answer = await client.put(f"/itc_db/reports/{kind}", params={**DAY, **asked})
    assert answer.status_code == status


async def test_the_command_line_shows_what_was_learnt(run: Command) -> None:  # noqa: F811
    shown = (await run("expectations", "/")).out
    assert "998 conversations; left out: 2 too young, 1 unknown" in shown
    assert "order.new > 2 invoice [died billing rejected]" in shown
    assert "participant billing@10.0.0.6 (6 of 6, else 100 of 992)" in shown
    assert (await run("expectations", "/", "--yaml")).out.splitlines() == [
        "assertions:",
        "  - name: order-new-leads-to-invoice",
        "    every: order.new",
        "    leads_to: invoice",
        '    within: "10s"',
    ]
    found = json.loads((await run("expectations", "/", "--wait", "60", "--json")).out)
    assert (found["wait"], found["share"]) == (60.0, 0.95)


async def test_the_command_line_shows_what_changed(run: Command) -> None:  # noqa: F811
    shown = (await run("compare-periods", "/", "--since", "2026-01-01")).out
    assert "1 changes" in shown
    assert shown.count("vanished") == 1
    assert "same" not in shown
    assert json.loads((await run("compare-periods", "/", "--json")).out)["changes"] == 1
