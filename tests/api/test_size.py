"""The estimate of a day of a trace from a minute of it."""

from __future__ import annotations

import json
import time

import httpx2
import pytest
from typer.testing import CliRunner

from app.cli import app, size
from app.cli.exits import CommandError, Exit
from app.cli.size import GROWTH_EVENTS, ServiceSample, estimate_day
from tests.api.conftest import World
from tests.api.test_cli import Command, run, url  # noqa: F401
from tests.api.test_metrics import scraped, value


def look(
    at: float, events: int, store: int, *, others: int = 0, processor: float = 0.0
) -> ServiceSample:
    return ServiceSample(at, events, events + others, store, 200_000_000, processor)


def test_a_day_is_as_many_of_these_seconds() -> None:
    looks = [look(0, 0, 0), look(1, 600, 300_000), look(2, 2_000, 1_000_000, processor=0.5)]
    found = estimate_day("/", looks)
    assert (found["events"], found["rate"], found["rate_least"], found["rate_most"]) == (
        2_000,
        1_000,
        600,
        1_400,
    )
    assert (found["bytes_an_event"], found["is_growth"]) == (500, True)
    assert found["events_a_day"] == 86_400_000
    assert found["bytes_a_day"] == 43_200_000_000
    assert found["cores"] == 0.25


def test_the_growth_of_the_database_is_shared_with_other_traces() -> None:
    found = estimate_day("/", [look(0, 0, 0), look(10, 1_000, 800_000, others=1_000)])
    assert (found["bytes_an_event"], found["is_growth"]) == (400, True)


@pytest.mark.parametrize(("events", "grown"), [(GROWTH_EVENTS - 1, 4_096), (GROWTH_EVENTS, 0)])
def test_too_little_growth_is_not_relied_on(events: int, grown: int) -> None:
    first, last = look(0, 1_000, 400_000), look(10, 1_000 + events, 400_000 + grown)
    found = estimate_day("/", [first, last])
    assert not found["is_growth"]
    assert found["bytes_an_event"] == round(last.store / last.all_events, 1)


def test_without_traffic_nothing_is_estimated() -> None:
    with pytest.raises(CommandError, match="no event was stored in 60 s") as raised:
        estimate_day("/", [look(0, 5, 100), look(60, 5, 100)])
    assert raised.value.code == Exit.failure


@pytest.mark.parametrize("words", [(), ("--json",)], ids=["words", "numbers"])
def test_the_command_says_it(monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    looks = iter([look(0, 0, 0), look(60, 6_000, 3_000_000, processor=6)])
    monkeypatch.setattr(size, "_look", lambda *_: next(looks))
    monkeypatch.setattr(size, "LOOK_SECONDS", 0)
    monkeypatch.setattr(time, "monotonic", iter([0.0, 60.0]).__next__)
    done = CliRunner().invoke(app, ["size", "/", *words])
    assert done.exit_code == 0, done.output
    if words:
        assert json.loads(done.stdout)["bytes_a_day"] == 4_320_000_000
        return
    assert done.stdout.splitlines() == [
        "/: 6,000 events in 60 s, 100.0 a second (100 to 100)",
        "a day of it: 8,640,000 events, 4.3 GB, at 500 bytes an event (by those of this time)",
        "the database now: 3.0 MB",
        "the service: 0.10 of a processor for all that it did, 200.0 MB of memory",
    ]


async def test_a_running_trace_is_looked_at(run: Command) -> None:  # noqa: F811
    await run("trace", "start", "/")
    done = await run("size", "/", "--seconds", "1")
    assert done.code == Exit.failure
    assert "no event was stored in 1 s: try again when there is traffic" in done.err


async def test_the_size_of_the_database_is_a_metric(
    client: httpx2.AsyncClient, world: World
) -> None:
    assert value(await scraped(client), "itc_store_bytes") == await world.store.size() > 0
