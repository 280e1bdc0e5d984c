"""The store's settlements against the clients' logs: ``python -m drills.dispositions [MESSAGES]``.

    python -m drills.dispositions 50000 --work quorum --seed 3
    tools/rabbitmq4 .venv/bin/python -m drills.dispositions

The consumers of `drills.settlements` settle messages while the service is killed with SIGKILL, and
so are the broker and the process of its plugin that makes bundles. Then each delivery in the store
must have become what its client's log says by the broker's rules. Which delivery is which is known
from what each channel publishes of itself now and then. What a client sent just before its channel
broke off may or may not have been handled: there either is right, and these are counted apart.
Unknown may be only what a channel had, or was handed, while there was a recorded gap; what a
channel with an auto-ack consumer is handed once it gets one by hand; and what a channel held, or
had settled and not committed, when it settled what it may not have held any more.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pika
import pika.exceptions
import sqlalchemy as sa
from pika.adapters.blocking_connection import BlockingChannel
from sqlalchemy.ext.asyncio import create_async_engine

from app.broker.bundles import bundles_queue
from app.broker.consumer import TRACE_QUEUE
from drills.service import Service
from drills.settlements import MARKS, UNKNOWN_TAG, WORK, Consumer, Life, is_empty
from model.words import Disposition, EventType
from tools.plugin import NAME, build
from tools.servers import PostgresServer, RabbitNode, wait_until

CONSUMERS = 4
SHORT = 200
KILLS = 5, 2, 3  # of the service, the broker, and the plugin's process
CAUGHT_UP_SECONDS = 600
DELIVERIES = (
    "SELECT e.id, e.type, e.queue, e.routing_keys, e.payload, e.settlement, e.settled_at,"
    " e.recorded_at, c.connection, c.channel FROM events AS e JOIN channels AS c"
    " ON c.trace_id = e.trace_id AND c.number = e.channel ORDER BY e.id"
)
GAPS = "SELECT after_event_id, before_event_id, reason, suspected FROM gaps"
PERSISTENT = pika.BasicProperties(delivery_mode=2)  # type: ignore[no-untyped-call]
# What a client has, and has sent, is not the broker's yet, or any more (µs).
NEAR = 1_000_000


class Told(NamedTuple):
    """A delivery as the store has it; times in µs."""

    id: int
    body: bytes
    settlement: str | None
    settled_at: int | None
    recorded_at: int


@dataclass
class Outcome:
    """What may have become of a delivery, if ``of`` has several, and when at the earliest (µs)."""

    of: set[str] = field(default_factory=set)
    at: int = 0
    is_odd: bool = False  # it may be unknown, as its channel did what none should


@dataclass
class Report:
    """Numbers of deliveries, and each fault in words."""

    channels: int = 0
    right: Counter[str] = field(default_factory=Counter)
    uncertain: int = 0  # right, where more than one would be
    unknown: int = 0  # in recorded gaps, and so are those that are not placed
    odd: int = 0
    unplaced: int = 0
    missing: int = 0
    gaps: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def outcomes(life: Life, most: int) -> dict[int, Outcome]:
    """What may have become of each of a channel's first ``most`` deliveries, by the broker's rules.

    Of what was sent since the broker's last answer nobody knows whether it was handled. Nor which
    of the deliveries that were on their way a method meant that is about all of them.
    """
    found: dict[int, Outcome] = defaultdict(Outcome)
    hand: dict[int, None] = {}
    taken: dict[int, str] = {}
    unanswered: list[int] = []
    sweeps: list[str] = []
    is_tx = is_auto = is_odd = False
    asks = False

    def end(tag: int, outcome: str, at: int) -> None:
        hand.pop(tag, None)
        found[tag].at = 0 if found[tag].of else at  # it may have been settled by an earlier one
        found[tag].of.add(outcome)
        unanswered.append(tag)

    for at, step in life.log:
        match step:
            case ("consumer", _, auto):
                is_auto = auto
            case ("get", _, auto):
                asks, is_odd = auto, is_odd or is_auto
            case ("handed" | "got" as how, tag):
                found[tag].is_odd = is_odd
                if asks if how == "got" else is_auto:
                    found[tag].of = {"auto"}
                else:
                    hand[tag] = None
                    found[tag].of = set(sweeps)
            case ("answered", name):
                if name != "Channel.Close" or _was_refused(life):
                    unanswered.clear()
                    sweeps.clear()
            case ("recovered",):
                for tag in [*hand]:
                    end(tag, "returned", at)
                sweeps.append("returned")
            case ("selected",):
                is_tx = True
            case ("committed",):
                for tag, outcome in taken.items():
                    end(tag, outcome, at)
                taken.clear()
            case ("rolled_back",):
                hand |= dict.fromkeys(taken)
                taken.clear()
            case ("settled", outcome, tag, multiple) if tag != UNKNOWN_TAG:
                tags = [each for each in hand if tag == 0 or each <= tag] if multiple else [tag]
                if tag == 0:
                    sweeps.append(outcome)
                elif tag not in hand or any(found[each].of for each in tags):
                    is_odd = True
                    for each in (*hand, *taken, *tags):
                        found[each].is_odd = True
                for each in tags:
                    if each not in hand:
                        found[each].of |= {outcome, "channel_closed"}
                    elif is_tx:
                        taken[each] = outcome
                        del hand[each]
                    else:
                        end(each, outcome, at)
    for tag in (*hand, *taken, *unanswered):
        found[tag].of.add("channel_closed")
    rest = {"auto"} if is_auto else {"channel_closed", *sweeps}
    return {
        tag: found[tag] if tag in found else Outcome(rest, is_odd=is_odd)
        for tag in range(1, most + 1)
    }


def _was_refused(life: Life) -> bool:
    """Tell whether the last that a channel sent was what the broker closed it for."""
    sent = [step for _, step in life.log if step[0] not in ("handed", "got", "answered")]
    return bool(sent) and sent[-1][:3] == ("settled", "acknowledged", UNKNOWN_TAG)


async def judge(url: str, lives: Sequence[Life]) -> Report:
    """Compare the store with the clients' logs."""
    report = Report()
    engine = create_async_engine(url)
    async with engine.connect() as store:
        deliveries = _deliveries((await store.execute(sa.text(DELIVERIES))).all())
        gaps = (await store.execute(sa.text(GAPS))).all()
    await engine.dispose()
    report.gaps = [f"{reason}{' (suspected)' * bool(suspected)}" for *_, reason, suspected in gaps]
    times = list(_times(lives, deliveries, gaps))
    for life in lives:
        if not life.log:
            continue
        report.channels += 1
        # It was there in a gap: what it was handed and settled then may be missing.
        first, last = life.log[0][0], life.log[-1][0]
        is_near_gap = any(low - NEAR <= last and first <= high + NEAR for low, high in times)
        _judge(life, deliveries.pop(str(id(life)), []), report, is_near_gap=is_near_gap)
    right = report.right.total()
    if right < report.unknown + report.unplaced + report.missing:
        report.faults.append(f"only {right} were compared, as the rest lies in gaps")
    left = sum(map(len, deliveries.values()))
    if left:
        report.faults.append(
            f"{left} deliveries on channels that there were not: {[*deliveries][:3]}"
        )
    return report


