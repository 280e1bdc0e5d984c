"""What a trace saves that takes no bodies: ``python -m bench.partial [COUNT [ROUNDS]]``.

The same backlog of real trace messages, in two trace queues, is drained by the service with bodies
and without, one after the other, each in a process of its own and into a SQLite file of its own.
The broker's work is the same for both: its firehose always hands bodies over.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from bench.backlog import fill
from tools.servers import Broker, RabbitNode

COUNT, ROUNDS = 20_000, 3
SIZES = (100, 1_000, 64_000)  # bytes of each body
MOST_BYTES = 400_000_000  # of one backlog's bodies: fewer messages of a size that would have more
PARTICIPANTS = 4


class Spent(NamedTuple):
    """For each message: µs of the service's processor time, and bytes of its store."""

    processor: float
    stored: float


def drained(broker: Broker, vhost: str, bodies: str, count: int) -> Spent:
    """Drain the queue that is named after what is taken of its bodies (``on``, ``off``)."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "itc.db"
        child = subprocess.run(
            [
                *(sys.executable, "-m", "bench.drain", "service", broker.amqp_url(vhost)),
                *(broker.management_url, vhost, bodies, str(count), f"sqlite:///{path}"),
                *("on", bodies),
            ],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            timeout=600,
        )
        _, processor = map(float, child.stdout.split())
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
        return Spent(processor / count * 1e6, size / count)


def one_round(broker: RabbitNode, size: int, count: int) -> dict[str, Spent]:
    """Fill and drain; return what was spent with bodies ``on`` and ``off``."""
    with broker.fresh_vhost() as vhost:
        queues = ("on", "off")
        payload = b"x" * size
        asyncio.run(fill(broker, vhost, queues, PARTICIPANTS, count, payload=payload))
        return {bodies: drained(broker, vhost, bodies, count) for bodies in queues}


def row(broker: RabbitNode, size: int, count: int, rounds: int) -> str:
    """Return a size's row of the table: medians over the rounds."""
    count = min(count, MOST_BYTES // size)
    seen = [one_round(broker, size, count) for _ in range(rounds)]
    cells = [f"{size:,} B", f"{count:,}"]
    for what in range(len(Spent._fields)):
        full, left = (statistics.median(one[how][what] for one in seen) for how in ("on", "off"))
        cells += [f"{full:,.0f}", f"{left:,.0f}"]
        cells.append(f"{statistics.median(one['off'][what] / one['on'][what] for one in seen):.2f}")
    return f"| {' | '.join(cells)} |\n"


def main() -> None:
    """Print the table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    sys.stdout.write(
        "| body | messages | µs with | without | ratio | bytes stored with | without | ratio |\n"
        "|---|---|---|---|---|---|---|---|\n"
    )
    with RabbitNode() as broker:
        for size in SIZES:
            sys.stdout.write(row(broker, size, count, rounds))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
