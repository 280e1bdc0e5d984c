"""The cost of tracing to applications: ``python -m bench.overhead``; ``--help`` for its options.

The same applications (`bench.traffic`) work on a private broker with tracing off, on with nobody
bound, on with a bound queue that nobody reads, with bundles in it, on with the service at work, and
so with the broker's plugin, which makes the bundles. They take turns within each round, every other
round backwards, so that each ratio is of two turns in one round. The service runs all the time, and
has a trace only in its own turns.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from signal import SIGTERM
from typing import Any

import msgspec

from app.broker.bundles import bundles_queue, wishes
from app.priority import NICENESS
from bench.traffic import Traffic, at_work, bind, bind_unread
from drills.service import Service
from tools.plugin import NAME, build
from tools.servers import RabbitNode, wait_until

OFF, ON, BOUND, BUNDLED, SERVICE, PLUGIN = STATES = (
    "off",
    "on",
    "bound",
    "bundles, unread",
    "service",
    "with the plugin",
)
BESIDE = "another version"
TRACED, PLUGGED = (SERVICE, PLUGIN, BESIDE), (BUNDLED, PLUGIN)
UNREAD = "itc.trace"  # the plugin bundles for it alone
PAGE = Path(__file__).parents[1] / "docs" / "overhead.md"
BUSY = 0.9  # of a core: above, the load generator was the limit
TRACE_SECONDS = 60
NODE_SECONDS = 60


class Seen(msgspec.Struct, frozen=True):
    """One turn: what applications saw, and the broker's memory and disk behind it, in bytes."""

    kind: str
    body: int
    clients: int
    state: str
    round: int
    traffic: Traffic
    memory: int
    disk: int
    lag: int | None  # trace messages that still waited for the service, at most 1 s old


class Bench:
    """A broker in one of the states, with the service of each that has one."""

    def __init__(self, broker: RabbitNode, vhost: str, services: Mapping[str, Service]) -> None:
        self._broker, self._vhost, self._services = broker, vhost, services

    def turn(self, state: str, kind: str, body: int, clients: int, seconds: float, no: int) -> Seen:
        """Enter a state, have applications work, and leave it."""
        self._enter(state)
        try:
            seen = at_work(self._broker.amqp_url(self._vhost), kind, clients, body, seconds)
            # A broker that has just started does not know.
            wait_until(lambda: "mem_used" in self._node(), NODE_SECONDS, "the broker's memory")
            memory = self._node()["mem_used"]
            lag = self._trace(state)["lag"] if state in TRACED else None
            disk = _size(self._broker.folder / "data")
            self._check(state)
        finally:
            self._leave(state)
        return Seen(kind, body, clients, state, no, seen, memory, disk, lag)

    def _node(self) -> dict[str, Any]:
        return dict(self._broker.api("GET", "nodes")[0])

    def _check(self, state: str) -> None:
        """Raise RuntimeError if the turn was not what it is called, or ServerError."""
        is_on = bool(self._broker.api("GET", "vhosts", self._vhost).get("tracing"))
        if is_on != (state != OFF):
            raise RuntimeError(f"tracing was {'on' if is_on else 'off'} in the turn '{state}'")
        if state in TRACED:  # a short turn is over before its first batch is stored
            wait_until(lambda: bool(self._trace(state)["events"]), TRACE_SECONDS, "the first event")

    def _enter(self, state: str) -> None:
        if state in PLUGGED:
            self._broker.ctl("enable", NAME, tool="rabbitmq-plugins")
        if state in TRACED:
            asyncio.run(self._services[state].start_trace(self._vhost))
            wait_until(lambda: self._trace(state)["state"] == "running", TRACE_SECONDS, "the trace")
            return
        if state in (BOUND, BUNDLED):
            bind_unread(self._broker, self._vhost, UNREAD)
        if state == BUNDLED:
            bind(self._broker, self._vhost, UNREAD, wishes(["#"])[0])
            wait_until(self._is_bundling, TRACE_SECONDS, "the plugin's collector")
        self._broker.api("PUT", "vhosts", self._vhost, json={"tracing": state != OFF})

    def _is_bundling(self) -> bool:
        queues = self._broker.api("GET", "queues", self._vhost)
        return any(queue["name"] == bundles_queue(UNREAD) for queue in queues)

    def _leave(self, state: str) -> None:
        if state in TRACED:
            asyncio.run(self._services[state].stop_trace(self._vhost))
        if state in PLUGGED:
            self._broker.ctl("disable", NAME, tool="rabbitmq-plugins")
        if state in (BOUND, BUNDLED):
            self._broker.api("DELETE", "queues", self._vhost, UNREAD)
        self._broker.api("PUT", "vhosts", self._vhost, json={"tracing": False})

    def _trace(self, state: str) -> dict[str, Any]:
        place = f"{self._vhost}/undefined/undefined/undefined"
        one: dict[str, Any] = asyncio.run(self._services[state].get(place))
        return one


@contextmanager
def _serving(broker: RabbitNode, folder: Path, checkout: Path | None = None) -> Iterator[Service]:
    """A service, of another version in a ``checkout``, as far behind its broker as usual.

    It leaves its priority alone where it begins with another than the usual, as this may have.
    """
    folder.mkdir()
    service = Service(broker, f"sqlite:///{folder / 'itc.db'}", folder, checkout=checkout)
    service.start()
    try:
        asyncio.run(service.listening())
        niceness = os.getpriority(os.PRIO_PROCESS, 0) + NICENESS
        for thread in Path(f"/proc/{service.process.pid}/task").iterdir():
            os.setpriority(os.PRIO_PROCESS, int(thread.name), niceness)
        yield service
    finally:
        service.end(SIGTERM)


