"""The cost of the broker plugin to applications: ``python -m bench.settlements [ROUNDS]``.

The same applications (`bench.traffic`), which acknowledge each message by itself, work with the
plugin enabled and without it, in short turns, while nothing is traced and while it is, into a queue
that nobody reads. Each ratio is of a round of four turns, two with and two without it, in the order
of ABBA or BAAB, so that what the machine does beside them falls on both. What is printed is the
median of the ratios, and between which two it lies in 95 % of such measurements (`interval`).
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import tempfile
from pathlib import Path

from bench.traffic import at_work, bind_unread
from tools.plugin import NAME, build
from tools.servers import RabbitNode

ROUNDS, SECONDS, CLIENTS, BODY = 16, 1.5, 4, 100
RESAMPLED = 10_000
QUEUE = "itc.trace"


def _turn(broker: RabbitNode, vhost: str, *, is_traced: bool, is_enabled: bool) -> float:
    verb = "register" if is_enabled else "unregister"
    broker.ctl("eval", f"rabbit_itc_interceptor:{verb}().")
    if is_traced:
        bind_unread(broker, vhost, QUEUE)
    broker.api("PUT", "vhosts", vhost, json={"tracing": is_traced})
    seen = at_work(broker.amqp_url(vhost), "classic", CLIENTS, BODY, SECONDS)
    if is_traced:
        broker.api("DELETE", "queues", vhost, QUEUE)
    return seen.rate


def interval(ratios: list[float]) -> tuple[float, float]:
    """Between which two their median lies in 95 % of all cases, by resampling them."""
    chance = random.Random(1)
    medians = sorted(
        statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(RESAMPLED)
    )
    return medians[RESAMPLED // 40], medians[-RESAMPLED // 40]


def main() -> None:
    """Measure, and print the rates and the median of their ratios."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with tempfile.TemporaryDirectory() as name:
        build(Path(name))
        with (
            RabbitNode(plugins=(NAME,), plugins_folder=Path(name)) as broker,
            broker.fresh_vhost() as vhost,
        ):
            _turn(broker, vhost, is_traced=False, is_enabled=False)  # the first is slower
            print(f"RabbitMQ {broker.api('GET', 'overview')['rabbitmq_version']}")
            for is_traced in (False, True):
                ratios, without = [], []
                for number in range(rounds):
                    rates = {True: 0.0, False: 0.0}
                    for is_enabled in (True, False, False, True):
                        is_enabled ^= bool(number % 2)
                        rates[is_enabled] += _turn(
                            broker, vhost, is_traced=is_traced, is_enabled=is_enabled
                        )
                    without.append(rates[False] / 2)
                    ratios.append(rates[True] / rates[False])
                least, most = interval(ratios)
                print(
                    f"{'traced' if is_traced else 'not traced'}: "
                    f"{statistics.median(without):,.0f}/s without, with it "
                    f"{statistics.median(ratios):.3f} ({least:.3f} to {most:.3f}; "
                    f"single rounds {min(ratios):.2f} to {max(ratios):.2f}; "
                    f"load {os.getloadavg()[0]:.1f})",
                    flush=True,
                )


if __name__ == "__main__":
    main()
