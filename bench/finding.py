"""Finding events by what their messages are called: ``python -m bench.finding FOLDER [EVENTS…]``.

In each store (100,000 and 5,000,000 events, made in the folder if they are not there yet: the large
one of copies of the small one, under other names and side by side) sixteen services hand requests
on, a hundred of them at a time: five messages a request, that is ten events, whatever the size of
the store. Each message has an id of its own, the request's correlation id, and two headers: one
that rules of links look at, one that only the setting has indexed. Requests all over the store are
asked for by each of these names, newest first and as a page with its counts; every round asks each
store twice in turn and takes the second time, so that whatever else the machine does affects all of
them alike, and the disk none.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, closing
from hashlib import blake2b
from pathlib import Path

from app.garbage import tune_garbage_collection
from app.store import Store
from app.stored.reading import EventFilter
from app.tracker import Channel, Deliver, Publish, Record
from app.tracker.links import BUILT_IN, Rules
from bench.stores import FIRST_TIME, STEP, VHOST, fill
from model.blocks import BLOCK
from model.words import EventType

SMALL = 100_000
SIZES = (SMALL, 5_000_000)
SERVICES, AT_ONCE, HOPS = 16, 100, 5
ROUNDS = 200
RULES = Rules(BUILT_IN, indexed=("x-order",))

# What is asked for, from the number of a message and of its request.
NAMES: dict[str, Callable[[int, int], EventFilter]] = {
    "message_id": lambda message, request: EventFilter(message_id=_message(message)),
    "correlation_id": lambda message, request: EventFilter(correlation_id=_request(request)),
    "conversation": lambda message, request: EventFilter(conversation=_request(request)),
    "header.causation_id": lambda message, request: EventFilter(
        headers=(("causation_id", _message(message)),)
    ),
    "header.x-order": lambda message, request: EventFilter(headers=(("x-order", f"o{request}"),)),
    "header.x-order, vhost, received": lambda message, request: EventFilter(
        headers=(("x-order", f"o{request}"),), vhost=VHOST, type=EventType.received
    ),
}


def _message(number: int) -> str:
    return f"message {number}"


def _request(number: int) -> str:
    return f"request {number}"


def traffic(
    events: int, participants: int = SERVICES, hops: int = HOPS
) -> Iterator[tuple[int, int, Record]]:
    """Publishes and deliveries, with the numbers of their messages and requests."""
    chance = random.Random(events)
    services = [
        Channel("rabbit@bench", f"10.0.0.0:{number} -> 10.0.9.1:5672", 1, f"user-{number}")
        for number in range(participants)
    ]
    under_way: list[tuple[int, int, Channel, int]] = []  # request, last message, who, hops so far
    requests = 0
    for message in range(1, events // 2 + 1):
        if len(under_way) >= AT_ONCE:
            request, cause, sender, so_far = under_way.pop(chance.randrange(AT_ONCE))
        else:
            requests += 1
            request, cause, sender, so_far = requests, 0, chance.choice(services), 0
        receiver = chance.choice(services)
        queue = f"queue-{receiver.user}"
        headers = {"x-order": f"o{request}"}
        if cause:
            headers["causation_id"] = _message(cause)
        names = {"message_id": _message(message), "correlation_id": _request(request)}
        properties = {**names, "headers": headers}
        yield message, request, Publish(sender, "", (queue,), (queue,), properties, b"{}")
        yield message, request, Deliver(receiver, "", (queue,), queue, False, properties, b"{}")
        if so_far + 1 < hops:
            under_way.append((request, message, receiver, so_far + 1))


# What differs between an event of the small store and its copies, number 0 to :times - 1, of which
# the first keeps its names. The copies of an event stand beside each other, so every event is still
# after its causes; each copy of the history has participants of its own.
_ID = "({} - 1) * :times + copy.number + 1"
_OTHERS: dict[str, dict[str, str]] = {
    "participants": {
        "number": "participants.number + :participants * copy.number",
        "first_event_id": _ID.format("first_event_id"),
        "last_event_id": _ID.format("last_event_id"),
    },
    "channels": {
        "number": "channels.number + :participants * copy.number",
        "participant": "participant + :participants * copy.number",
        "last_event_id": _ID.format("last_event_id"),
    },
    "events": {
        "id": _ID.format("id"),
        "cause_id": _ID.format("cause_id"),
        "participant": "participant + :participants * copy.number",
        "channel": "channel + :participants * copy.number",
        "recorded_at": f":first + :step * ({_ID.format('id')})",
    },
    "keys": {
        "run": f"-(({_ID.format('event_id')}) >> 16)",
        "event_id": _ID.format("event_id"),
        "key": 'other("key", copy.number)',
    },
    "edges": {"effect_id": _ID.format("effect_id"), "cause_id": _ID.format("cause_id")},
}


def _other(key: bytes, copy: int) -> bytes:
    return blake2b(key, digest_size=len(key), salt=b"%d" % copy).digest() if copy else key


def multiply(small: Path, large: Path, times: int) -> None:
    """Make a store of a small one and copies of it: 5,000,000 events in minutes, not in an hour.

    It is for reading alone: its participants' clocks know nothing of the others, and it has no
    checkpoint.
    """
    shutil.copyfile(small, large)
    with closing(sqlite3.connect(large)) as connection:
        connection.create_function("other", 2, _other, deterministic=True)
        connection.executescript("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF")
        connection.execute("PRAGMA cache_size=-500000")
        connection.execute("ATTACH ? AS small", (str(small),))
        asked = {"times": times, "participants": SERVICES, "first": FIRST_TIME, "step": STEP}
        for table, others in _OTHERS.items():
            _multiply(connection, table, others, asked)
        connection.execute("DELETE FROM blocks")
        connection.execute(
            "INSERT INTO blocks SELECT id / ?, min(recorded_at), max(recorded_at) FROM events"
            " GROUP BY 1",
            (BLOCK,),
        )
        connection.execute("UPDATE event_ids SET next = (SELECT max(id) + 1 FROM events)")
        connection.execute(
            "UPDATE traces SET events = events * :times, last_event_id = last_event_id * :times",
            asked,
        )
        connection.commit()
        connection.execute("PRAGMA journal_mode=WAL")


def _multiply(
    connection: sqlite3.Connection, table: str, others: dict[str, str], asked: dict[str, int]
) -> None:
    indexes = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = ?"
        " AND sql IS NOT NULL",
        (table,),
    ).fetchall()
    for name, _ in indexes:
        connection.execute(f"DROP INDEX {name}")
    connection.execute(f"DELETE FROM {table}")
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    taken = ", ".join(others.get(column, f'{table}."{column}"') for column in columns)
    # The copies inside, so that rows come in the order of their ids.
    connection.execute(
        "WITH RECURSIVE copy (number) AS"
        " (SELECT 0 UNION ALL SELECT number + 1 FROM copy WHERE number < :times - 1)"
        f" INSERT INTO {table} SELECT {taken} FROM small.{table} AS {table} CROSS JOIN copy",
        asked,
    )
    for _, sql in indexes:
        connection.execute(sql)


def stored(folder: Path, events: int) -> Path:
    """The store of this many events, made if it is missing: the large one of the small one."""
    path = folder / f"finding-{events}.db"
    part = path.with_suffix(".part")
    if path.exists():
        return path
    if events <= SMALL:
        asyncio.run(fill(f"sqlite:///{part}", (record for _, _, record in traffic(events)), RULES))
    else:
        multiply(stored(folder, SMALL), part, events // SMALL)
    with closing(sqlite3.connect(part)) as connection:  # its log may hold the newest events
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for leftover in folder.glob(f"{part.name}-*"):
        leftover.unlink()
    return part.rename(path)


def asked(events: int) -> list[tuple[int, int]]:
    """Messages from all over a store that have led to another one, and their requests."""
    causes: dict[int, tuple[int, int]] = {}
    complete: Counter[int] = Counter()
    for _, request, record in traffic(events):
        complete[request] += 1
        name = record.properties["headers"].get("causation_id")
        if name:
            cause = int(name.removeprefix("message "))
            causes[cause] = (cause, request)
    whole = [each for each in causes.values() if complete[each[1]] == 2 * HOPS]
    return random.Random(1).sample(whole, ROUNDS)


async def took(store: Store, wanted: EventFilter, page: bool) -> tuple[float, int]:
    """Ask; how many ms that took, and how many events were found."""
    begin = time.perf_counter()
    if page:
        found = len((await store.events.page(wanted, page=1, page_size=100)).items)
    else:
        found = len((await store.events.find(wanted)).items)
    return 1000 * (time.perf_counter() - begin), found


async def measure(folder: Path, sizes: list[int]) -> None:
    """Print the table."""
    seen: defaultdict[tuple[str, bool, int], list[float]] = defaultdict(list)
    found: dict[str, int] = {}
    async with AsyncExitStack() as stack:
        stores = {}
        for events in sizes:
            stores[events] = await Store.open(f"sqlite:///{stored(folder, events)}")
            stack.push_async_callback(stores[events].close)
        questions = {events: asked(min(events, SMALL)) for events in sizes}
        for number in range(ROUNDS):
            for name, wanted in NAMES.items():
                turns = [*stores.items()][:: -1 if number % 2 else 1]
                for page in (False, True):
                    for events, store in turns:
                        each = wanted(*questions[events][number])
                        await took(store, each, page)  # reads what is not in memory yet
                        ms, count = await took(store, each, page)
                        if found.setdefault(name, count) != count or not count:
                            raise RuntimeError(f"{name}: {count} events, and {found[name]} before")
                        seen[name, page, events].append(ms)
    heads = [f"{events:,}" for events in sizes]
    print(
        "| by | as | events found |", " | ".join(f"ms among {head}" for head in heads), "| ratio |"
    )
    print("|---|---|---|" + "---|" * (len(sizes) + 1))
    for name in NAMES:
        for page in (False, True):
            p50 = [statistics.median(seen[name, page, events]) for events in sizes]
            form = "page" if page else "list"
            cells = " | ".join(f"{ms:.2f}" for ms in p50)
            print(f"| {name} | {form} | {found[name]} | {cells} | {p50[-1] / p50[0]:.2f} |")


def main() -> None:
    """Build what is missing, and measure."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    tune_garbage_collection()
    sizes = [int(each) for each in sys.argv[2:]] or [*SIZES]
    for events in sizes:
        stored(folder, events)
    asyncio.run(measure(folder, sizes))


if __name__ == "__main__":
    main()
