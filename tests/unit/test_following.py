"""The service's side of the process that sends spans."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import pytest

from app.collector import following
from app.collector.following import Following

SAYS = """print('{"say": "%s", "reason": "the database is away"}', flush=True)"""


class Traces:
    """No trace runs."""

    def snapshots(self) -> Mapping[int, object]:
        return {}


@pytest.mark.parametrize("word", ["error", "waits"])
async def test_spans_wait_for_what_the_process_says(
    word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "SENDER", (sys.executable, "-c", SAYS % word))
    task = Following(b"{}", Traces())  # type: ignore[arg-type]
    await task._run_once()
    assert task.waits_for == "the database is away"


async def test_spans_go_on_once_the_process_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    script = f"""{SAYS % "waits"}; print('{{"say": "goes on"}}', flush=True)"""
    monkeypatch.setattr(following, "SENDER", (sys.executable, "-c", script))
    task = Following(b"{}", Traces())  # type: ignore[arg-type]
    await task._run_once()
    assert task.waits_for is None
