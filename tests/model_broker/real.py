"""The same acts on a real broker: its firehose must show what the model's does.

    [tools/rabbitmq4] .venv/bin/python -m tests.model_broker.real [SEEDS] [--first SEED] [--acts N]

A difference is a fault of the model, until it is found to be the broker's.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from app.broker.firehose import parse
from app.tracker import Deliver, Publish, Record
from tests.model_broker.broker import REPLIES, ModelBroker
from tests.model_broker.manners import manners_of
from tests.model_broker.script import PAUSE, Act, Author, layout_of
from tools.servers import Broker, RabbitNode

SECONDS = 5.0  # until what the model expects has come
ACTS, MOST_IN_A_ROW = 120, 25  # acts, and those without a pause: what expires does so in one
COUNTS = ("x-delivery-count", "x-acquired-count", "x-opt-delivery-time")


def shown(record: Record) -> str:
    """A record as text, without what no model can know."""
    properties = {n: v for n, v in record.properties.items() if n != "delivery_mode"}
    if not properties.get("message_id", "").startswith("id-"):  # aiormq gives each message one
        properties.pop("message_id", None)
    headers = {n: v for n, v in properties.pop("headers", {}).items() if n not in COUNTS}
    if "x-death" in headers:
        entries = [{n: v for n, v in entry.items() if n != "time"} for entry in headers["x-death"]]
        headers["x-death"] = [sorted(entry.items()) for entry in entries]
    if "reply_to" in properties:
        properties["reply_to"] = REPLIES
    if properties.get("priority") == 0:
        del properties["priority"]
    key, *more = record.routing_keys
    keys = [REPLIES if key.startswith(REPLIES) else key, *more]
    if isinstance(record, Publish):
        queues = sorted(REPLIES if q.startswith(REPLIES) else q for q in record.routed_queues)
        end = f"{record.exchange!r} {keys} → {queues}"
    else:
        queue = REPLIES if record.queue.startswith(REPLIES) else record.queue
        end = f"{record.exchange!r} {keys} from {queue}{' again' * record.redelivered}"
    more_shown = [sorted(properties.items()), sorted(headers.items(), key=str)]
    return f"{type(record).__name__} {record.body.decode()} {end} {more_shown}"


class Player:
    """A program on the broker."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.hand: list[tuple[str, AbstractIncomingMessage]] = []
        self._asks = False

    @contextlib.asynccontextmanager
    async def playing(self) -> AsyncIterator[None]:
        async with await aio_pika.connect(self._url) as self.connection:
            self.channel: AbstractChannel = await self.connection.channel()
            yield

    async def send(self, channel: AbstractChannel, exchange: str, key: str, message: Any) -> None:
        target = channel.default_exchange
        if exchange:
            target = await channel.get_exchange(exchange, ensure=False)
        with contextlib.suppress(aio_pika.exceptions.DeliveryError):  # a full queue refuses it
            await target.publish(message, key, mandatory=False)

    async def publish(
        self,
        exchange: str,
        key: str,
        body: str,
        copied: tuple[str, ...] = (),
        headers: Any = None,
        **properties: Any,
    ) -> None:
        headers = {**(headers or {}), **({"CC": [*copied]} if copied else {})}
        if "expiration" in properties:
            properties["expiration"] = int(properties["expiration"]) / 1_000
        message = aio_pika.Message(body.encode(), headers=headers, **properties)
        await self.send(self.channel, exchange, key, message)

    async def transact(self, messages: list[tuple[str, str, str]], commits: bool) -> None:
        async with self.connection.channel(publisher_confirms=False) as channel:
            transaction = channel.transaction()
            await transaction.select()
            for exchange, key, body in messages:
                await self.send(channel, exchange, key, aio_pika.Message(body.encode()))
            await (transaction.commit() if commits else transaction.rollback())

    async def ask(self, queue: str, body: str) -> None:
        if not self._asks:
            self._asks = True
            replies = await self.channel.get_queue(REPLIES, ensure=False)
            await replies.consume(_ignore, no_ack=True)
        await self.publish("", queue, body, reply_to=REPLIES, correlation_id=body)

    async def answer(self, queue: str, body: str) -> None:
        message = (await self.held(queue, body))[1]
        reply = aio_pika.Message(f"re {body}".encode(), correlation_id=message.correlation_id)
        await self.send(self.channel, "", str(message.reply_to), reply)

    async def replay(self, queue: str, body: str, key: str) -> None:
        message = (await self.held(queue, body))[1]
        names = ["headers", "message_id", "correlation_id", "reply_to", "priority"]
        kept = {name: getattr(message, name) for name in names}
        kept["priority"] = kept["priority"] or None
        await self.send(self.channel, "", key, aio_pika.Message(message.body, **kept))
        await self.settle(queue, body, "acknowledge")

    async def get(self, queue: str) -> None:
        source = await self.channel.get_queue(queue, ensure=False)
        async with asyncio.timeout(SECONDS):  # a dead letter may be on its way
            while (message := await source.get(fail=False)) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        self.hand.append((queue, message))

    async def read(self, stream: str, offset: int) -> None:
        async with self.connection.channel() as channel:
            await channel.set_qos(1)
            source = await channel.get_queue(stream, ensure=False)
            come = asyncio.Event()

            async def take(message: AbstractIncomingMessage) -> None:
                come.set()

            await source.consume(take, arguments={"x-stream-offset": offset})
            async with asyncio.timeout(SECONDS):
                await come.wait()

    async def consume(self, queue: str, prefetch: int) -> None:
        await self.channel.set_qos(prefetch)
        source = await self.channel.get_queue(queue, ensure=False)

        async def take(message: AbstractIncomingMessage) -> None:
            self.hand.append((queue, message))

        await source.consume(take)

    async def held(self, queue: str, body: str) -> tuple[str, AbstractIncomingMessage]:
        async with asyncio.timeout(SECONDS):
            while True:
                for name, message in self.hand:
                    if (name, message.body.decode()) == (queue, body):
                        return name, message
                await asyncio.sleep(0.02)

    async def settle(self, queue: str, body: str, outcome: str) -> None:
        held = await self.held(queue, body)
        self.hand.remove(held)
        if outcome == "acknowledge":
            await held[1].ack()
        elif outcome == "nack":
            await held[1].nack(requeue=True)
        else:
            await held[1].reject(requeue=outcome == "reject")
        await self.channel.get_exchange("amq.direct", ensure=True)  # the broker has taken it then

    async def close(self) -> None:
        await self.channel.close()
        self.hand, self._asks = [], False
        self.channel = await self.connection.channel()

    async def purge(self, queue: str) -> None:
        await (await self.channel.get_queue(queue, ensure=False)).purge()


