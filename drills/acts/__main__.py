"""Rounds of the drill on a real broker.

    python -m drills.acts [PAIRS] [--seed N] [--kills N] [--postgresql] [--plain]
    tools/rabbitmq4 .venv/bin/python -m drills.acts

It goes on until at least this many pairs of events were judged, 200,000 by default; each round is
judged once more after its trace was restamped. In every second
round programs act one at a time, and in the others at once. ``--kills`` is how often the service is
killed in each round, ``--postgresql`` has it store there. ``--plain``: larger rounds in which
nothing dies, and programs name causes of which they heard outside the broker; there the clocks
must say exactly what is true. ``--seed`` draws the first round; each prints its own, which does it
again.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from drills.acts.rounds import ACTIONS, PLAIN_ACTIONS, Round
from drills.acts.topology import PLUGIN
from drills.acts.verdict import RoundResult
from tools.servers import Broker, PostgresServer, RabbitNode

PAIRS = 200_000


async def main(given: argparse.Namespace) -> int:
    """Run rounds; returns the number of errors."""
    total, anew = RoundResult(), RoundResult()
    other = Broker.from_environment(os.environ)
    for library in ("aio_pika", "aiormq", "asyncio"):  # each cut would be told of
        logging.getLogger(library).setLevel(logging.CRITICAL + 1)
    with ExitStack() as stack:
        broker = stack.enter_context(other or RabbitNode(plugins=(PLUGIN,)))
        server = stack.enter_context(PostgresServer()) if given.postgresql else None
        seed = given.seed
        while total.pairs < given.pairs:
            with ExitStack() as each:
                place = Path(each.enter_context(tempfile.TemporaryDirectory()))
                url = f"sqlite:///{place / 'itc.db'}"
                if server is not None:
                    url = each.enter_context(server.fresh_database())
                round_ = Round(
                    broker,
                    url,
                    place,
                    seed,
                    kills=given.kills,
                    keeps=other is None,
                    is_hurried=other is None,
                    restamps=True,
                    is_plain=given.plain,
                    actions=PLAIN_ACTIONS if given.plain else ACTIONS,
                )
                outcome, again = await round_.run()
            print(f"seed {seed}:", *outcome.lines(), sep="\n", flush=True)
            print("restamped:", *again.lines(), sep="\n", flush=True)
            total.add(outcome)
            anew.add(again)
            seed += 1
    total.examples = anew.examples = []
    print("all:", *total.lines(), "restamped:", *anew.lines(), sep="\n")
    print(f"{total.wrong + anew.wrong} errors")
    return total.wrong + anew.wrong


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m drills.acts")
    parser.add_argument("pairs", nargs="?", type=int, default=PAIRS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=0, help="of the service, in each round")
    parser.add_argument("--postgresql", action="store_true")
    parser.add_argument("--plain", action="store_true", help="nothing dies, clocks must be exact")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(arguments())) > 0)
