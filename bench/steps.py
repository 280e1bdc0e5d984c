"""Where a message's time and bytes go: ``python -m bench.steps [COUNT] [--participants N …]``.

The same trace messages, played from a recording (`bench.player`), are drained by the whole service
in a child process, on SQLite and on PostgreSQL. A thread there looks every 0.5 ms at each other
thread: what its processor clock has gained since goes to the step that it is in, told by the
innermost function on its stack that the table knows, or by the statement that SQLite's thread
executes. So the sum is the service's own processor time; PostgreSQL's server is a line apart. The
medians of the rounds, µs a message; single rounds differ by a tenth. Then the bytes a message of
each table and index, at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import secrets
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from asyncio.subprocess import PIPE
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TypeAlias

import asyncpg
import uvloop
from sqlalchemy import make_url

from app.broker.deliveries import Arrival
from app.interpreter import tune_interpreter
from bench.backlog import KINDS, fill
from bench.drain import capture
from bench.player import playing, recorded
from bench.processes import cpu_of_all
from tools.servers import PostgresServer, RabbitNode

COUNT = 40_000
PARTICIPANTS = [4, 64, 1_000]
ROUNDS = 3
LOOK_SECONDS = 0.0005
RECORDED, PLAYED = "recorded", "played"
PATIENCE_SECONDS = 600
SERVER = "PostgreSQL's server"
BEGINNING = "stamping"  # what is before is the start of a process

# The first that is in "file:function" of a frame, looked for from the innermost frame outwards.
STEPS = {
    "rows.py:edge_rows": "edges",
    "capture/batches.py:_next_rows": "row",
    "rows.py:": "checkpoint",
    "capture/settlements.py:": "checkpoint",
    "capture/batches.py:_store": "checkpoint",
    "capture/batches.py:_note": "checkpoint",
    "app/tracker/": "stamping",
    "runs/stamper.py:": "stamping",
    "/itc/": "stamping",
    "app/broker/": "reading",
    "app/traces/": "run",
    "app/store/": "transaction",
    "/sqlalchemy/": "transaction",
    "/asyncpg/": "transaction",
    "/aio_pika/": "reading",
    "/aiormq/": "reading",
    "/pamqp/": "reading",
}
OF_TABLES = {"events": "row", "keys": "keys", "edges": "edges"}  # the rest are the checkpoint's
TABLE = re.compile(r"(?:INSERT(?: OR \w+)? INTO|UPDATE|DELETE FROM)\s+(\w+)")

Spent: TypeAlias = dict[str, float]


class Looking(threading.Thread):
    """A thread that looks where the others spend their processor time, until it is asked."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._spent: defaultdict[str, float] = defaultdict(float)
        self._clocks: dict[int, float] = {}
        self._is_over = threading.Event()
        self._has_begun = False

    def run(self) -> None:
        """Look until `spent` is called."""
        while not self._is_over.wait(LOOK_SECONDS):
            self._look()

    def spent(self) -> Spent:
        """Seconds by step, since the first message was looked at."""
        self._is_over.set()
        self.join()
        return dict(self._spent)

    def _look(self) -> None:
        for thread, frame in sys._current_frames().items():
            if thread == self.ident:
                continue
            now = time.clock_gettime(time.pthread_getcpuclockid(thread))
            gained = now - self._clocks.get(thread, now)
            self._clocks[thread] = now
            step = step_of(frame)
            self._has_begun = self._has_begun or step == BEGINNING
            if self._has_begun:
                self._spent[step] += gained


def step_of(frame: FrameType | None) -> str:
    """Tell which step a thread is in."""
    while frame is not None:
        if frame.f_code.co_qualname == "_Driver._execute":  # in a C function of SQLite's
            return _statement_of(*frame.f_locals["args"][:1])
        place = f"{frame.f_code.co_filename}:{frame.f_code.co_qualname}"
        for part, step in STEPS.items():
            if part in place:
                return step
        frame = frame.f_back
    return "event loop, and the rest"


def _statement_of(text: object = None) -> str:
    found = TABLE.match(text) if isinstance(text, str) else None
    return OF_TABLES.get(found[1], "checkpoint") if found else "transaction"


async def looked_at(amqp_url: str, management_url: str, vhost: str, count: int, url: str) -> Spent:
    """Drain what is played, and return the seconds by step."""
    looking = Looking()
    sys.setswitchinterval(LOOK_SECONDS)  # or a look has to wait for 5 ms
    looking.start()
    await capture(amqp_url, management_url, vhost, PLAYED, count, url)
    return looking.spent()


