"""The broker plugin against its clients' own logs: ``python -m drills.settlements [MESSAGES]``.

    python -m drills.settlements 50000 --work quorum --trace classic --seed 3
    tools/rabbitmq4 .venv/bin/python -m drills.settlements

Consumers take messages and settle them in all manners that AMQP 0.9.1 has: singly and multiply,
acknowledged, rejected, returned, recovered, in transactions, automatically, with channels that are
closed, break off with an error, or lose their connection. What each sent is logged as it goes to
its socket. Then the records that the plugin left in the trace queue have to be what of that log
changes something, each behind the delivery that it settles; and read by the broker's rules, they
must have each message settled exactly once.
"""

from __future__ import annotations

import argparse
import random
import socket
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
from pika.adapters.blocking_connection import BlockingChannel
from pika.data import decode_table

from tools.plugin import build
from tools.servers import Broker, RabbitNode, wait_until

TRACE_QUEUE, TRACE_EXCHANGE = "itc.trace", "amq.rabbitmq.trace"
WORK = "work"
CONSUMERS = 4
SHORT = 200
MANNERS = (*["plain"] * 6, "tx", "tx", "get", "get", "auto")
UNKNOWN_TAG = 9_999_999

Step = tuple[Any, ...]


@dataclass
class Life:
    """One channel's life: what its client sent and was handed, in order."""

    connection: str
    channel: int
    # Of these what the plugin is to tell, and what of it has been told before.
    steps: list[Step] = field(default_factory=list)
    manners: dict[tuple[str, str], bool] = field(default_factory=dict)
    is_tx: bool = False
    is_settled: bool = False
    # All that it sent and got, each with its time (µs): steps, ("handed", tag) to a consumer,
    # ("got", tag) by a get, ("answered", name).
    log: list[tuple[int, Step]] = field(default_factory=list)
    handed: dict[int, bytes] = field(default_factory=dict)
    # The queue had handled its last steps before it ended; otherwise some may not have arrived.
    is_quiet: bool = False

    def sent(self, step: Step) -> None:
        """Log what the client sends; a step is to be told if it may change something."""
        self.log.append((_now(), step))
        if self._changes(step):
            self.steps.append(step)

    def _changes(self, step: Step) -> bool:
        match step:
            case ("consumer" | "get" as how, queue, auto):
                before = self.manners.get((how, queue), None if how == "consumer" else False)
                # A get is told only of a channel that takes without acknowledgement as well.
                is_told = auto != before or (
                    (how, queue) not in self.manners and any(self.manners.values())
                )
                if is_told:
                    self.manners[how, queue] = auto
                return is_told
            case ("settled", *_):
                self.is_settled = self.is_tx
            case ("selected",):
                self.is_tx, is_first = True, not self.is_tx
                return is_first and bool(self.manners)  # what a channel begins with says it else
            case ("committed",) | ("rolled_back",):
                is_settled, self.is_settled = self.is_settled, False
                return is_settled
        return True


def step_of(method: Any) -> Step | None:
    """The step of a method that a client sends; None for what settles nothing."""
    match method.NAME:
        case "Basic.Ack":
            return ("settled", "acknowledged", method.delivery_tag, method.multiple)
        case "Basic.Nack":
            outcome = "returned" if method.requeue else "rejected"
            return ("settled", outcome, method.delivery_tag, method.multiple)
        case "Basic.Reject":
            outcome = "returned" if method.requeue else "rejected"
            return ("settled", outcome, method.delivery_tag, False)
        case "Basic.Consume":
            return ("consumer", method.queue, method.no_ack)
        case "Basic.Get":
            return ("get", method.queue, method.no_ack)
        case "Basic.Recover":
            return ("recovered",)
        case "Tx.Select":
            return ("selected",)
        case "Tx.Commit":
            return ("committed",)
        case "Tx.Rollback":
            return ("rolled_back",)
    return None


def fields_of(properties: Any, body: bytes) -> dict[str, Any]:
    """The fields of a trace message, in its headers, or of a record, in its body."""
    if properties.headers is not None:
        return dict(properties.headers)
    table: Any = decode_table(body, 0)[0]
    return dict(table)


def step_told(event: str, headers: dict[str, Any]) -> Step:
    """The same of a record."""
    match event:
        case "settled":
            return (event, headers["outcome"], int(headers["delivery_tag"]), headers["multiple"])
        case "consumer" | "get":
            return (event, headers["queue"], headers["auto"])
        case "channel":
            return (event, headers["transactional"])
    return (event,)


def _now() -> int:
    return time.time_ns() // 1000


