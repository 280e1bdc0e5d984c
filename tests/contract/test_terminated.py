"""PostgreSQL's backends ended at any moment: an outage each time, and nothing lost or doubled."""

from __future__ import annotations

import asyncio
import inspect
import random

import asyncpg
import pytest
from asyncpg import exceptions
from sqlalchemy import make_url

from app.errors import OutageError
from app.store import Store, migrate
from app.store.database.engine import dialect_of
from app.stored.reading import EventFilter
from tests.contract.history import History
from tools.servers import PostgresServer

TERMINATIONS = 60
TERMINATE = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name = 'rabbitmq-itc'
"""

# By SQLSTATE: the first characters of those that are outages.
STATES = ("08", "25006", "25P03", "25P04", "53", "55P03", "40", "57P", "58", "XX000")
# The driver's own, with a text each that it raises them with.
CLIENT = {
    exceptions.InternalClientError: ("got result for unknown protocol state 7", True),
    exceptions.OutdatedSchemaCacheError: ("", True),
    exceptions.ProtocolError: ("cannot switch to state 12", True),
    exceptions.TargetServerAttributeNotMatched: ("None of the hosts match", True),
    exceptions.ClientConfigurationError: ("`ssl` parameter must be one of", False),
    exceptions.UnsupportedClientFeatureError: ("no gssapi", False),
    exceptions.UnsupportedServerFeatureError: ("listeners are not supported", False),
}


def _all_of(base: type) -> list[type]:
    found = [
        each
        for _, each in inspect.getmembers(exceptions, inspect.isclass)
        if issubclass(each, base) and each is not base
    ]
    assert found
    return found


@pytest.mark.parametrize("kind", _all_of(exceptions.PostgresError), ids=lambda kind: kind.__name__)
def test_each_of_the_servers_errors_is_an_outage_or_not(
    kind: type[exceptions.PostgresError],
) -> None:
    state: str = getattr(kind, "sqlstate", None) or ""
    is_outage = state.startswith(STATES) or kind is exceptions.InvalidCachedStatementError
    error = kind("said by the server")
    assert (dialect_of("postgresql://h/d").outage(error) is not None) == is_outage


def test_each_of_the_drivers_errors_is_an_outage_or_not() -> None:
    dialect = dialect_of("postgresql://h/d")
    known = {exceptions.InternalClientError, exceptions.InterfaceError}
    for base in (exceptions.InternalClientError, exceptions.InterfaceError):
        known |= set(_all_of(base))
    assert known == set(CLIENT) | {exceptions.InterfaceError}
    for kind, (text, is_outage) in CLIENT.items():
        assert (dialect.outage(kind(text)) is not None) == is_outage, kind


@pytest.mark.parametrize(
    ("text", "is_outage"),
    [
        ("connection is closed", True),
        ("cannot perform operation: connection is closed", True),
        ("cannot perform operation: another operation is in progress", True),
        ("cannot perform operation: another operation is cancelling", True),
        ("cannot call Transaction.commit(): the underlying connection is closed", True),
        ("cannot use Connection.transaction() in a manually started transaction", True),
        ("cannot rollback; the transaction is in error state", True),
        ("the server expects 1 argument for this query, 2 were passed", False),
        ("invalid input for query argument $1: 'x' (an integer is required)", False),
        ("the number of query arguments cannot exceed 32767", False),
    ],
)
def test_a_connection_that_broke_is_told_from_a_wrong_call(text: str, is_outage: bool) -> None:
    error = exceptions.InterfaceError(text)
    assert (dialect_of("postgresql://h/d").outage(error) is not None) == is_outage


async def _terminate(url: str, times: int) -> int:
    """End all of the store's backends, at random moments; returns how many there were."""
    moments = random.Random(times)
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    admin = await asyncpg.connect(plain)
    ended = 0
    try:
        for _ in range(times):
            await asyncio.sleep(moments.uniform(0.001, 0.05))  # the moment is what is tested
            ended += len(await admin.fetch(TERMINATE))
    finally:
        await admin.close()
    return ended


async def test_backends_that_are_ended_are_outages_and_nothing_is_lost_or_doubled(
    postgres: PostgresServer,
) -> None:
    with postgres.fresh_database("terminated") as url:
        await migrate(url)
        store = await Store.open(url)
        trace = await store.traces.create("/", "channel")
        history, outages = History(seed=5), 0
        terminating = asyncio.create_task(_terminate(url, TERMINATIONS))
        stored = 0
        while not terminating.done() or stored < 500:
            batch = history.batch(20)
            stored += len(batch.events)
            while True:
                try:
                    await store.batches.append(trace.id, batch)
                    break
                except OutageError:
                    outages += 1
        assert await terminating >= TERMINATIONS / 2
        assert outages >= 5
        found, after = [], 0
        wanted = EventFilter()
        while page := (await store.events.find(wanted, after=after, limit=500)).items:
            found += page
            after = page[-1].id
        assert [(e.participant, e.seq) for e in found] == [
            (e.participant, e.seq) for e in history.events
        ]
        restored = await store.checkpoints.restore(trace.id, 1_000)
        assert restored.last_event_id == found[-1].id
        await store.close()
