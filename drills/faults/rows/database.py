"""The database: away, stalled, cutting connections, leaving commits in doubt."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import asyncpg

from drills.faults.stage import Stage
from drills.faults.table import BOTH, POSTGRES, SQLITE, fault

AWAY_SECONDS = 6.0
SMALL_QUEUE = {"ITC_TRACE_QUEUE_MAX_MESSAGES": "1000", "ITC_PREFETCH": "300"}
TERMINATIONS = 60
DOUBTS = 0.3  # the share of commits
BACK_SECONDS = 60.0


@fault(
    "database-away",
    "the database away for a short while, with a small queue",
    stores=BOTH,
    settings=SMALL_QUEUE,
)
async def _away(stage: Stage) -> None:
    if stage.store == "sqlite":
        await asyncio.to_thread(_lock, stage.database_url.removeprefix("sqlite:///"), AWAY_SECONDS)
    else:
        server = stage.database
        await asyncio.to_thread(server.kill)
        await stage.pass_by(AWAY_SECONDS)
        await asyncio.to_thread(server.start)
    await stage.pass_by(2)


def _lock(file: str, seconds: float) -> None:
    with sqlite3.connect(file, timeout=30, isolation_level=None) as connection:
        connection.execute("BEGIN IMMEDIATE")
        time.sleep(seconds)
        connection.execute("ROLLBACK")
    connection.close()


@fault("terminated", f"pg_terminate_backend, {TERMINATIONS} times", stores=POSTGRES, keeps=True)
async def _terminated(stage: Stage) -> None:
    name = stage.database_url.rpartition("/")[2]
    address = stage.database.url(driver="postgresql")
    connection = await asyncpg.connect(address)  # type: ignore[no-untyped-call]
    try:
        for _ in range(TERMINATIONS):
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name
            )
            await stage.pass_by(random.uniform(0.1, 0.4))
    finally:
        await connection.close()
    await _no_bug(stage)


@fault(
    "doubts",
    "commits in doubt, repeatedly",
    stores=POSTGRES,
    proxies=True,
    keeps=True,
    short=POSTGRES,
)
async def _doubts(stage: Stage) -> None:
    def is_committed(sent: bytes) -> bool:
        return b"COMMIT" in sent and random.random() < DOUBTS

    stage.database_proxy.on_sent = is_committed
    await stage.pass_by(8)
    stage.database_proxy.on_sent = None
    await _no_bug(stage)


async def _no_bug(stage: Stage) -> None:
    """An outage is waited out: the trace must not take it for a bug."""
    trace = await stage.trace()
    if trace.get("state") == "failed" or trace.get("last_error"):
        stage.notes.append(f"the trace is {trace['state']}, its last error {trace['last_error']}")


@fault("stalled", "PostgreSQL stands still for 8 s", stores=POSTGRES, keeps=True)
async def _stalled(stage: Stage) -> None:
    with stage.frozen_database():
        await stage.pass_by(8)


@fault(
    "half-open-database",
    "half-open connections to the database",
    stores=POSTGRES,
    proxies=True,
    keeps=True,
)
async def _half_open(stage: Stage) -> None:
    stage.database_proxy.stall()
    await stage.until(stage.captures, BACK_SECONDS, "the trace goes on")
    stage.database_proxy.cut()


@fault(
    "restored",
    "a backup from the trace's first seconds restored, with the queue as it is",
    settings={"ITC_TRACING_CHECK_SECONDS": "1"},
    short=SQLITE,
)
async def _restored(stage: Stage) -> None:
    """What was acknowledged since the backup is in no queue: only a gap can say so."""
    file = Path(stage.database_url.removeprefix("sqlite:///"))
    backup = file.with_suffix(".backup")
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(backup)) as copy:
        source.backup(copy)
    await stage.pass_by(5)
    await stage.kill()
    for beside in ("-wal", "-shm"):
        file.with_name(file.name + beside).unlink(missing_ok=True)
    backup.replace(file)
    await stage.restart()
    await stage.until(stage.captures, BACK_SECONDS, "the trace goes on from the backup")
