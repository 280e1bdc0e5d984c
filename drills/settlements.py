"""Clients that settle messages in all manners that AMQP 0.9.1 has, and the log of what they sent.

Singly and multiply, acknowledged, rejected, returned, recovered, in transactions, automatically,
with channels that are closed, break off with an error, or lose their connection. What each sends is
logged as it goes to its socket, and so is what it is handed and answered. `drills.dispositions`
holds what the service stored to these logs.
"""

from __future__ import annotations

import random
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pika
import pika.exceptions
from pika.adapters.blocking_connection import BlockingChannel

from tools.servers import Broker

WORK = "work"
MARKS = "marks"  # no queue: what is published to it goes nowhere
ROUNDS = 10  # between what a channel says of itself
MANNERS = (*["plain"] * 6, "tx", "tx", "get", "get", "auto")
UNKNOWN_TAG = 9_999_999

Step = tuple[Any, ...]


@dataclass
class Life:
    """One channel's life: what its client sent and was handed, in order."""

    connection: str
    channel: int
    # All that it sent and got, each with its time (µs): steps, ("handed", tag) to a consumer,
    # ("got", tag) by a get, ("answered", name).
    log: list[tuple[int, Step]] = field(default_factory=list)
    handed: dict[int, bytes] = field(default_factory=dict)


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
            life.log.append((_now(), step))
        self._send(number, method, content)

    def open(self) -> tuple[BlockingChannel, Life]:
        """A channel, and the log of its life; one at a time."""
        channel = self.pika.channel()
        return channel, self.lives[-1]

    def cut(self) -> None:
        """Lose the connection, as a crash would."""
        self._sock.shutdown(socket.SHUT_RDWR)


class Consumer:
    """Takes messages of a queue and settles them as chance has it, until it is told to stop.

    On each channel it publishes now and then which it is, so that its deliveries are found.
    """

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
        channel.basic_publish("", MARKS, str(id(life)).encode())  # before any delivery
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
        for number in range(rounds):
            if self._stop.is_set():
                break
            if number % ROUNDS == ROUNDS - 1:
                channel.basic_publish("", MARKS, str(id(life)).encode())
            if manner == "get":
                self._get(channel, life, hand)
            else:
                connection.pika.process_data_events(0.02)
            if manner != "auto":
                self._settle(channel, hand, is_tx=manner == "tx")
        return self._end(connection, channel, life)

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
