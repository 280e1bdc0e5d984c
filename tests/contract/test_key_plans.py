"""Whatever asks for keys on SQLite finds them by an index, and never goes through a trace."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from sqlalchemy import event, make_url

from app.store import Store
from app.stored.conversations import ConversationFilter
from app.stored.reading import EventFilter
from model.words import Via
from tests.contract.endings import APPLICATIONS, run, verdict
from tests.contract.history import RUN, number_from
from tests.contract.links import LinkedHistory
from tests.key_plans import of_keys, through_a_trace


@pytest.fixture
def database_url(request: pytest.FixtureRequest, database_url: str) -> str:
    if not database_url.startswith("sqlite"):
        pytest.skip("PostgreSQL decides by what is stored")
    return database_url


@pytest.fixture
async def ids(store: Store, trace_id: int) -> list[int]:
    """Events of two runs, which belong to a few conversations."""
    history, stored = LinkedHistory(3), list[int]()
    for first in (RUN - 300, 2 * RUN - 300):
        await number_from(store, first)
        for _ in range(4):
            stored += await store.batches.append(trace_id, history.batch(100))
    return stored


@contextmanager
def plans(store: Store, database_url: str) -> Iterator[list[list[str]]]:
    """The plan of every statement about keys."""
    found: list[list[str]] = []
    path = make_url(database_url).database or ""

    def note(*values: object) -> None:
        statement, parameters = str(values[2]), values[3]
        if "keys" not in statement or ") VALUES (" in statement:
            return
        with closing(sqlite3.connect(path)) as connection:
            connection.create_function("regexp", 2, lambda *_: True, deterministic=True)
            plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)  # type: ignore[arg-type]
            found.append([str(row[3]) for row in plan])

    engines = [each.engine.sync_engine for each in store._database._readers.values()]
    for engine in (*engines, store._database._writer.sync_engine):
        event.listen(engine, "before_cursor_execute", note)
    yield found
    for engine in (*engines, store._database._writer.sync_engine):
        event.remove(engine, "before_cursor_execute", note)


def _check(found: list[list[str]]) -> None:
    assert any(map(of_keys, found))
    assert [each for plan in found for each in through_a_trace(plan)] == []


BY_HEADER = (("causation_id", "a"),)


@pytest.mark.parametrize(
    "named",
    [{"message_id": "a"}, {"correlation_id": "a"}, {"conversation": "a"}, {"headers": BY_HEADER}],
)
async def test_lists_by_name(
    store: Store, database_url: str, ids: list[int], named: dict[str, Any]
) -> None:
    await (await Store.open(database_url, indexed_headers={"causation_id": True})).close()
    for more in ({}, {"vhost": "/"}, {"conversation": "a"}, {"headers": BY_HEADER}):
        asked = EventFilter(**{**named, **more})
        with plans(store, database_url) as found:
            await store.events.find(asked)
            await store.events.find(asked, after=ids[0], before=ids[-1])
            await store.events.count(asked)
            await store.events.page(asked, page=2, page_size=3)
        _check(found)
        through_all = re.compile(r"(SCAN|SEARCH) events .*\(trace_id=\?\)")
        assert [each for plan in found for each in plan if through_all.match(each)] == []


async def test_conversations(store: Store, database_url: str, ids: list[int]) -> None:
    with plans(store, database_url) as found:
        for event_id in ids[:: len(ids) // 5]:
            await store.conversations.of_event(event_id, Via.conversation)
        _check(found)
    for asked in (EventFilter(), EventFilter(conversation="a")):
        with plans(store, database_url) as found:
            await store.conversations.list(asked, ConversationFilter(), Via.conversation)
            _check(found)


async def test_dead_ends(store: Store, database_url: str) -> None:
    """What led from deliveries is looked up, however many events there are."""
    records = run(APPLICATIONS["a worker that answers one type of two"].programs, 8, 3)
    with plans(store, database_url) as found:
        at_rest = await verdict(store, "/", records, 1.0, Via.conversation)
    assert at_rest.decided == 8
    _check(found)
    through_all = re.compile(r"SCAN (d|effect|events|edges)\b")
    assert [step for plan in found for step in plan if through_all.match(step)] == []


async def test_walks_and_chains(store: Store, database_url: str, ids: list[int]) -> None:
    with plans(store, database_url) as found:
        for event_id in ids[:: len(ids) // 5]:
            await store.causality.walk(event_id, -1, via=Via.conversation)
            await store.causality.walk(event_id, 1, via=Via.conversation)
            await store.chains.find(ids[0], event_id, 1_000, via=Via.conversation)
        _check(found)


async def test_retention_looks_at_what_goes_and_at_its_deliveries(
    store: Store, database_url: str, trace_id: int
) -> None:
    history = LinkedHistory(3)
    await store.batches.append(trace_id, history.batch(100))
    plan = await store.retention.plan(trace_id, keep_events=50)
    assert plan is not None
    history.tracker.forget_before(plan.before_id)
    with plans(store, database_url) as found:
        await store.retention.prune(plan, history.tracker.checkpoint())
    in_runs = "SEARCH keys USING PRIMARY KEY (trace_id=? AND run>? AND run<?)"
    deliveries = "SEARCH events USING INDEX ix_events_cause_id (cause_id=? AND rowid>?)"
    assert [in_runs, deliveries] in [plan[:2] for plan in found]
    assert [in_runs] in found
