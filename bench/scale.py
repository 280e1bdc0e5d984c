"""Cost by how much is stored: ``python -m bench.scale FOLDER [--sizes N…] [--participants N…]``.

A store of each size is made in the folder if it is not there yet, on SQLite a copy of the smaller
one that goes on, and with ``--postgresql`` the same in databases of a private server. Services hand
requests on, a hundred at a time, in conversations of a hundred messages: each message has an id, a
correlation id, names its cause, and has one more header that is indexed. Then all sizes are
measured in turns, forwards and backwards, so that what else the machine does affects all alike:

- processor time of an event, through tracker and batch writer (and PostgreSQL's server), µs;
- answers over HTTP of a service each, p50 in ms, and a chain of some hundred events; asked once
  each service has counted the durations of what is stored (of a store that is made here none are
  counted yet), and has answered some other questions;
- retention: events a second, how many times as fast as they are stored beside it, and the longest
  that a batch waited, ms. A step of it is taken between two batches, as a trace at work does.

No broker is needed.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import shutil
import sqlite3
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import create_async_engine

from app.interpreter import tune_interpreter
from app.store import Store, migrate
from app.stored.capture import Batch
from app.traces.retention import AT_MOST, RetentionLimits, retain_some
from app.tracker import Bounds, Channel, Deliver, Policy, Publish, Record, StampedEvent, Tracker
from app.tracker.links import BUILT_IN, Rules
from bench.reading import FIRST, QUESTIONS, Served, ask, processor_seconds, serving
from bench.stores import FIRST_TIME, STEP, VHOST
from tools.servers import PostgresServer

SIZES = (100_000, 1_000_000, 5_000_000, 20_000_000)
PARTICIPANTS = (64, 1_000)
AT_ONCE, HOPS = 100, 100
BATCH = 2_000
ADDED, ROUNDS, WARMING, TIMES = 20_000, 4, 10, 30
REMOVED = 8 * AT_MOST
ENDLESS = 10**9
INDEXED = "x-order"
RULES = Rules(BUILT_IN, indexed=(INDEXED,))


def traffic(participants: int) -> Iterator[Record]:
    """Publishes and deliveries without end, of many conversations at a time."""
    chance = random.Random(ENDLESS)
    services = [
        Channel("rabbit@bench", f"10.0.0.0:{number} -> 10.0.9.1:5672", 1, f"user-{number}")
        for number in range(participants)
    ]
    under_way: list[tuple[int, int, Channel, int]] = []  # request, last message, who, hops so far
    requests = 0
    for message in itertools.count(1):
        if len(under_way) >= AT_ONCE:
            request, cause, sender, so_far = under_way.pop(chance.randrange(AT_ONCE))
        else:
            requests += 1
            request, cause, sender, so_far = requests, 0, chance.choice(services), 0
        receiver = chance.choice(services)
        queue = f"queue-{receiver.user}"
        headers = {INDEXED: f"o{request}"}
        if cause:
            headers["causation_id"] = f"message {cause}"
        names = {"message_id": f"message {message}", "correlation_id": f"request {request}"}
        properties = {**names, "headers": headers}
        yield Publish(sender, "", (queue,), (queue,), properties, b"{}")
        yield Deliver(receiver, "", (queue,), queue, False, properties, b"{}")
        if so_far + 1 < HOPS:
            under_way.append((request, message, receiver, so_far + 1))


class Growing:
    """A store that goes on where it ends. ``server`` is PostgreSQL's first process, if any."""

    def __init__(self, store: Store, participants: int, server: int | None) -> None:
        self._store = store
        self._participants = participants
        self._server = server
        self.size = 0

    async def open(self) -> None:
        """Go on behind what is stored, or begin."""
        trace = await self._store.traces.find(VHOST)
        restored, bounds = None, Bounds()
        if trace is None:
            trace = await self._store.traces.create(VHOST, Policy.channel)
        else:
            restored = await self._store.checkpoints.restore(
                trace.id, bounds.handovers, bounds.named_events
            )
        self._trace = trace.id
        self._tracker = Tracker(Policy.channel, bounds, rules=RULES, restored=restored)
        self.size = trace.last_event_id
        self._records = itertools.islice(enumerate(traffic(self._participants)), self.size, None)

    async def add(self, events: int) -> float:
        """Store so many more; the processor time that one took, µs."""
        before = self._used()
        for done in range(0, events, BATCH):
            await self._append(min(BATCH, events - done))
        return (self._used() - before) / events * 1e6

    async def _append(self, events: int) -> None:
        stamped: list[StampedEvent] = []
        for number, record in itertools.islice(self._records, events):
            stamped += self._tracker.apply(record, FIRST_TIME + number * STEP)
        await self._store.batches.append(
            self._trace, Batch(stamped, self._tracker.checkpoint(), b"")
        )
        self.size += events

    async def remove(self) -> tuple[float, float, float]:
        """Remove a part, a batch after each step: events a second, of storing's, longest wait."""
        steps: list[float] = []
        batches: list[float] = []
        stored = await self._store.traces.find(VHOST)
        assert stored is not None
        kept = stored.events - REMOVED
        for _ in range(REMOVED // AT_MOST):
            begin = time.perf_counter()
            rule = RetentionLimits(keep_events=kept)
            await retain_some(self._store.retention, self._trace, self._tracker, rule)
            between = time.perf_counter()
            await self._append(BATCH)
            steps.append(between - begin)
            batches.append(time.perf_counter() - between)
        removing, storing = AT_MOST / statistics.median(steps), BATCH / statistics.median(batches)
        return removing, removing / storing, max(steps) * 1000

    def _used(self) -> float:
        return time.process_time() + (processor_of(self._server) if self._server else 0.0)


def processor_of(server: int) -> float:
    """Processor time so far of a server's processes, s."""
    children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    return processor_seconds(server) + sum(processor_seconds(int(child)) for child in children)


async def made(url: str, events: int, participants: int, server: int | None) -> None:
    """Let a store grow to a size."""
    await migrate(url)
    store = await Store.open(url, indexed_headers=RULES.indexed)
    growing = Growing(store, participants, server)
    await growing.open()
    if growing.size < events:
        await growing.add(events - growing.size)
    await store.close()


async def on_sqlite(folder: Path, sizes: list[int], participants: int) -> list[str]:
    """The stores' addresses, made of each other where they are missing."""
    paths = [folder / f"scale-{participants}-{size}.db" for size in sizes]
    for smaller, path, size in zip([None, *paths], paths, sizes, strict=False):
        if not path.exists():
            part = path.with_suffix(".part")
            if smaller is not None and not part.exists():
                shutil.copyfile(smaller, part)
            await made(f"sqlite:///{part}", size, participants, None)
            with closing(sqlite3.connect(part)) as connection:  # its log may hold the newest
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            part.rename(path)
    return [f"sqlite:///{path}" for path in paths]


async def on_postgresql(server: PostgresServer, sizes: list[int], participants: int) -> list[str]:
    """The databases' addresses, made of each other."""
    urls: list[str] = []
    engine = create_async_engine(server.url(), isolation_level="AUTOCOMMIT")
    for size in sizes:
        name = f"scale_{participants}_{size}"
        template = f' TEMPLATE "{make_url(urls[-1]).database}"' if urls else ""
        async with engine.connect() as connection:
            await connection.execute(text(f'CREATE DATABASE "{name}"{template}'))
        urls.append(server.url(name))
        await made(urls[-1], size, participants, server.pid)
    await engine.dispose()
    return urls


def turns(urls: list[str], rounds: int) -> Iterator[str]:
    """Each of them in turn, forwards and backwards."""
    for number in range(rounds):
        yield from urls[:: -1 if number % 2 else 1]


async def written(
    urls: list[str], participants: int, server: int | None
) -> dict[str, dict[str, float]]:
    """The costs of storing and removing, by store."""
    stores = {url: await Store.open(url, indexed_headers=RULES.indexed) for url in urls}
    growing = {url: Growing(store, participants, server) for url, store in stores.items()}
    for each in growing.values():
        await each.open()
        await each.add(ADDED)  # warms up
    costs: defaultdict[str, list[float]] = defaultdict(list)
    for url in turns(urls, ROUNDS):
        costs[url].append(await growing[url].add(ADDED))
    removals = [(url, await growing[url].remove()) for url in turns(urls, 2)]
    for store in stores.values():
        await store.close()
    seen = {}
    for url in urls:
        rates, ratios, waits = zip(*(found for of, found in removals if of == url), strict=True)
        seen[url] = {
            "an event stored, µs": statistics.median(costs[url]),
            "removed a second": statistics.mean(rates),
            "times as fast as stored": statistics.mean(ratios),
            "longest wait, ms": max(waits),
        }
    return seen


def settle(served: Served) -> None:
    """Wait until a service has counted the durations of all that is stored."""
    asked = {"vhost": VHOST}
    while served.client.get("/itc_db/durations", params=asked).json()["as_of"] is not None:
        time.sleep(1)


def read(urls: list[str], participants: int) -> dict[str, dict[str, float]]:
    """The time in which a service over each store answers, by store."""
    seen: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    with ExitStack() as stack:
        services = {url: stack.enter_context(serving(url, INDEXED)) for url in urls}
        newest = {}
        for served in services.values():
            settle(served)
            newest[served.name] = served.client.get("/itc_db?page_size=1").json()[0]["id"]
        for number in range(-WARMING, TIMES):
            for served in [*services.values()][:: -1 if number % 2 else 1]:
                chance = random.Random(number % 1_000)  # of a negative one the sign is lost
                late, other = (
                    newest[served.name] - int(served.events * chance.uniform(0.1, 0.5))
                    for _ in range(2)
                )
                names = served.client.get(f"/itc_db/events/{late}").json()["properties"]
                headers = names["headers"]
                paths = {
                    "first page": QUESTIONS[FIRST](served.events, chance),
                    "by message id": f"/itc_db?message_id={names['message_id']}",
                    "by correlation id": f"/itc_db?correlation_id={names['correlation_id']}",
                    "by a rule's header": f"/itc_db?header.causation_id={names['message_id']}",
                    "by an indexed header": f"/itc_db?header.{INDEXED}={headers[INDEXED]}",
                    "event": f"/itc_db/events/{late}",
                    "compare": f"/itc_db/compare/{late}/{other}",
                    "conversation of 100": f"/itc_db/conversations/{late}",
                    "the same by shared keys": f"/itc_db/conversations/{late}?via=conversation",
                    "50 conversations": "/itc_db/conversations?limit=50",
                    "chain": f"/itc_db/chain/{late}/{late + 10 * participants}",
                }
                for name, path in paths.items():
                    answer = ask(served, path)
                    if number >= 0:
                        seen[served.name, name].append(answer.seconds * 1000)
    found: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for (url, name), each in seen.items():
        found[url][f"{name}, ms"] = statistics.median(each)
    return found


def show(kind: str, sizes: list[int], rows: list[dict[str, float]]) -> None:
    """Print the table of one kind of stores."""
    print(f"\n{kind}\n\n| | {' | '.join(f'{size:,}' for size in sizes)} |")
    print("|---" * (len(sizes) + 1) + "|")
    for name in rows[0]:
        print(f"| {name} | {' | '.join(f'{row[name]:,.1f}' for row in rows)} |")
    sys.stdout.flush()


def measure(
    kind: str, urls: list[str], sizes: list[int], participants: int, server: int | None
) -> None:
    """Measure stores that are made, and print it."""
    reading = read(urls, participants)
    writing = asyncio.run(written(urls, participants, server))
    show(kind, sizes, [writing[url] | reading[url] for url in urls])


def main() -> None:
    """Make what is missing, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--participants", type=int, nargs="+", default=PARTICIPANTS)
    parser.add_argument("--postgresql", action="store_true")
    parser.add_argument("--make", action="store_true", help="only make the stores on SQLite")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    tune_interpreter()
    for participants in asked.participants:
        if asked.postgresql:
            with PostgresServer() as server:
                urls = asyncio.run(on_postgresql(server, asked.sizes, participants))
                kind = f"PostgreSQL, {participants} participants"
                measure(kind, urls, asked.sizes, participants, server.pid)
            continue
        urls = asyncio.run(on_sqlite(asked.folder, asked.sizes, participants))
        if not asked.make:
            measure(f"SQLite, {participants} participants", urls, asked.sizes, participants, None)


if __name__ == "__main__":
    main()
