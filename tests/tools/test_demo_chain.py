"""The demo's chain: of a job's file where Spark is, and at once where it is not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import tools.demo.__main__ as demo
from tools.servers import ServerError

EVENTS = [{"id": 1, "quiet": False}, {"id": 3, "quiet": False}]
JOB = {"relation": "before", "events": 2, "location": "/itc_db/exports/demo.jsonl"}


def chain(steps: list[str], job: dict[str, Any] = JOB) -> tuple[dict[str, Any], list[Any]]:
    client = SimpleNamespace(
        chain=lambda first, last: {"relation": "before", "count": 2, "events": EVENTS},
        make_chain=lambda first, last, file: job,
        download=lambda location: [location],
    )
    stage: Any = SimpleNamespace(client=client)
    printer: Any = SimpleNamespace(step=steps.append)
    return demo._chain(stage, printer, 1, 3)


def test_with_spark_a_job_writes_it_to_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_lack_of_spark", lambda: "")
    summary, exported = chain([])
    assert exported == [JOB["location"]]
    assert (summary["count"], summary["location"]) == (2, JOB["location"])


def test_without_spark_it_is_shown_at_once_and_it_is_said_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(demo, "missing_packages", lambda: ["pyspark"])
    steps: list[str] = []
    summary, exported = chain(steps)
    assert (exported, summary["count"], summary.get("location")) == (EVENTS, 2, None)
    assert steps[0].endswith("the extra spark is not installed")


def test_where_a_job_finds_no_chain_the_demo_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_lack_of_spark", lambda: "")
    with pytest.raises(ServerError, match="the events are concurrent"):
        chain([], {"relation": "concurrent", "events": 0, "location": None})
