"""Services on one database: who lives, who holds what, whose jobs are whose."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import LeaseLostError, SettingsError
from app.store import Store
from app.store.opening import only_service
from app.stored.jobs import JobState

LONG = 1_000.0
of_several = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)


@pytest.fixture
async def one(database_url: str) -> AsyncIterator[Store]:
    store = await Store.open(database_url, service="one")
    await store.services.register("one", "first", LONG)
    yield store
    await store.close()


@pytest.fixture
async def two(database_url: str, one: Store) -> AsyncIterator[Store]:
    store = await Store.open(database_url, service="two")
    await store.services.register("two", "second", LONG)
    yield store
    await store.close()


async def alive(store: Store) -> list[str]:
    return [each.name for each in await store.services.all() if each.is_alive]


def is_shared(store: Store) -> bool:
    return not store.is_alone


async def test_a_service_lives_while_it_is_heard_of(two: Store) -> None:
    assert await alive(two) == (["first", "second"] if is_shared(two) else ["second"])
    assert await two.services.renew("two", 0, b"{}")
    assert "second" not in await alive(two)
    assert await two.services.renew("two", LONG, b"{}")
    assert "second" in await alive(two)
    assert not await two.services.renew("nobody", LONG, b"{}")


async def test_one_that_starts_again_under_its_name_does_not_wait_for_itself(
    one: Store, trace_id: int
) -> None:
    assert await one.leases.claim(trace_id, "one")
    await one.services.register("again", "first", LONG)
    assert await alive(one) == ["first"]
    assert await one.leases.claim(trace_id, "again")


async def test_nor_for_one_without_a_connection(
    one: Store, database_url: str, trace_id: int
) -> None:
    assert await one.leases.claim(trace_id, "one")
    await one.close()  # as if killed
    store = await Store.open(database_url, service="three")
    await store.services.register("three", "third", LONG)
    assert await alive(store) == ["third"]
    assert await store.leases.claim(trace_id, "three")
    await store.close()


async def test_nor_for_one_that_was_heard_of_in_the_future(
    one: Store, database_url: str, trace_id: int
) -> None:
    """The machine's clock was ahead while the service ran, and went back while it was down."""
    assert await one.leases.claim(trace_id, "one")
    ahead = text("UPDATE services SET seen_at = seen_at + :day, until = until + :day")

    async def set_ahead(connection: AsyncConnection) -> None:
        await connection.execute(ahead, {"day": 86_400_000_000})

    await one.services.database.write(set_ahead)
    await one.close()
    store = await Store.open(database_url, service="three")
    await store.services.register("three", "third", LONG)
    assert await alive(store) == ["third"]
    assert await store.leases.claim(trace_id, "three")
    await store.close()


@of_several
async def test_a_trace_is_claimed_from_the_dead_alone(
    one: Store, two: Store, trace_id: int
) -> None:
    assert await one.leases.claim(trace_id, "one")
    epoch = await one.leases.take(trace_id, "one")
    assert not await two.leases.claim(trace_id, "two")
    await one.services.renew("one", 0, b"{}")
    assert await two.leases.claim(trace_id, "two")
    with pytest.raises(LeaseLostError):
        await one.gaps.open(trace_id, after_event_id=0, since=1, reason="late", epoch=epoch)
    await one.services.renew("one", LONG, b"{}")  # it wakes up
    assert not await one.leases.claim(trace_id, "one")
    with pytest.raises(LeaseLostError):
        await one.leases.take(trace_id, "one")


async def test_whoever_leaves_hands_its_traces_over(one: Store, two: Store, trace_id: int) -> None:
    assert await one.leases.claim(trace_id, "one")
    await one.services.leave("one")
    (held,) = await two.services.leased_traces()
    assert (held.trace_id, held.holder, held.wanted) == (trace_id, None, True)
    assert await alive(two) == ["second"]


@of_several
async def test_jobs_of_the_dead_fail_and_those_of_the_living_go_on(one: Store, two: Store) -> None:
    job = await one.jobs.create("chain", "/", {})
    await one.jobs.move(job.id, JobState.running)
    assert await two.jobs.interrupt() == 0
    assert (await two.jobs.get(job.id)).state is JobState.running
    await one.services.renew("one", 0, b"{}")
    assert await one.jobs.interrupt() == 0  # it does not fail its own
    assert await two.jobs.interrupt() == 1
    assert "interrupted" in str((await one.jobs.get(job.id)).error)


async def test_a_job_is_cancelled_by_the_service_that_has_it(one: Store, two: Store) -> None:
    job = await one.jobs.create("chain", "/", {})
    await two.jobs.give_up(job.id)
    assert await two.jobs.cancellations() == []
    assert await one.jobs.cancellations() == [job.id]
    await one.jobs.move(job.id, JobState.cancelled)
    assert await one.jobs.cancellations() == []


# Takes the lock, starts a child that outlives it, and says so.
HOLDER = """
import subprocess, sys, time
from app.store.opening import only_service
with only_service(sys.argv[1]):
    child = subprocess.Popen(["sleep", "60"], close_fds=False)
    print(child.pid, flush=True)
    time.sleep(60)
"""


def test_a_second_service_on_one_file_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'itc.db'}"
    with subprocess.Popen([sys.executable, "-c", HOLDER, url], stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        child = int(first.stdout.readline())
        try:
            with (
                pytest.raises(SettingsError, match=rf"process {first.pid}\) uses"),
                only_service(url),
            ):
                pass
            with closing(sqlite3.connect(tmp_path / "itc.db")) as reader:  # others may read
                reader.execute("SELECT 1")
            first.kill()
            first.wait()
            with only_service(url):  # although its child lives
                pass
        finally:
            subprocess.run(["kill", str(child)], check=False)


def test_on_postgresql_services_are_welcome(postgres_url: str) -> None:
    with only_service(postgres_url), only_service(postgres_url):
        assert time.time() > 0
