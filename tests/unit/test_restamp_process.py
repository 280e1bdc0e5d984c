"""The job that restamps: what it makes of what its process says, and of its end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from app.errors import ItcError, OutageError
from app.jobs.folders import Archives
from app.jobs.restamp import RestampProcess
from app.stored.jobs import Json
from model.jobs import Progress

WORK: Json = {"vhost": "/", "trace_id": 1, "participant": "host", "quiet": []}
START = "import sys; read = sys.stdin.readline; read(); read()\ndef say(x): print(x, flush=True)\n"
STAMPING = """say('{"say": "progress", "stage": "stamping", "percent": 40.0, "rows_read": 6}')\n"""
CAUGHT_UP = """say('{"say": "caught up"}'); read()\n"""
DONE = """say('{"say": "done", "result": {"events": 6}}')\n"""
TIDY = """say('{"say": "tidy"}'); read()\n"""
ERROR = """say('{"say": "error", "reason": "because"}'); read()\n"""
HANG = "read()\n"


class Pauses:
    """A trace that only notes when it pauses and goes on."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    @asynccontextmanager
    async def __call__(self, vhost: str) -> AsyncIterator[tuple[Any, Any]]:
        self.seen.append(f"pause {vhost}")
        try:
            yield None, None
        finally:
            self.seen.append("go on")


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


def process(pauses: Pauses, folder: Path, *steps: str) -> RestampProcess:
    command = (sys.executable, "-c", START + "".join(steps))
    return RestampProcess(b"{}", pauses, Archives(folder / "none"), command)


async def test_the_trace_pauses_from_where_it_is_caught_up_to_the_swap(
    pauses: Pauses, tmp_path: Path
) -> None:
    said: list[Progress] = []
    runner = process(pauses, tmp_path, STAMPING, CAUGHT_UP, DONE, TIDY)
    result = await runner.run(1, "restamp", WORK, said.append)
    assert (result["events"], set(result["seconds"])) == (6, {"replay", "pause"})
    assert said == [Progress("stamping", 40.0, 6)]
    assert pauses.seen == ["pause /", "go on"]


@pytest.mark.parametrize(
    ("steps", "error", "sentence", "paused"),
    [
        ((STAMPING,), OutageError, "nothing has changed", False),
        (("say('Loading ...')\n", HANG), OutageError, "nothing has changed", False),
        ((CAUGHT_UP, "say('Loading ...')\n", HANG), OutageError, "either the old", True),
        ((CAUGHT_UP,), OutageError, "either the old stamps or the new", True),
        ((ERROR,), ItcError, "because", False),
        ((CAUGHT_UP, ERROR), ItcError, "because", True),
    ],
)
async def test_whatever_ends_it_the_trace_goes_on(
    pauses: Pauses,
    tmp_path: Path,
    steps: tuple[str, ...],
    error: type[ItcError],
    sentence: str,
    paused: bool,
) -> None:
    runner = process(pauses, tmp_path, *steps)
    with pytest.raises(error, match=sentence):
        await runner.run(1, "restamp", WORK, lambda progress: None)
    assert pauses.seen == (["pause /", "go on"] if paused else [])


async def test_what_it_leaves_behind_is_no_failure(pauses: Pauses, tmp_path: Path) -> None:
    runner = process(pauses, tmp_path, CAUGHT_UP, DONE)
    assert (await runner.run(1, "restamp", WORK, lambda progress: None))["events"] == 6


async def test_cancelling_ends_the_process_and_the_pause(pauses: Pauses, tmp_path: Path) -> None:
    said = asyncio.Event()
    runner = process(pauses, tmp_path, CAUGHT_UP, STAMPING, HANG)
    running = asyncio.create_task(runner.run(1, "restamp", WORK, lambda progress: said.set()))
    await said.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert pauses.seen == ["pause /", "go on"]
