"""The cost of the broker plugin to applications: ``python -m bench.settlements [ROUNDS]``.

The same applications (`bench.traffic`), which acknowledge each message by itself, work with the
plugin enabled and without it, in turns, while nothing is traced and while it is, into a queue that
nobody reads. Each ratio is of two turns in one round; every other round goes backwards.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from app.broker.trace_queue import QueueBounds
from bench.traffic import Traffic
from tools.plugin import NAME, build
from tools.servers import RabbitNode

ROUNDS, SECONDS, CLIENTS, BODY = 6, 3.0, 4, 100
QUEUE = "itc.trace"


def _turn(broker: RabbitNode, vhost: str, *, is_traced: bool, is_enabled: bool) -> float:
    verb = "register" if is_enabled else "unregister"
    broker.ctl("eval", f"rabbit_itc_interceptor:{verb}().")
    if is_traced:
        bounds = QueueBounds()
        held = {"x-max-length-bytes": bounds.bytes, "x-max-length": bounds.messages}
        broker.api("PUT", "queues", vhost, QUEUE, json={"durable": True, "arguments": held})
        place = ("bindings", vhost, "e", "amq.rabbitmq.trace", "q", QUEUE)
        broker.api("POST", *place, json={"routing_key": "#"})
    broker.api("PUT", "vhosts", vhost, json={"tracing": is_traced})
    arguments = [broker.amqp_url(vhost), "bench", "classic", CLIENTS, BODY, SECONDS]
    command = [sys.executable, "-m", "bench.traffic", *map(str, arguments)]
    child = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=180)
    if is_traced:
        broker.api("DELETE", "queues", vhost, QUEUE)
    return msgspec.json.decode(child.stdout, type=Traffic).rate


def main() -> None:
    """Measure, and print the rates and their ratios: median, least, greatest."""
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
                    rates = {
                        is_enabled: _turn(broker, vhost, is_traced=is_traced, is_enabled=is_enabled)
                        for is_enabled in ((False, True) if number % 2 else (True, False))
                    }
                    without.append(rates[False])
                    ratios.append(rates[True] / rates[False])
                print(
                    f"{'traced' if is_traced else 'not traced'}: "
                    f"{statistics.median(without):,.0f}/s without, with it "
                    f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
                    flush=True,
                )


if __name__ == "__main__":
    main()