async def drained(broker: RabbitNode, vhost: str, what: Sequence[Arrival], url: str) -> Spent:
    """Drain what is played in a child process; µs a message, by step."""
    async with playing(broker, PLAYED, what) as amqp_url:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.steps", "--child", amqp_url, broker.management_url),
            *(vhost, str(len(what)), url),
            stdout=PIPE,
        )
        out, _ = await asyncio.wait_for(child.communicate(), PATIENCE_SECONDS)
    return {step: seconds / len(what) * 1e6 for step, seconds in json.loads(out).items()}


def bytes_in_sqlite(file: Path) -> Spent:
    """Bytes of each table and index."""
    with sqlite3.connect(file) as connection:
        return dict(connection.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name"))


async def bytes_in_postgres(url: str) -> Spent:
    """Bytes of each table and index."""
    there = make_url(url).set(drivername="postgresql")
    connection = await asyncpg.connect(  # type: ignore[no-untyped-call]
        there.render_as_string(hide_password=False)
    )
    rows = await connection.fetch(
        "SELECT relname, pg_relation_size(pg_class.oid) FROM pg_class"
        " JOIN pg_namespace ON pg_namespace.oid = relnamespace"
        " WHERE nspname = 'public' AND relkind IN ('r', 'i')"
    )
    await connection.close()
    return dict(rows)


def table(columns: Mapping[str, Sequence[Spent]]) -> str:
    """A table of the medians of each column's rounds, the greatest step first."""
    names = {name for rounds in columns.values() for each in rounds for name in each}
    rows = {
        name: [statistics.median(each.get(name, 0.0) for each in some) for some in columns.values()]
        for name in sorted(names)
    }
    service = [values for name, values in rows.items() if name != SERVER]
    shown = sorted(rows.items(), key=lambda row: -max(row[1]))
    shown.append(("all but the server", [sum(each) for each in zip(*service, strict=True)]))
    lines = [f"| | {' | '.join(columns)} |", f"|{'---|' * (len(columns) + 1)}"]
    lines += [
        f"| {name} | {' | '.join(f'{each:.1f}' for each in values)} |" for name, values in shown
    ]
    return "\n".join(lines) + "\n"


async def measured(
    broker: RabbitNode, server: PostgresServer, what: Sequence[Arrival], folder: Path
) -> tuple[dict[str, Spent], dict[str, Spent]]:
    """One round of each store: µs by step, bytes by table and index, of a message."""
    file = folder / f"{secrets.token_hex(4)}.db"
    with broker.fresh_vhost() as vhost:
        on_sqlite = await drained(broker, vhost, what, f"sqlite:///{file}")
    with broker.fresh_vhost() as vhost, server.fresh_database() as url:
        before = cpu_of_all(server.pid)
        on_postgres = await drained(broker, vhost, what, url)
        took = cpu_of_all(server.pid) - before
        on_postgres[SERVER] = took / len(what) * 1e6
        sizes = {"SQLite": bytes_in_sqlite(file), "PostgreSQL": await bytes_in_postgres(url)}
    each = {
        store: {name: size / len(what) for name, size in of.items() if size > len(what)}
        for store, of in sizes.items()
    }
    return {"SQLite": on_sqlite, "PostgreSQL": on_postgres}, each


async def compare(
    broker: RabbitNode, server: PostgresServer, options: argparse.Namespace, kind: str
) -> None:
    """Print both tables for one kind of headers."""
    steps: defaultdict[str, list[Spent]] = defaultdict(list)
    sizes: defaultdict[str, list[Spent]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for participants in options.participants:
            with broker.fresh_vhost() as vhost:
                await fill(broker, vhost, [RECORDED], participants, options.count, KINDS[kind])
                what = await recorded(broker, vhost, RECORDED, options.count)
            for _ in range(options.rounds):
                took, bytes_each = await measured(broker, server, what, Path(folder))
                for store in took:
                    steps[f"{store}, {participants}"].append(took[store])
                    sizes[f"{store}, {participants}"].append(bytes_each[store])
    sys.stdout.write(f"\n{kind}: µs a message\n\n{table(steps)}\nbytes\n\n{table(sizes)}")
    sys.stdout.flush()


def main() -> None:
    """Print the tables, for each kind of headers."""
    if sys.argv[1:2] == ["--child"]:
        amqp_url, management_url, vhost, count, url = sys.argv[2:]
        tune_interpreter()
        spent = uvloop.run(looked_at(amqp_url, management_url, vhost, int(count), url))
        sys.stdout.write(json.dumps(spent))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=COUNT)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--participants", type=int, nargs="+", default=PARTICIPANTS)
    parser.add_argument("--headers", choices=list(KINDS), nargs="+", default=list(KINDS))
    options = parser.parse_args()
    with RabbitNode() as broker, PostgresServer() as server:
        for kind in options.headers:
            asyncio.run(compare(broker, server, options, kind))


if __name__ == "__main__":
    main()
