"""A message that no store takes, or no tracker: it goes to quarantine, and the trace goes on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import settings
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from app.store import Store
from app.stored.reading import EventFilter
from app.traces.life import TraceState
from app.traces.pipeline import PipelineSettings
from app.traces.runs import run, sieve
from app.traces.runs.attempts import Capture, RunningTrace
from app.traces.runs.feed import Feed
from app.tracker import _pass
from drills import fuzz_traces
from drills.fuzz_traces import made
from model.event import Event
from tests.bundles import bundle
from tests.introductions import NOBODY
from tests.unit.run_ends import FilledSource, Message

# Of which one may be stored, and then no other: a rule that all databases have the words for.
POISON = "poison"
RULE = f"CREATE UNIQUE INDEX fit ON events (exchange) WHERE exchange = '{POISON}'"


def message(body: bytes, exchange: str = "x") -> Message:
    table: dict[str, Any] = {
        "exchange_name": exchange,
        "node": "rabbit@one",
        "connection": "10.0.0.1:5000 -> 10.0.0.2:5672",
        "channel": 1,
        "user": "alice",
        "routing_keys": ["k"],
        "routed_queues": ["q"],
        "properties": {},
    }
    header = ContentHeader(0, len(body), Basic.Properties(headers=table)).marshal()
    return f"publish.{exchange}", header, body


def numbered(count: int, *poisoned: int) -> list[Message]:
    return [message(b"%d" % n, POISON if n in poisoned else "x") for n in range(count)]


def bundled(messages: Sequence[Message], most: int = 64) -> list[Message]:
    """The same messages in bundles."""
    return [
        bundle(messages[first : first + most], first // most, first)
        for first in range(0, len(messages), most)
    ]


async def traced(store: Store, messages: Sequence[Message]) -> RunningTrace:
    """Run a trace until its queue is empty, or it has failed."""
    trace = await store.traces.create("/", "channel")
    source: Any = FilledSource(messages)
    by = PipelineSettings(mark_seconds=0, audit_seconds=0, batch_events=100)
    running = RunningTrace(trace, Capture(store, source, by, NOBODY, Feed()), None)
    source.is_through = running.drain
    async with asyncio.timeout(60):
        while running.is_alive and running.snapshot().standing.state is not TraceState.failed:
            await asyncio.wait({running._task}, timeout=0.05)
    if running.is_alive:
        await running.end(drain=False, deadline=1)
    return running


async def events(store: Store) -> list[Event]:
    return [*(await store.events.find(EventFilter(), after=0, limit=1_000)).items]


async def quarantined(store: Store) -> list[str | None]:
    return [each.body for each in reversed(await store.quarantine.newest())]


async def refuse(store: Store) -> None:
    await store._database.write(lambda each: each.exec_driver_sql(RULE))


@pytest.mark.parametrize("form", [list, bundled])
@pytest.mark.parametrize("poisoned", [(0, 1), (0, 299), (0, 7, 8, 150, 151, 152, 297), (0, 60)])
async def test_what_the_store_refuses_is_left_out_and_all_else_is_stored_in_order(
    store: Store, poisoned: Sequence[int], form: Callable[[list[Message]], list[Message]]
) -> None:
    await refuse(store)
    running = await traced(store, form(numbered(300, *poisoned)))
    assert await quarantined(store) == [str(n) for n in poisoned[1:]]
    assert [e.payload for e in await events(store)] == [
        b"%d" % n for n in range(300) if n not in poisoned[1:]
    ]
    standing = running.snapshot().standing
    assert (standing.state, standing.restarts) == (TraceState.stopped, 0)
    [status] = await store.traces.list()
    assert (status.events, status.last_event_id) == (301 - len(poisoned),) * 2
    ids = {int(e.payload or b""): e.id for e in await events(store)}
    for n in poisoned[1:]:
        before = max(known for known in ids if known < n)
        behind = min((known for known in ids if known > n), default=None)
        if behind is not None:
            assert await store.gaps.between(status.id, ids[before], ids[behind])
    assert not await store.gaps.between(status.id, ids[3], ids[5])
    gaps = await store.gaps.newest(status.id)
    assert 0 < len(gaps) < len(poisoned)  # those in a row share one
    assert all("in quarantine: the database does not take a value" in e.reason for e in gaps)
    assert all(each.until is not None and not each.suspected for each in gaps)
    record = (await store.quarantine.newest())[0]
    assert (record.routing_key, record.reason) == (
        f"publish.{POISON}",
        "the database does not take a value of it",
    )


async def test_many_that_are_refused_are_left_out_too(store: Store) -> None:
    await refuse(store)
    running = await traced(store, numbered(24, *range(0, 24, 2)))
    assert len(await quarantined(store)) == 11
    assert len(await events(store)) == 13
    assert running.snapshot().standing.restarts == 0


async def test_what_the_tracker_fails_at_is_left_out(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fingerprint = _pass.fingerprint

    def failing(record: Any) -> bytes:
        if record.body == b"55":
            raise RecursionError("too deep")
        return fingerprint(record)

    monkeypatch.setattr(_pass, "fingerprint", failing)
    running = await traced(store, numbered(90))
    assert await quarantined(store) == ["55"]
    assert [e.payload for e in await events(store)] == [b"%d" % n for n in range(90) if n != 55]
    assert running.snapshot().standing.restarts == 0
    [record] = await store.quarantine.newest()
    assert record.reason.startswith("an error in the service itself, RecursionError at ")


async def test_a_bug_that_is_no_message_s_fault_loses_none_and_fails_the_trace(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run.Run, "_stamp", _fails)
    running = await traced(store, numbered(30))
    assert running.snapshot().standing.last_error is not None
    assert await quarantined(store) == []
    assert await events(store) == []


async def _fails(self: run.Run, messages: object) -> tuple[int, bool]:
    raise RuntimeError("a bug")


async def test_where_nothing_at_all_can_be_stamped_few_are_left_out(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sieve, "MOST_IN_A_ROW", 5)

    def failing(record: Any) -> bytes:
        raise KeyError("a bug")

    monkeypatch.setattr(_pass, "fingerprint", failing)
    running = await traced(store, numbered(200))
    assert 0 < len(await quarantined(store)) <= 5 * (running.snapshot().standing.restarts)
    assert running.snapshot().standing.last_error is not None


async def test_whatever_names_and_ids_map_to_one_text_is_stored_or_in_quarantine(
    store: Store,
) -> None:
    """Queues, keys, users, ids and headers with repeats, NUL, and bytes that are no text."""
    found = made(15 * settings().max_examples, seed=1)
    kinds, wrong = await fuzz_traces.traced(store, "/", found, random.Random(1))
    assert {"Publish", "Deliver", "Settlement", "Unreadable"} == kinds.keys()
    assert wrong == []