class LoggedConnection:
    """A connection whose channels' lives are logged."""

    def __init__(self, url: str) -> None:
        self.pika = pika.BlockingConnection(pika.URLParameters(url))
        self._impl: Any = vars(self.pika)["_impl"]
        sock = self._impl._transport._sock
        (host, port), (peer, peer_port) = sock.getsockname(), sock.getpeername()
        self.name = f"{host}:{port} -> {peer}:{peer_port}"
        self.lives: list[Life] = []
        self._sock = sock
        self._send: Any = self._impl._send_method
        self._impl._send_method = self._sent
        self._process: Any = self._impl._process_frame
        self._impl._process_frame = self._got

    def _got(self, frame: Any) -> None:
        name = getattr(getattr(frame, "method", None), "NAME", "")
        if self.lives and frame.channel_number == self.lives[-1].channel:
            log = self.lives[-1].log
            if name in ("Basic.Deliver", "Basic.GetOk"):
                how = "handed" if name == "Basic.Deliver" else "got"
                log.append((_now(), (how, frame.method.delivery_tag)))
            elif name.startswith(("Basic.", "Tx.", "Channel.")):
                log.append((_now(), ("answered", name)))
        self._process(frame)

    def _sent(self, number: int, method: Any, content: Any = None) -> None:
        if method.NAME == "Channel.Open":
            self.lives.append(Life(self.name, number))
        elif step := step_of(method):
            [life] = [each for each in self.lives[-1:] if each.channel == number]
            life.sent(step)
        self._send(number, method, content)

    def open(self) -> tuple[BlockingChannel, Life]:
        """A channel, and the log of its life; one at a time."""
        channel = self.pika.channel()
        return channel, self.lives[-1]

    def cut(self) -> None:
        """Lose the connection, as a crash would."""
        self._sock.shutdown(socket.SHUT_RDWR)


class Consumer:
    """Takes messages of a queue and settles them as chance has it, until it is told to stop."""

    def __init__(self, url: str, seed: int, stop: threading.Event) -> None:
        self.lives: list[Life] = []
        self._url, self._random, self._stop = url, random.Random(seed), stop

    def run(self) -> None:
        """Connect again and again."""
        while not self._stop.is_set():
            try:
                connection = LoggedConnection(self._url)
            except (OSError, pika.exceptions.AMQPError):
                time.sleep(0.1)  # until the broker is there again
                continue
            try:
                for _ in range(self._random.randint(2, 6)):
                    if not self._stop.is_set() and not self._channel(connection):
                        break
            except (OSError, pika.exceptions.AMQPError):
                pass  # lost, as it was meant to be
            finally:
                self.lives += connection.lives
                with suppress(OSError, pika.exceptions.AMQPError):
                    connection.pika.close()

    def _channel(self, connection: LoggedConnection) -> bool:
        """One channel's life; False if the connection is gone with it."""
        channel, life = connection.open()
        self.begun(channel, life)
        manner = self._random.choice(MANNERS)
        channel.basic_qos(prefetch_count=self._random.choice((1, 10, 100)))
        hand: list[int] = []
        if manner == "tx":
            channel.tx_select()
        if manner != "get":

            def handed(_: Any, deliver: Any, __: Any, body: Any) -> None:
                life.handed[deliver.delivery_tag] = body
                hand.append(deliver.delivery_tag)

            channel.basic_consume(WORK, handed, auto_ack=manner == "auto")
        rounds = self._random.randint(20, 400) // (20 if manner == "auto" else 1)
        for _ in range(rounds):
            if self._stop.is_set():
                break
            self.begun(channel, life)
            if manner == "get":
                self._get(channel, life, hand)
            else:
                connection.pika.process_data_events(0.02)
            if manner != "auto":
                self._settle(channel, hand, is_tx=manner == "tx")
        return self._end(connection, channel, life)

    def begun(self, channel: BlockingChannel, life: Life) -> None:
        """Do nothing more as a channel's life begins, nor in each of its rounds."""

    def _get(self, channel: BlockingChannel, life: Life, hand: list[int]) -> None:
        auto = self._random.random() < 0.3
        found, _, body = channel.basic_get(WORK, auto_ack=auto)
        if found is None:
            time.sleep(0.01)  # the queue is empty for now
        else:
            life.handed[found.delivery_tag] = body or b""
            if not auto:
                hand.append(found.delivery_tag)

    def _settle(self, channel: BlockingChannel, hand: list[int], *, is_tx: bool) -> None:
        while hand and self._random.random() < 0.8:
            chance = self._random.random()
            some = self._random.randrange(len(hand))
            if chance < 0.3:  # several
                tag = hand[some] if chance < 0.28 else 0
                del hand[: some + 1 if tag else None]
                if self._random.random() < 0.7:
                    channel.basic_ack(tag, multiple=True)
                else:
                    channel.basic_nack(tag, multiple=True, requeue=chance < 0.03)
                if not tag:  # the answer shows what was handed over before it
                    channel.basic_qos(prefetch_count=10)
            elif chance < 0.31:
                hand.clear()
                channel.basic_recover(requeue=True)
            else:
                tag = hand.pop(some)
                if chance < 0.85:
                    channel.basic_ack(tag)
                elif chance < 0.9:
                    channel.basic_nack(tag, requeue=False)
                else:
                    channel.basic_reject(tag, requeue=chance > 0.96)
        if is_tx and self._random.random() < 0.3:
            channel.tx_commit()
        elif is_tx and self._random.random() < 0.05:
            channel.tx_rollback()
            hand.clear()  # they are in hand again; the channel's end gives them back

    def _end(self, connection: LoggedConnection, channel: BlockingChannel, life: Life) -> bool:
        chance = self._random.random()
        if chance < 0.85:
            # A classic queue handles the end of a channel before the acknowledgements that wait
            # for it, and gives back what they settled; it answers this behind them. What it yields
            # goes back.
            found, _, body = channel.basic_get(WORK)
            if found is not None:
                life.handed[found.delivery_tag] = body or b""
            life.is_quiet = True
        if chance < 0.7:
            channel.close()
            return True
        if chance < 0.85:
            with suppress(pika.exceptions.ChannelClosedByBroker):
                channel.basic_ack(UNKNOWN_TAG, multiple=chance < 0.8)
                while True:
                    connection.pika.process_data_events(1)
                    channel.basic_qos(prefetch_count=1)
            return True
        connection.cut()
        return False


