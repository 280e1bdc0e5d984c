"""Assertions over HTTP and on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import httpx2

from app.cli.assertions import junit_of
from model.reports.assertions import AssertionFacts, AssertionReport
from tests.api.described import conforms
from tests.api.test_cli import Command, run, url

__all__ = ["run", "url"]  # fixtures

ROUTE = "/itc_db/reports/assertions"
FILE = """\
- {name: in-time, every: order.new, leads_to: invoice, within: 30s}
- {name: approved, every: ship, after: approve}
- {name: calm, no: "*", causes_more_than: 100}
"""


async def test_a_file_of_assertions_is_judged(client: httpx2.AsyncClient) -> None:
    asked = {"vhost": "/", "since": "2026-01-01", "until": "2026-01-02"}
    made = await client.put(ROUTE, params=asked, content=FILE)
    assert made.status_code == 201
    report = made.json()
    conforms(report, AssertionReport)
    assert [each["assertion"]["name"] for each in report["results"]] == [
        "in-time",
        "approved",
        "calm",
    ]
    [facts] = (await client.get("/itc_db/reports")).json()
    conforms(facts, AssertionFacts)
    assert (await client.get(f"/itc_db/reports/{facts['id']}")).json() == report


async def test_what_cannot_be_judged_is_refused(client: httpx2.AsyncClient) -> None:
    async def refused(content: str, **asked: str) -> str:
        answer = await client.put(ROUTE, params={"vhost": "/", **asked}, content=content)
        assert answer.status_code == 400
        return str(answer.json()["reason"])

    assert "line 1, column 3: expected one of" in await refused("- name: a")
    assert "there are no assertions" in await refused("")
    assert "line 2, column 3: aliases are not read" in await refused("- &a {name: a}\n- *a")
    assert "via" in await refused(FILE, via="any")
    assert "since" in await refused(FILE, since="2026-01-02", until="2026-01-02")
    nowhere = await client.put(ROUTE, params={"vhost": "nowhere"}, content=FILE)
    assert nowhere.status_code == 404


async def test_a_command_ends_with_what_it_found(run: Command, tmp_path: Path) -> None:
    file, junit = tmp_path / "a.yaml", tmp_path / "results.xml"

    async def ends(text: str, *more: object) -> tuple[int, str]:
        file.write_text(text)
        ended = await run("assert", "/", file, *more)
        return ended.code, ended.out

    code, said = await ends(FILE, "--junit", junit)
    assert code == 1
    assert "VIOLATED  in-time: 2 holds, 1 violated, 0 unknown" in said
    assert "event 1: order.new led to no invoice within 30.0 s" in said
    shown = said.partition("rabbitmq-itc conversation 1 --via links\n")[2].splitlines()
    assert "(1)" in shown[0]  # the conversation itself, from its first publish on
    assert "UNKNOWN   calm: 0 holds, 0 violated, 0 unknown (it has gaps)" in said
    [suite] = ElementTree.fromstring(junit.read_bytes())
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    assert [[child.tag for child in case] for case in suite] == [["failure"], [], ["skipped"]]
    told = json.loads((await ends(FILE, "--json"))[1])
    assert told["verdict"] == "violated"
    assert (await run("assert", "/", tmp_path / "none")).code == 2
    file.write_text("- name: a")
    wrong = await run("assert", "/", file)
    assert (wrong.code, "line 1, column 3" in wrong.err) == (2, True)


def test_results_are_xml_whatever_types_say() -> None:
    item = {"event": 1, "sentence": "\x00 <led> to \ud800 & nothing"}
    result = {
        "assertion": {"name": "a"},
        "verdict": "violated",
        "why": None,
        "violated": 1,
        "unknown": 0,
        "items": [item],
    }
    found = {
        "vhost": "v\x07",
        "made_at": "2026-01-01T00:00:00Z",
        "violated": 1,
        "unknown": 0,
        "results": [result],
    }
    [suite] = ElementTree.fromstring(junit_of(found, "a.yaml"))
    [[failure]] = suite
    assert failure.text == "event 1: � <led> to � & nothing"