def _times(
    lives: Iterable[Life], deliveries: dict[str, list[Told]], gaps: Iterable[Sequence[Any]]
) -> Iterator[tuple[float, float]]:
    """Between which times of the clients a gap is, by what is stored around it: we may be late."""
    clock = []
    for life in lives:
        at = {life.handed.get(step[1]): at for at, step in life.log if step[0] in ("handed", "got")}
        stored = deliveries.get(str(id(life)), [])
        clock += [(each.id, at[each.body]) for each in stored if each.body in at]
    for after, before, *_ in gaps:
        earlier = [at for key, at in clock if key <= (after or 0)]
        later = [at for key, at in clock if before is not None and before <= key]
        yield max(earlier, default=0), min(later, default=float("inf"))


def _deliveries(rows: Iterable[Sequence[Any]]) -> dict[str, list[Told]]:
    """The stored deliveries of each channel's life, in order."""
    names = {int(each): each.name for each in Disposition}
    lives: dict[tuple[str, int], str] = {}
    early: dict[tuple[str, int], list[Told]] = defaultdict(list)
    found: dict[str, list[Told]] = defaultdict(list)
    for key, kind, queue, routing, body, how, settled_at, recorded_at, *place in rows:
        where = (place[0], place[1])
        if kind == EventType.published:
            if routing == f'["{MARKS}"]':
                lives[where] = body.decode()
                found[lives[where]] += early.pop(where, [])
        elif queue == WORK:
            told = Told(key, body, names.get(how), settled_at, recorded_at)
            (found[lives[where]] if where in lives else early[where]).append(told)
    for where, left in early.items():
        found[f"of {where}"] = left
    return found


