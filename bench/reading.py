"""How long the API takes to answer: ``python -m bench.reading STORE STORE…``.

Each STORE is a SQLite file built by `bench.stores`, behind a service of its own. All services run
at once, and every round asks each of them each question once, so that whatever else the machine
does affects all of them alike. No broker is needed: nothing here is asked of one.
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

import httpx
import numpy as np

from tools.servers import Child, free_port, port_answers, without_settings

ROUNDS = 200
READY_SECONDS = 90
PAGE = 100
FIRST = "first page"

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


@contextmanager
def serving(database: Path) -> Iterator[httpx.Client]:
    """A service over a store, and a client of it."""
    port, nowhere = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        settings = {
            "ITC_DATABASE_URL": f"sqlite:///{database.absolute()}",
            "ITC_DATA_DIR": folder,
            "ITC_PORT": str(port),
            "ITC_AUTH": "none",
            "ITC_AMQP_URL": f"amqp://127.0.0.1:{nowhere}/",
            "ITC_MANAGEMENT_URL": f"http://127.0.0.1:{nowhere}",
        }
        service = Child(
            "the service",
            [Path(sys.executable).with_name("rabbitmq-itc"), "serve"],
            log=Path(folder) / "log",
            env={**without_settings(), **settings},
        )
        stack.callback(service.stop)
        service.wait_until(lambda: port_answers(port), READY_SECONDS, "being ready")
        yield stack.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60))


def seconds(client: httpx.Client, path: str) -> float:
    """Ask, and return how long the answer took."""
    begin = time.perf_counter()
    client.get(path).raise_for_status()
    return time.perf_counter() - begin


def measure(stores: list[Path], rounds: int) -> dict[tuple[int, str], np.ndarray]:
    """Ask everything in turn; return seconds by number of events and question."""
    seen = defaultdict(list)
    with ExitStack() as stack:
        services = [stack.enter_context(serving(store)) for store in stores]
        counts = [client.get("/itc_db?page=1").json()["total_count"] for client in services]
        chance = random.Random(1)
        for number in range(rounds + 1):
            for name, question in QUESTIONS.items():
                for client, count in zip(services, counts, strict=True):
                    took = seconds(client, question(count, chance))
                    if number:  # the first round only warms up
                        seen[count, name].append(took)
    return {case: np.array(each) for case, each in seen.items()}


def main() -> None:
    """Print the table."""
    seen = measure([Path(name) for name in sys.argv[1:]], ROUNDS)
    sys.stdout.write(
        "| events | asked for | p50 ms | p99 ms | p99 / p99 of the first page |\n"
        "|---|---|---|---|---|\n"
    )
    for (count, name), each in seen.items():
        middle, high = np.percentile(each, [50, 99]) * 1000
        first = np.percentile(seen[count, FIRST], 99) * 1000
        sys.stdout.write(
            f"| {count:,} | {name} | {middle:.1f} | {high:.1f} | {high / first:.2f} |\n"
        )


if __name__ == "__main__":
    main()