@dataclass
class Trace:
    """What the trace queue held, by connection and channel number, in order."""

    told: dict[tuple[str, int], list[tuple[str, dict[str, Any], bytes]]]
    forged: int = 0
    vhost: Counter[str] = field(default_factory=Counter)


class Reader(threading.Thread):
    """Takes everything out of the trace queue."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.trace = Trace(defaultdict(list))
        self._url, self._over = url, threading.Event()

    def run(self) -> None:
        connection = pika.BlockingConnection(pika.URLParameters(self._url))
        channel = connection.channel()
        channel.basic_qos(prefetch_count=2000)
        for method, properties, body in channel.consume(TRACE_QUEUE, inactivity_timeout=1):
            if method is None:
                if self._over.is_set():
                    break
                continue
            self._take(method.routing_key, properties, body or b"")
            if method.delivery_tag % 500 == 0:
                channel.basic_ack(method.delivery_tag, multiple=True)
        channel.basic_ack(0, multiple=True)
        connection.close()

    def _take(self, key: str, properties: Any, body: bytes) -> None:
        kind, _, event = key.partition(".")
        headers = fields_of(properties, body)
        if kind == "settle" and properties.user_id != "rmq-internal":
            self.trace.forged += 1
        elif kind == "settle" and "channel" not in headers:
            self.trace.vhost[event] += 1
        elif kind in ("settle", "deliver"):
            where = headers["connection"], headers["channel"]
            self.trace.told[where].append((event if kind == "settle" else "deliver", headers, body))

    def finish(self) -> Trace:
        """All there was, once nothing more comes."""
        self._over.set()
        self.join()
        return self.trace


@dataclass
class Verdict:
    """Numbers of what was compared, and each fault in words."""

    settlements: int = 0
    steps: int = 0
    channels: int = 0
    deliveries: int = 0
    settled: dict[bytes, list[str]] = field(default_factory=lambda: defaultdict(list))
    # Those that the broker may give back all the same.
    hasty: dict[bytes, list[str]] = field(default_factory=lambda: defaultdict(list))
    outcomes: Counter[str] = field(default_factory=Counter)
    traced: set[bytes] = field(default_factory=set)  # the messages that were handed to somebody
    undone: int = 0
    vanished: int = 0
    faults: list[str] = field(default_factory=list)


class Hand:
    """A channel's deliveries, by the broker's rules: in hand, settled, or both undone."""

    def __init__(self, verdict: Verdict, *, is_quiet: bool) -> None:
        self.bodies: list[bytes] = []
        self.is_tx = False
        self._held: dict[int, bytes] = {}
        self._pending: dict[int, str] = {}
        self._auto: bool | None = None
        self._got = False
        self._verdict = verdict
        self._is_quiet = is_quiet

    def deliver(self, body: bytes) -> None:
        """One was handed over."""
        self.bodies.append(body)
        self._verdict.traced.add(body)
        if self._auto or self._got:
            self._final(body, "auto")
        else:
            self._held[len(self.bodies)] = body

    def step(self, step: Step) -> None:
        """What the client did."""
        match step:
            case ("consumer", _, auto):
                self._auto = auto
            case ("get", _, auto):
                self._got = auto
            case ("channel", is_tx):
                self.is_tx = is_tx
            case ("recovered",):
                self._held = {tag: body for tag, body in self._held.items() if tag in self._pending}
            case ("selected",):
                self.is_tx = True
            case ("committed",):
                for tag, outcome in self._pending.items():
                    self._final(self._held.pop(tag), outcome)
                self._pending.clear()
            case ("rolled_back",):
                self._pending.clear()
            case ("settled", outcome, tag, multiple):
                self._settled(outcome, tag, multiple)

    def _settled(self, outcome: str, tag: int, multiple: bool) -> None:
        free = [each for each in self._held if each not in self._pending]
        if tag not in free and not (multiple and tag == 0):
            return  # the channel is closed for it, and nothing settled
        tags = [each for each in free if tag == 0 or each <= tag] if multiple else [tag]
        for each in tags:
            if self.is_tx:
                self._pending[each] = outcome
            else:
                self._final(self._held.pop(each), outcome)

    def _final(self, body: bytes, outcome: str) -> None:
        self._verdict.outcomes[outcome] += 1
        if outcome != "returned":
            # A classic queue may handle a channel's end before what was settled just before it, and
            # a quorum queue before it knows that it handed something out for good.
            is_firm = self._is_quiet and outcome != "auto"
            kept = self._verdict.settled if is_firm else self._verdict.hasty
            kept[body].append(outcome)


def judge(trace: Trace, lives: list[Life]) -> Verdict:
    """Compare the records with the clients' logs."""
    verdict = Verdict()
    logged: dict[tuple[str, int], list[Life]] = defaultdict(list)
    for life in (each for each in lives if each.steps or each.handed):
        logged[life.connection, life.channel].append(life)
    for where, logs in logged.items():
        # The broker also opens one for a frame that comes behind a channel's end, and closes it.
        told = [life for life in _lives(trace.told.get(where, [])) if len(life) > 1]
        if len(told) != len(logs):
            verdict.faults.append(f"{where}: {len(logs)} channels, {len(told)} told")
        for life, records in zip(logs, told, strict=False):
            _judge_life(life, records, verdict)
    verdict.faults += [f"{trace.forged} without the broker's user"] if trace.forged else []
    return verdict