def _judge(life: Life, told: list[Told], report: Report, *, is_near_gap: bool) -> None:
    places = _places(life, [each.body for each in told])
    where = f"{life.connection} {life.channel}"
    if not is_near_gap:
        places = [each for each in places if each == 0]
    if len(places) != 1:
        if is_near_gap:
            report.unplaced += len(told)
        else:
            report.faults.append(f"{where}: {len(told)} deliveries are not what it was handed")
        return
    [skipped] = places
    missing = max(len(life.handed) - skipped - len(told), 0) + skipped
    report.missing += missing
    if missing and not is_near_gap:
        report.faults.append(f"{where}: {missing} of {len(life.handed)} deliveries are not stored")
    expected = outcomes(life, skipped + len(told))
    for tag, each in enumerate(told, skipped + 1):
        may = expected[tag]
        if each.settlement is None and (is_near_gap or may.is_odd):
            report.unknown += is_near_gap
            report.odd += not is_near_gap
        elif each.settlement not in may.of:
            report.faults.append(f"{where} tag {tag}: {each} is not {may}")
        elif each.settlement != "auto" and (each.settled_at or 0) < may.at and len(may.of) == 1:
            report.faults.append(f"{where} tag {tag}: {each} was settled before {may.at}")
        else:
            report.right[str(each.settlement)] += 1
            report.uncertain += len(may.of) > 1


def _places(life: Life, bodies: list[bytes]) -> list[int]:
    """How many of a channel's deliveries may be missing before these, which follow one another."""
    handed = [life.handed.get(tag) for tag in range(1, max(life.handed, default=0) + 1)]
    return [
        skipped
        for skipped in range(max(len(handed), 1))
        if all(
            one is None or one == other
            for one, other in zip(handed[skipped:], bodies, strict=False)
        )
        and (skipped == 0 or len(bodies) > 1)
    ]


class Publisher:
    """Publishes numbered messages, and again what was not confirmed as the broker was killed."""

    def __init__(self, broker: RabbitNode, vhost: str, arguments: dict[str, Any]) -> None:
        self._url = broker.amqp_url(vhost)
        self._arguments = arguments
        self._channel: BlockingChannel | None = None

    def publish(self, number: int) -> None:
        """Publish one, once the queue is short."""
        while True:
            with suppress(OSError, pika.exceptions.AMQPError):
                channel = self._opened()
                while number % SHORT == 0 and _count(channel) >= SHORT:
                    time.sleep(0.02)
                channel.basic_publish("", WORK, str(number).encode(), PERSISTENT)
                return
            self._channel = None
            time.sleep(0.1)

    def _opened(self) -> BlockingChannel:
        if self._channel is None:
            connection = pika.BlockingConnection(pika.URLParameters(self._url))
            self._channel = connection.channel()
            self._channel.confirm_delivery()
            self._channel.queue_declare(WORK, durable=True, arguments=self._arguments)
        return self._channel


def _count(channel: BlockingChannel) -> int:
    declared: Any = channel.queue_declare(WORK, passive=True)
    return int(declared.method.message_count)


class Load:
    """Messages and those who settle them, and what is killed meanwhile."""

    def __init__(self, broker: RabbitNode, service: Service, vhost: str, seed: int) -> None:
        self._broker, self._service, self._vhost = broker, service, vhost
        self._random = random.Random(seed)
        self._stop = threading.Event()
        url = broker.amqp_url(vhost)
        self._consumers = [
            Consumer(url, seed * 100 + each, self._stop) for each in range(CONSUMERS)
        ]

    def run(self, messages: int, arguments: dict[str, Any], kills: list[Any]) -> list[Life]:
        """Publish all, with ``kills`` in between; returns what the clients did."""
        publisher = Publisher(self._broker, self._vhost, arguments)
        publisher.publish(0)
        threads = [threading.Thread(target=each.run, daemon=True) for each in self._consumers]
        for thread in threads:
            thread.start()
        at = dict(
            zip(sorted(self._random.sample(range(1, messages), len(kills))), kills, strict=True)
        )
        for number in range(1, messages):
            if number in at:
                at[number]()
            publisher.publish(number)
        wait_until(self._is_done, 3600, "all messages settled")
        self._stop.set()
        for thread in threads:
            thread.join()
        return [life for each in self._consumers for life in each.lives]

    def _is_done(self) -> bool:
        return is_empty(self._broker, self._vhost, WORK)

    def kill_service(self) -> None:
        """Kill the service, and start it again; what is traced meanwhile waits for it."""
        self._service.end(signal.SIGKILL)
        self._service.start()

    def kill_broker(self) -> None:
        """Kill the broker, start it again, and wait until the service has it trace again."""
        self._broker.kill()
        self._broker.start()
        wait_until(self._is_traced, CAUGHT_UP_SECONDS, "the service has tracing on again")

    def kill_collector(self) -> None:
        """Kill the process that makes bundles, once there is one."""
        queue = f'<<"{self._vhost}">>, queue, <<"{bundles_queue(TRACE_QUEUE)}">>'
        kill = f"catch exit(rabbit_itc_topology:process(rabbit_misc:r({queue})), kill)."
        wait_until(lambda: self._broker.ctl("eval", kill).strip() == "true", 60, "it is killed")

    def _is_traced(self) -> bool:
        return bool(self._broker.api("GET", "vhosts", self._vhost)["tracing"])


