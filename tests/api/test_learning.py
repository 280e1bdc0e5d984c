"""What is learnt from a period, over HTTP and on the command line."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import httpx2
import pytest

from app.tracker import Policy, Publish
from model.reports.learning import (
    ComparisonFacts,
    ComparisonReport,
    ExpectationsFacts,
    ExpectationsReport,
)
from model.times import iso_time, microseconds_of, said_time
from tests.api.conftest import ADMINISTRATOR, World
from tests.api.described import conforms
from tests.api.test_cli import Command, run, url  # noqa: F401  fixtures
from tests.contract.failing import BILLING, handed, message
from tests.contract.outbox import tell, tracker_by

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


async def test_an_order_under_way_says_what_normally_follows_and_since_when_it_is_overdue(
    world: World,
    run: Command,  # noqa: F811
    url: str,  # noqa: F811
) -> None:
    async with httpx2.AsyncClient(base_url=url, auth=ADMINISTRATOR, trust_env=False) as client:
        await says_what_follows(world, run, client)


async def says_what_follows(
    world: World,
    run: Command,  # noqa: F811
    client: httpx2.AsyncClient,
) -> None:
    await client.put("/itc_db/shop/undefined/undefined/undefined")
    trace = await world.store.traces.create("shop", Policy.connection)
    tracker, orders = tracker_by(Policy.connection), [message(number) for number in range(3)]

    def invoice(number: int) -> Publish:
        headers = {"causation_id": f"order-{number}"}
        properties = {"message_id": f"i-{number}", "type": "invoice", "headers": headers}
        return Publish(BILLING, "", ("mail",), ("mail",), properties, b"invoice")

    first = [orders[0], handed(BILLING, orders[0]), invoice(0)]  # so it usually publishes
    ids = await tell(
        world.store, trace.id, tracker, [*first, orders[1], handed(BILLING, orders[1])]
    )
    ids = [*ids[3:], *await tell(world.store, trace.id, tracker, [orders[2]])]
    [since] = [(await client.get(f"/itc_db/events/{ids[0]}")).json()["recorded_at"]]
    overdue = microseconds_of(datetime.fromisoformat(since)) + 8_000_000

    async def conversation(event: int, query: str = "") -> dict[str, Any]:
        answer = await client.get(f"/itc_db/conversations/{event}{query}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    assert (await conversation(ids[0]))["remaining"] is None  # nothing was learnt
    await client.put("/itc_db/reports/comparison", params={**DAY, "vhost": "shop"})
    await client.put("/itc_db/reports/expectations", params={**DAY, "vhost": "shop"})
    found = await conversation(ids[0])
    due = iso_time(overdue)
    step = {"type": "invoice", "after": ids[0], "after_type": "order.new", "overdue_since": due}
    assert found["remaining"] == {
        "sentence": f"Normally follows: invoice after order.new ({ids[0]}), overdue since "
        f"{said_time(overdue)}",
        "steps": [step],
        "learnt_until": "2026-01-02T00:00:00.000000Z",
    }
    lines = (await run("conversation", str(ids[0]))).out.splitlines()
    assert lines[2] == found["remaining"]["sentence"]
    assert (await conversation(ids[0], "?via=any"))["remaining"] is None
    await client.delete("/itc_db/shop/undefined/undefined/undefined")  # nobody knows what came
    [step] = (await conversation(ids[0]))["remaining"]["steps"]
    assert step["overdue_since"] is None

    await tell(world.store, trace.id, tracker, [invoice(1)])
    found = await conversation(ids[0])
    assert (found["state"], found["remaining"]) == ("waiting", None)
    [step] = (await conversation(ids[2]))["remaining"]["steps"]
    assert step["after"] == ids[2]