def _lives(
    records: list[tuple[str, dict[str, Any], bytes]],
) -> Iterator[list[tuple[str, dict[str, Any], bytes]]]:
    life: list[tuple[str, dict[str, Any], bytes]] | None = None
    for record in records:
        event, headers, _ = record
        if event == "channel" and headers["next_tag"] == 1:
            if life is not None:
                yield life
            life = [record]
        elif life is not None and event not in ("channel", "closed"):
            life.append(record)
    if life is not None:
        yield life


def _judge_life(
    life: Life, records: list[tuple[str, dict[str, Any], bytes]], verdict: Verdict
) -> None:
    hand = Hand(verdict, is_quiet=life.is_quiet)
    steps = []
    for event, headers, body in records:
        if event == "deliver":
            hand.deliver(body)
            continue
        step = step_told(event, headers)
        tag = step[2] if event == "settled" else 0
        if len(hand.bodies) < tag != UNKNOWN_TAG:
            verdict.faults.append(f"{life.connection} {life.channel}: {step} before its delivery")
        hand.step(step)
        if event != "channel":
            steps.append(step)
    where = f"{life.connection} channel {life.channel}"
    wanted = life.steps if life.is_quiet else life.steps[: len(steps)]
    if steps != wanted:
        at = next((i for i, (a, b) in enumerate(zip(steps, wanted, strict=False)) if a != b), -1)
        verdict.faults.append(
            f"{where}: {len(steps)} told of {len(wanted)}, first at {at}: "
            f"{steps[at : at + 1]} for {wanted[at : at + 1]}"
        )
    for tag, body in life.handed.items():
        if hand.bodies[tag - 1 : tag] != [body]:
            verdict.faults.append(f"{where}: tag {tag} is not the traced delivery {tag}")
    verdict.channels += 1
    verdict.steps += len(steps)
    verdict.settlements += sum(step[0] == "settled" for step in steps)
    verdict.deliveries += len(hand.bodies)


