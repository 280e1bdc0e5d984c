"""Correlations over HTTP and on the command line, and rules that are adopted from them."""

from __future__ import annotations

import json

import httpx2
import pytest

from model.reports.correlations import CorrelationFacts, CorrelationReport
from tests.api.conftest import World
from tests.api.described import conforms
from tests.api.fake_reports import CORRELATIONS
from tests.api.test_cli import Command, run, url

__all__ = ["run", "url"]  # fixtures


async def test_correlations_are_a_report(client: httpx2.AsyncClient) -> None:
    asked = {"vhost": "/", "since": "2026-01-01", "until": "2026-01-02"}
    made = await client.put("/itc_db/correlations", params=asked)
    assert made.status_code == 201
    report = made.json()
    conforms(report, CorrelationReport)
    [facts] = (await client.get("/itc_db/reports")).json()
    conforms(facts, CorrelationFacts)
    assert (await client.get(f"/itc_db/reports/{facts['id']}")).json() == report
    later = await client.put(
        "/itc_db/correlations", params=asked, headers={"prefer": "respond-async"}
    )
    assert later.status_code == 202


async def test_what_cannot_be_correlated_is_refused(client: httpx2.AsyncClient) -> None:
    wrong = {"vhost": "/", "since": "2026-01-02", "until": "2026-01-02"}
    assert (await client.put("/itc_db/correlations", params=wrong)).status_code == 400
    nowhere = {"vhost": "nowhere"}
    assert (await client.put("/itc_db/correlations", params=nowhere)).status_code == 404


async def test_a_report_without_what_was_in_hand_is_shown(
    run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(CORRELATIONS, "in_hand")  # as an earlier version stored it
    shown = await run("correlate", "/")
    assert (shown.code, "One message in hand" in shown.out) == (0, False)


async def test_a_proposal_is_shown_and_adopted(run: Command, world: World) -> None:
    early = await run("correlate", "/", "--adopt", "1")
    assert early.code == 4
    assert "run rabbitmq-itc correlate / first" in early.err
    shown = (await run("correlate", "/")).out
    assert "$message.header#/x-because" in shown
    assert "--participant client" in shown
    assert "bodies not JSON: 2" in shown
    told = json.loads((await run("correlate", "/", "--json")).out)
    assert told["proposals"] == CORRELATIONS["proposals"]
    assert (await run("correlate", "/", "--adopt", "2")).code == 4
    assert (await run("correlate", "/", "--past")).code == 2
    assert "adopted" in (await run("correlate", "/", "--adopt", "1")).out
    assert "found-header-x-because" in (await run("links", "show", "/", "--own")).out