def _size(folder: Path) -> int:
    """Bytes of the files below; the broker removes some while they are counted."""
    total = 0
    for file in folder.rglob("*"):
        try:
            total += file.stat().st_size if file.is_file() else 0
        except FileNotFoundError:
            continue
    return total


def measured(options: argparse.Namespace) -> tuple[str, list[Seen]]:
    """The broker's version, and every turn."""
    seen: list[Seen] = []
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        plugins = folder / "plugins"
        plugins.mkdir()
        build(plugins)
        broker = stack.enter_context(RabbitNode(plugins_folder=plugins))
        vhost = stack.enter_context(broker.fresh_vhost())
        own = stack.enter_context(_serving(broker, folder / "own"))
        services = {SERVICE: own, PLUGIN: own}
        if options.beside is not None:
            services[BESIDE] = stack.enter_context(_serving(broker, folder / "b", options.beside))
        states = [*STATES, *(services.keys() - {*STATES})]
        bench = Bench(broker, vhost, services)
        for kind, body, clients in product(options.queues, options.bodies, options.clients):
            # Not counted: it makes the queues, and the first to use them is slower.
            bench.turn(OFF, kind, body, clients, options.seconds, -1)
            for number in range(options.rounds):
                # Back and forth, lest one state always follow the service's turn.
                for state in states if number % 2 == 0 else states[::-1]:
                    seen.append(bench.turn(state, kind, body, clients, options.seconds, number))
        return str(broker.api("GET", "overview")["rabbitmq_version"]), seen


def _ratio(turns: Sequence[Seen], state: str, what: str) -> tuple[float, float, float]:
    """A state's ratio to the turn without tracing of the same round: median, least, greatest."""
    values = {(one.state, one.round): getattr(one.traffic, what) for one in turns}
    ratios = [
        value / values[OFF, number] for (which, number), value in values.items() if which == state
    ]
    return statistics.median(ratios), min(ratios), max(ratios)


def _spread(turns: Sequence[Seen], state: str, what: str) -> str:
    return "{:.2f} ({:.2f} to {:.2f})".format(*_ratio(turns, state, what))


def _row(turns: Sequence[Seen]) -> str:
    off = [one for one in turns if one.state == OFF]

    def middle(what: str) -> float:
        return float(statistics.median(getattr(one.traffic, what) for one in off))

    first, limit = off[0], "!" if middle("busy") > BUSY else ""
    cells = [f"{middle('rate'):,.0f}/s{limit}"]
    states = dict.fromkeys(one.state for one in turns if one.state != OFF)
    cells += [_spread(turns, state, "rate") for state in states]
    for what in ("confirm_p50", "confirm_p99"):
        cells += [f"{middle(what):.1f} ms", _spread(turns, PLUGIN, what)]
    return f"| {first.kind} | {first.body:,} | {first.clients} | {' | '.join(cells)} |"


def table(seen: Sequence[Seen]) -> list[str]:
    """The rows of a table in Markdown: figures without tracing, ratios to them with it."""
    heads = (
        *("queue", "body, bytes", "clients", *dict.fromkeys(one.state for one in seen)),
        *("confirm p50, off", PLUGIN, "confirm p99, off", PLUGIN),
    )
    cases: dict[tuple[str, int, int], list[Seen]] = {}
    for one in seen:
        cases.setdefault((one.kind, one.body, one.clients), []).append(one)
    return [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *map(_row, cases.values())]


def markers(version: str) -> tuple[str, str]:
    """Return the lines before and behind the table of a broker's series, as 4.3, in a document."""
    series = ".".join(version.split(".")[:2])
    return f"<!-- bench.overhead {series}: begin -->", f"<!-- bench.overhead {series}: end -->"


def write_between(document: Path, version: str, lines: Sequence[str]) -> None:
    """Put lines between the markers of a broker's series; raises ValueError without those."""
    begin, end = markers(version)
    before, _, rest = document.read_text().partition(begin)
    _, marker, after = rest.partition(end)
    if not marker:
        raise ValueError(f"{document} has no markers {begin} and {end}")
    document.write_text("\n".join((before + begin, "", *lines, "", end)) + after)


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bodies", type=int, nargs="+", default=[100, 1000, 65536])
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 64])
    parser.add_argument("--queues", nargs="+", default=["classic", "quorum"])
    parser.add_argument("--seconds", type=float, default=1.5, help="of each turn")
    parser.add_argument("--rounds", type=int, default=2, help="an even number")
    parser.add_argument("--beside", type=Path, help="a built checkout of another version")
    parser.add_argument("--json", action="store_true", help="print every turn")
    parser.add_argument("--markdown", action="store_true", help=f"write into docs/{PAGE.name}")
    return parser.parse_args(words)


def main() -> None:
    """Measure, and print the table or write it into the document."""
    options = arguments()
    machine = f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} before"
    version, seen = measured(options)
    if options.json:
        sys.stdout.write(msgspec.json.encode(seen).decode() + "\n")
        return
    rounds = f"{options.rounds} rounds of {options.seconds:g} s for each state"
    said = f"RabbitMQ {version}, {machine}, {rounds}:"
    lines = [said, "", *table(seen)]
    sys.stdout.write("\n".join(lines) + "\n")
    if options.markdown:
        write_between(PAGE, version, lines)


if __name__ == "__main__":
    main()
