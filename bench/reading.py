"""The time that the API takes to answer: ``python -m bench.reading [CHECKOUT:]STORE…``.

Each STORE is a SQLite file built by `bench.stores`, behind a service of its own; with a CHECKOUT,
behind that of another version of this repository, for a before and an after of one run. All
services run at once, and every round asks each of them each question once, so that whatever else
the machine does affects all of them alike. No broker is needed: nothing here is asked of one.
Processor time is that of the service's threads while it answers.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx2
import numpy as np

from tools.servers import Child, free_port, port_answers, without_settings

ROUNDS = 100
READY_SECONDS = 90
PAGE = 100
FIRST = "first page"
OURS = Path(__file__).parents[1]

Question = Callable[[int, random.Random], str]

# From the number of events and a random generator to a path.
QUESTIONS: dict[str, Question] = {
    FIRST: lambda count, chance: f"/itc_db?page=1&page_size={PAGE}",
    "page in the middle": lambda count, chance: (
        f"/itc_db?page_size={PAGE}&page={count // PAGE // 2 + chance.randrange(10)}"
    ),
    "behind an id in the middle": lambda count, chance: (
        f"/itc_db?page_size={PAGE}&after={count // 2 + chance.randrange(1000)}"
    ),
    "by message id": lambda count, chance: (
        f"/itc_db?page_size={PAGE}&message_id={chance.randrange(count // 2)}"
    ),
    "compare": lambda count, chance: (
        f"/itc_db/compare/{chance.randrange(1, count)}/{chance.randrange(1, count)}"
    ),
    "causes": lambda count, chance: f"/itc_db/events/{_late(count, chance)}/causes",
    "effects": lambda count, chance: f"/itc_db/events/{chance.randrange(1, count)}/effects",
    "event": lambda count, chance: f"/itc_db/events/{_late(count, chance)}",
    "deliveries": lambda count, chance: f"/itc_db/events/{_late(count, chance) | 1}/deliveries",
}


def _late(count: int, chance: random.Random) -> int:
    return chance.randrange(count // 2, count)


class Served(NamedTuple):
    """A store behind a service."""

    name: str
    client: httpx2.Client
    pid: int
    events: int


class Answer(NamedTuple):
    """The cost of an answer: seconds, and seconds of the service's processor time."""

    seconds: float
    processor: float


@contextmanager
def serving(named: str, indexed: str = "") -> Iterator[Served]:
    """A service over a store: a SQLite file, with a checkout or without, or any database's URL.

    ``indexed`` is a header that it has indexed.
    """
    checkout, url = "", named
    if "://" not in named:
        checkout, _, file = named.rpartition(":")
        url = f"sqlite:///{Path(file).absolute()}"
    port, nowhere = free_port(), free_port()
    folder_of_code = Path(checkout or OURS).absolute()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        settings = {
            "ITC_DATABASE_URL": url,
            "ITC_DATA_DIR": folder,
            "ITC_PORT": str(port),
            "ITC_AUTH": "none",
            "ITC_INDEXED_HEADERS": indexed,
            "ITC_AMQP_URL": f"amqp://127.0.0.1:{nowhere}/",
            "ITC_MANAGEMENT_URL": f"http://127.0.0.1:{nowhere}",
            "PYTHONPATH": str(folder_of_code),
        }
        service = Child(
            "the service",
            [sys.executable, "-m", "app.cli", "serve"],
            log=Path(folder) / "log",
            env={**without_settings(), **settings},
            cwd=folder_of_code,
        )
        stack.callback(service.stop)
        service.wait_until(lambda: port_answers(port), READY_SECONDS, "being ready")
        client = httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
        stack.enter_context(client)
        count = client.get("/itc_db?page=1").json()["total_count"]
        yield Served(named, client, service.pid, count)


def processor_seconds(pid: int) -> float:
    """Add up the time of all threads of a process so far."""
    times = (each.read_text() for each in Path(f"/proc/{pid}/task").glob("*/schedstat"))
    return sum(int(each.split()[0]) for each in times) / 1e9


def ask(served: Served, path: str) -> Answer:
    """Ask, and return what the answer took."""
    before, begin = processor_seconds(served.pid), time.perf_counter()
    served.client.get(path).raise_for_status()
    seconds = time.perf_counter() - begin
    return Answer(seconds, processor_seconds(served.pid) - before)


def measure(stores: list[str], rounds: int) -> dict[tuple[str, str], np.ndarray]:
    """Ask everything in turn; return the answers by question and store."""
    seen = defaultdict(list)
    with ExitStack() as stack:
        services = [stack.enter_context(serving(store)) for store in stores]
        for number in range(rounds + 1):
            for name, question in QUESTIONS.items():
                for served in services:  # the same to all of one size
                    chance = random.Random(f"{name} {number}")
                    answer = ask(served, question(served.events, chance))
                    if number:  # the first round only warms up
                        seen[name, served.name].append(answer)
    return {case: np.array(each) * 1000 for case, each in seen.items()}


def main() -> None:
    """Print the table."""
    seen = measure(sys.argv[1:], ROUNDS)
    sys.stdout.write(
        "| asked for | store | p50 ms | p95 ms | p99 ms | processor ms |\n"
        "|---|---|---|---|---|---|\n"
    )
    for (name, store), each in seen.items():
        middle, high, higher = np.percentile(each[:, 0], [50, 95, 99])
        processor = np.median(each[:, 1])
        sys.stdout.write(
            f"| {name} | {store} | {middle:.1f} | {high:.1f} | {higher:.1f} | {processor:.1f} |\n"
        )


if __name__ == "__main__":
    main()