@contextmanager
def traced(broker: Broker, vhost: str, kind: str) -> Iterator[Reader]:
    """A virtual host whose traces, and what the plugin tells, are read."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url(vhost)))
    channel = connection.channel()
    channel.queue_declare(TRACE_QUEUE, durable=True, arguments={"x-queue-type": kind})
    channel.queue_bind(TRACE_QUEUE, TRACE_EXCHANGE, "#")
    connection.close()
    broker.api("PUT", "vhosts", vhost, json={"tracing": True})
    reader = Reader(broker.amqp_url(vhost))
    reader.start()
    wait_until(lambda: reader.trace.vhost["began"] > 0, 10, "the plugin at work")
    yield reader


def drill(broker: Broker, vhost: str, messages: int, work: str, trace: str, seed: int) -> Verdict:
    """Have consumers settle messages, and compare."""
    url = broker.amqp_url(vhost)
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    limit = {"x-delivery-limit": 1000} if work == "quorum" else {}  # 20 on RabbitMQ 4
    channel.queue_declare(WORK, durable=True, arguments={"x-queue-type": work, **limit})
    with traced(broker, vhost, trace) as reader:
        stop = threading.Event()
        consumers = [Consumer(url, seed * 100 + number, stop) for number in range(CONSUMERS)]
        threads = [threading.Thread(target=each.run, daemon=True) for each in consumers]
        for thread in threads:
            thread.start()
        for number in range(messages):
            if number % SHORT == 0:  # a consumer that acknowledges nothing would take all there is
                wait_until(lambda: _is_short(channel), 600, "the queue is short")
            channel.basic_publish("", WORK, str(number).encode())
        connection.close()
        wait_until(lambda: is_empty(broker, vhost), 3600, "all messages settled")
        stop.set()
        for thread in threads:
            thread.join()
        wait_until(lambda: is_empty(broker, vhost), 60, "all messages settled")
        verdict = judge(reader.finish(), [life for each in consumers for life in each.lives])
    for body in (str(number).encode() for number in range(messages)):
        settled, hasty = verdict.settled[body], verdict.hasty[body]
        verdict.undone += max(len(settled) + len(hasty) - 1, 0)
        # A queue is rid of what it sends to a consumer that does not acknowledge, even if its
        # channel ends before it hands it over.
        verdict.vanished += body not in verdict.traced
        if len(settled) > 1 or (body in verdict.traced and not settled + hasty):
            verdict.faults.append(f"message {body.decode()}: {settled}, {hasty}")
    return verdict


def _is_short(channel: BlockingChannel) -> bool:
    declared: Any = channel.queue_declare(WORK, passive=True)
    return bool(declared.method.message_count < SHORT)


def is_empty(broker: Broker, vhost: str, queue: str = WORK, most: int = 0) -> bool:
    """Whether at most ``most`` are in a queue or in hand, for longer than its figures are old.

    They are a second old, and those of a quorum queue up to five.
    """
    looks = 6 if broker.api("GET", "queues", vhost, queue).get("type") == "quorum" else 2
    for _ in range(looks):
        time.sleep(1.2)
        if broker.api("GET", "queues", vhost, queue).get("messages", most + 1) > most:
            return False
    return True


def main() -> int:
    """Run it on a broker of its own; returns the number of faults."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("messages", type=int, nargs="?", default=50_000)
    parser.add_argument("--work", choices=("classic", "quorum"), default="classic")
    parser.add_argument("--trace", choices=("classic", "quorum"), default="classic")
    parser.add_argument("--seed", type=int, default=random.randrange(1000))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        with RabbitNode(plugins=("rabbitmq_itc",), plugins_folder=Path(folder)) as broker:
            version = broker.api("GET", "overview")["rabbitmq_version"]
            began = time.monotonic()
            verdict = drill(broker, "/", given.messages, given.work, given.trace, given.seed)
    print(
        f"RabbitMQ {version}, {given.work} queue, {given.trace} trace queue, seed {given.seed}: "
        f"{given.messages} messages in {time.monotonic() - began:.0f} s, {verdict.channels} "
        f"channels, {verdict.deliveries} deliveries, {verdict.settlements} settlements of "
        f"{verdict.steps} records, {dict(verdict.outcomes)}, "
        f"{verdict.undone} undone and {verdict.vanished} never handed over as a channel ended; "
        f"{len(verdict.faults)} faults"
    )
    for fault in verdict.faults[:20]:
        print(f"  {fault}")
    return len(verdict.faults)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