async def _ignore(message: AbstractIncomingMessage) -> None:
    """A reply that nobody waits for."""


async def differences(broker: Broker, seed: int, count: int = ACTS) -> list[str]:
    """The acts of a seed that the broker's firehose shows otherwise than the model's."""
    version = broker.api("GET", "overview")["rabbitmq_version"]
    draw = random.Random(f"real {seed}")
    model = ModelBroker(layout_of(draw), manners_of(version), ("ann", "bob", "cid"))
    author = Author(draw, model, is_real=True)
    traced: list[Record] = []

    async def note(message: AbstractIncomingMessage) -> None:
        properties = Basic.Properties(headers=message.headers)
        header = ContentHeader(0, len(message.body), properties).marshal()
        record = parse(str(message.routing_key), header, message.body, 0)
        assert isinstance(record, Publish | Deliver), record
        traced.append(record)

    found: list[str] = []
    with broker.fresh_vhost("model") as vhost:
        async with AsyncExitStack() as stack:
            players = {name: Player(broker.amqp_url(vhost)) for name in model.programs}
            for player in players.values():
                await stack.enter_async_context(player.playing())
            watch = await stack.enter_async_context(await aio_pika.connect(broker.amqp_url(vhost)))
            channel = await watch.channel()
            await model.layout.declare(channel)
            traces = await channel.declare_queue("traces", exclusive=True)
            await traces.bind("amq.rabbitmq.trace", "#")
            await traces.consume(note, no_ack=True)
            description = broker.api("GET", "vhosts", vhost)
            broker.api("PUT", "vhosts", vhost, json={**_known(description), "tracing": True})
            in_a_row = 0
            for _ in range(count):
                act = (
                    author.act()
                    if in_a_row < MOST_IN_A_ROW
                    else Act("wait", "ann", {"milliseconds": PAUSE})
                )
                in_a_row = 0 if act.what == "wait" else in_a_row + 1
                before, first = len(model.records), len(traced)
                played = _as_played(model, act)
                getattr(model, act.what)(act.who, **act.of)
                model.now += 1_000
                expected = [
                    shown(model.records[number])
                    for number in range(before, len(model.records))
                    if number not in model.hidden
                ]
                if act.what == "wait":
                    await asyncio.sleep(act.of["milliseconds"] / 1_000)
                elif played is not None:
                    try:
                        await getattr(players[act.who], act.what)(**played)
                    except TimeoutError:
                        found.append(f"{act}: nothing came")
                        return found
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(SECONDS):
                        while len(traced) - first < len(expected):  # noqa: ASYNC110
                            await asyncio.sleep(0.005)
                seen = [shown(r) for r in traced[first:] if getattr(r, "queue", "") != "traces"]
                if Counter(seen) != Counter(expected):
                    found += [repr(act), *(f"  model  {each}" for each in expected)]
                    found += [f"  broker {each}" for each in seen]
                    return found
    return found


def _known(vhost: dict[str, Any]) -> dict[str, Any]:
    return {n: vhost[n] for n in ("description", "tags", "default_queue_type") if n in vhost}


def _as_played(model: ModelBroker, act: Act) -> dict[str, Any] | None:
    """An act's details for a real program; None if there is nothing to be done."""
    details = dict(act.of)
    if act.what in ("settle", "answer", "replay"):
        hand = model.programs[act.who].hand
        if not hand:
            return None
        place = details.pop("place")
        queue, copy = hand[place % len(hand)]
        if act.what == "answer" and not model.is_awaited(copy):
            return None
        return {**details, "queue": queue, "body": copy.body}
    if act.what == "get" and not model.queues[act.of["queue"]].ready:
        return None
    if act.what == "read" and act.of["offset"] >= len(model.queues["stream"].log):
        return None
    if act.what == "consume" and act.of["queue"] in model.consumed_by(act.who):
        return None
    return details


async def main(seeds: int, first: int, acts: int) -> int:
    """Play seeds; returns how many differ."""
    count = 0
    with RabbitNode() as broker:
        for seed in range(first, first + seeds):
            found = await differences(broker, seed, acts)
            count += bool(found)
            print(f"seed {seed}:", *(found or ["the same"]), sep="\n  ", flush=True)
    return count


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.model_broker.real")
    parser.add_argument("seeds", nargs="?", type=int, default=5)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--acts", type=int, default=ACTS)
    given = parser.parse_args()
    sys.exit(asyncio.run(main(given.seeds, given.first, given.acts)) > 0)
