"""Does the service tell the truth? Compares its relations of events with the clients' own clocks.

    python -m drills.truth [PAIRS]        100,000 by default, in each of ten workloads

3 to 50 sequential clients (`drills.workload`) keep vector clocks of their own; in half of the
workloads their messages name causes of which they heard outside the broker (`drills.hearsay`). For
pairs of stored events, drawn at random, the stamps must be related as those clocks are. The number
of disagreements must be 0, and exactly the clients' events must be stored, each once.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from drills.clocks import Clock, relation
from drills.hearsay import Hearsay
from drills.judge import opened, stored_events
from drills.service import Service
from drills.workload import event_name, work
from itc import compare
from model.event import Event
from tools.servers import Broker, RabbitNode

PAIRS = 100_000
# Clients, and what each does.
WORKLOADS = ((3, 1_500), (8, 600), (16, 300), (32, 150), (50, 100))


class Verdict(NamedTuple):
    """The result. ``relations`` counts how often each was seen; the rest except pairs must be 0."""

    events: int
    pairs: int
    relations: dict[str, int]
    disagreements: list[tuple[str, str, str]]  # two events, and what the service says of them
    missing: int  # clients' events that are not stored, or stored ones that no client made

    @property
    def wrong(self) -> int:
        """The number of errors."""
        return len(self.disagreements) + self.missing


def judged(events: Sequence[Event], history: dict[str, Clock], pairs: int, seed: int) -> Verdict:
    """Compare the relations of this many random pairs."""
    names = [event_name(event) for event in events]
    stored, made = Counter(names), Counter(list(history))
    missing = (stored - made) + (made - stored)
    known = [(event, name) for event, name in zip(events, names, strict=True) if name in history]
    relations: Counter[str] = Counter()
    disagreements = []
    sample = random.Random(seed)
    for _ in range(pairs):
        (a, a_name), (b, b_name) = sample.choice(known), sample.choice(known)
        service_says = compare(a.stamp, b.stamp).name
        relations[service_says] += 1
        if service_says != relation(history[a_name], history[b_name]):
            disagreements.append((a_name, b_name, service_says))
    return Verdict(len(events), pairs, dict(relations), disagreements, missing.total())


async def trial(
    broker: Broker,
    folder: Path,
    workers: int,
    actions: int,
    pairs: int,
    hearsay: Hearsay | None = None,
) -> Verdict:
    """Run one workload with a service of its own, and judge what that stored."""
    url = f"sqlite:///{folder / 'itc.db'}"
    service = Service(broker, url, folder)
    with broker.fresh_vhost("truth") as vhost:
        async with service.tracing(vhost):
            history = await work(broker.amqp_url(vhost), workers, workers, actions, hearsay)
            await service.stop_trace(vhost)  # which empties the trace queue into the store
            async with opened(url) as store:
                events = [event async for event in stored_events(store)]
                return judged(events, history, pairs, seed=workers)


async def main(pairs: int) -> int:
    """Run all workloads on a private broker; returns the number of errors."""
    given = Broker.from_environment(os.environ)
    wrong = compared = 0
    with given or RabbitNode() as broker:
        for (workers, actions), names in itertools.product(WORKLOADS, (False, True)):
            hearsay = Hearsay() if names else None
            with tempfile.TemporaryDirectory() as place:
                verdict = await trial(broker, Path(place), workers, actions, pairs, hearsay)
            named = f", {hearsay.named} causes named" if hearsay else ""
            print(
                f"{workers} clients, {verdict.events} events{named}:", verdict.relations, flush=True
            )
            for each in verdict.disagreements[:10]:
                print("  disagreement:", *each)
            wrong += verdict.wrong
            compared += verdict.pairs
    print(f"{compared} pairs compared, {wrong} disagreements or missing events")
    return wrong


if __name__ == "__main__":
    sys.exit(asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS)) > 0)