async def drill(
    broker: RabbitNode,
    url: str,
    folder: Path,
    messages: int,
    work: str,
    seed: int,
    kills: Sequence[int] = (0, 0, 0),
) -> Report:
    """Run it on a virtual host of its own; returns the verdict."""
    service = Service(broker, url, folder)
    limit = {"x-delivery-limit": 1000} if work == "quorum" else {}  # 20 on RabbitMQ 4
    with broker.fresh_vhost("settled") as vhost:
        async with service.tracing(vhost):
            load = Load(broker, service, vhost, seed)
            ways = (load.kill_service, load.kill_broker, load.kill_collector)
            chosen = [way for way, count in zip(ways, kills, strict=True) for _ in range(count)]
            random.Random(seed).shuffle(chosen)
            arguments = {"x-queue-type": work, **limit}
            lives = await asyncio.to_thread(load.run, messages, arguments, chosen)
            await service.listening()
            await asyncio.to_thread(
                wait_until,
                lambda: is_empty(broker, vhost, TRACE_QUEUE, most=1),  # the service's sentinel
                CAUGHT_UP_SECONDS,
                "all that was traced is stored",
            )
            await asyncio.to_thread(service.end, signal.SIGTERM)
    (folder / "lives.txt").write_text("\n".join(map(repr, lives)))
    return await judge(url, lives)


def main() -> int:
    """Run it on a broker of its own; returns the number of faults."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("messages", type=int, nargs="?", default=5_000)
    parser.add_argument("--work", choices=("classic", "quorum"), default="classic")
    parser.add_argument("--seed", type=int, default=random.randrange(1000))
    parser.add_argument("--kills", type=int, nargs=3, default=KILLS)
    parser.add_argument("--postgresql", action="store_true")
    parser.add_argument("--keep", help="a new folder in which the store and the log are left")
    given = parser.parse_args()
    with ExitStack() as stack:
        place = stack.enter_context(
            nullcontext(given.keep) if given.keep else tempfile.TemporaryDirectory()
        )
        url = f"sqlite+aiosqlite:///{place}/itc.db"
        if given.postgresql:
            url = stack.enter_context(stack.enter_context(PostgresServer()).fresh_database())
        plugins = Path(place, "plugins")
        plugins.mkdir(parents=True)
        build(plugins)
        broker = stack.enter_context(RabbitNode(plugins=(NAME,), plugins_folder=plugins))
        version = broker.api("GET", "overview")["rabbitmq_version"]
        began = time.monotonic()
        report = asyncio.run(
            drill(broker, url, Path(place), given.messages, given.work, given.seed, given.kills)
        )
    print(
        f"RabbitMQ {version}, {given.work} queue, seed {given.seed}: {given.messages} messages in "
        f"{time.monotonic() - began:.0f} s, {report.channels} channels, right: "
        f"{dict(report.right)}, of these {report.uncertain} uncertain; unknown: {report.unknown} "
        f"in gaps and {report.odd} on odd channels; {report.unplaced} not placed and "
        f"{report.missing} not stored, in gaps; {len(report.gaps)} gaps: {Counter(report.gaps)}; "
        f"{len(report.faults)} faults"
    )
    for fault in report.faults[:20]:
        print(f"  {fault}")
    return len(report.faults)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
