"""Programs that use a broker as real ones do, badly too, and log what they do.

A program does one thing after the other. It has one connection, under its name, with one channel;
it may lose either with copies in hand, and comes back under its name. It keeps a vector clock, in
places of the log, which its messages carry, except for equal ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

import aio_pika
import aiormq
from aio_pika import Message
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage

from drills.acts.log import Act, ActKind, Log
from drills.acts.topology import DIRECT, FANOUT, KEPT, KEYS, NOWHERE, Layout
from drills.proxy import Proxy

NAMES = tuple(
    f"{first}{last}"
    for first in ("an", "be", "ca", "do", "em", "fri")
    for last in ("a", "na", "do", "lia")
)
MOST_IN_HAND = 4
EXPIRATION = 0.03  # seconds
OVERSTAYED = 20.0  # seconds; by then a consumer that holds a message is cancelled


class InHand(NamedTuple):
    """A message that a program holds."""

    act: Act
    message: AbstractIncomingMessage


class LoggedProgram:
    """One program; ``act`` lets it do something at random."""

    def __init__(
        self,
        name: str,
        url: str,
        topology: Layout,
        log: Log,
        *,
        is_alone: bool = False,
        place: str | None = None,
    ) -> None:
        self.name = name
        self._is_alone = is_alone  # nobody else acts at the same time
        self._way = Proxy(url, place)  # it tells the port it has at the broker, and can be cut
        self._open_way = AsyncExitStack()
        self._topology = topology
        self._log = log
        self._connection: AbstractConnection | None = None
        self._channel: AbstractChannel | None = None
        self._channels = 0
        self._session = ""
        self._in_hand: list[InHand] = []
        self._consumed: str | None = None
        self._tag = ""
        self._cancelled = asyncio.Event()  # by the broker
        self._messages = 0
        self._handed: list[str] = []  # message ids of what it was handed
        self.clock: dict[str, int] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[LoggedProgram]:
        """Connected while the block runs."""
        await self._connect()
        try:
            yield self
        finally:
            await self._disconnect()

    async def declare(self) -> None:
        """Declare all queues and exchanges."""
        await self._topology.declare(self._open)

    async def introduce(self) -> None:
        """Publish a message and take it: who does both is for the service no part of another."""
        self._messages += 1
        body, queue = f"{self.name}/{self._messages}", self._topology.taken_from[0]
        act = self._log.publish(self.name, body, "", queue, session=self._session)
        self._tick(act)
        await self._send(Message(body.encode()), act)
        held = await self._take(queue)
        if held is not None:
            await self._settle(held, ActKind.acknowledge)

    async def act(self, draw: random.Random) -> None:
        """Do something."""
        if self._in_hand and (len(self._in_hand) >= MOST_IN_HAND or draw.random() < 0.4):
            await self._part(draw)
            return
        chosen = draw.choices(
            (self._publish, self._get, self._consume, self._fall_over, self.purge, self._bind),
            (45, 40, 6, 5, 4, 2),
        )
        if self._consumed in self._topology.timed and draw.random() < 0.3:
            await self._overstay()
        await chosen[0](draw)

    async def empty(self) -> bool:
        """Take everything that is in the queues, one after the other; whether there was any."""
        for each in self._in_hand[:]:
            await self._settle(each, ActKind.acknowledge)
        await self._fall_over(random.Random(0), quietly=True)
        some = False
        for queue in dict.fromkeys((*self._topology.taken_from, *self._topology.queues)):
            if self._topology.queues[queue].ttl is None:
                while held := await self._take(queue):
                    some = True
                    await self._settle(held, ActKind.acknowledge)
        return some

    # ---- publishing ----------------------------------------------------------------------------

    async def _publish(self, draw: random.Random) -> None:
        queues = self._topology.queues
        if draw.random() < 0.16:
            await self._publish_equal(draw)
            return
        self._messages += 1
        body = f"{self.name}/{self._messages}"
        kind = draw.random()
        if kind < 0.35:
            exchange, key = draw.choice((DIRECT, DIRECT, FANOUT)), draw.choice("abc")
        else:
            among = [each for each in queues if each not in self._topology.purged]
            among += self._topology.timed * 3
            exchange, key = "", draw.choice(among)
        copied = draw.sample(KEYS, draw.choice((0, 0, 1, 2))) if exchange == DIRECT else []
        if draw.random() < 0.04:
            exchange, key = draw.choice(("", DIRECT)), NOWHERE
        if self._topology.unbound and draw.random() < 0.08:
            exchange, key = KEPT, ""
        more = {"copied": tuple(copied), "expires": draw.random() < 0.08}
        act = self._log.publish(self.name, body, exchange, key, session=self._session, **more)
        message = Message(body.encode(), headers={})
        if copied:
            message.headers[draw.choice(("CC", "BCC"))] = [*copied]
        if draw.random() < 0.6:
            message.message_id = f"id-{body}"
        if self._handed and draw.random() < 0.25:
            message.headers["causation_id"] = draw.choice(self._handed[-5:])
        self._tick(act)
        message.headers["clock"] = json.dumps(self.clock)
        await self._send(message, act)

    async def _publish_equal(self, draw: random.Random) -> None:
        """Publish what another program publishes too: nothing tells the two apart."""
        queue = draw.choice(self._topology.equal)
        among = [each.body for each in self._log.acts if each.key == queue][-2:]
        often = [b for b in among if sum(each.body == b for each in self._log.acts) > 5]
        fresh = f"{queue}/{self._log.now}"
        body = draw.choice([*(b for b in among if b not in often), fresh])
        expires = draw.random() < 0.2
        act = self._log.publish(self.name, body, "", queue, session=self._session, expires=expires)
        self._tick(act)
        # Without an id aiormq gives each one of its own.
        await self._send(Message(body.encode(), message_id=body), act)

    async def _replay(self, held: InHand, draw: random.Random) -> None:
        """Publish a dead letter again with all that it came with, and take it away."""
        target = draw.choice([*self._topology.taken_from, "wait"])
        body = held.act.body
        act = self._log.publish(self.name, body, "", target, session=self._session, is_replay=True)
        self._tick(act)
        message = held.message
        again = Message(
            message.body,
            headers=message.headers,
            message_id=message.message_id,
            content_type=message.content_type,
            delivery_mode=message.delivery_mode,
        )
        await self._send(again, act)
        if held in self._in_hand:
            await self._settle(held, ActKind.acknowledge)

    async def _send(self, message: Message, act: Act) -> None:
        if act.expires:
            message.expiration = EXPIRATION
        exchange = self._open.default_exchange
        if act.exchange:
            exchange = await self._open.get_exchange(act.exchange, ensure=False)
        await exchange.publish(message, act.key, mandatory=False)
        self._log.confirm(act)

    # ---- taking --------------------------------------------------------------------------------

    async def _get(self, draw: random.Random) -> None:
        await self._take(draw.choice([*self._topology.taken_from, *self._topology.unbound]))

    async def _take(self, name: str) -> InHand | None:
        asked = self._log.now
        queue = await self._open.get_queue(name, ensure=False)
        message = await queue.get(fail=False)
        return None if message is None else self._note(message, name, asked)

    async def _consume(self, draw: random.Random) -> None:
        """Be pushed what comes into a queue, a few at a time."""
        if self._consumed is not None:
            return
        names = [*self._topology.taken_from, *self._topology.unbound, *self._topology.timed * 9]
        name = draw.choice([each for each in names if each not in self._topology.purged])
        await self._open.set_qos(draw.randint(1, 3))
        queue = await self._open.get_queue(name, ensure=False)
        session = self._session
        self._consumed = name

        async def take(message: AbstractIncomingMessage) -> None:
            if self._session == session:  # else it was on its way when the session ended
                self._note(message, name, None)

        channel = await self._open.get_underlay_channel()
        channel.on_consumer_cancel_callbacks.add(self._timed_out)
        self._cancelled.clear()
        self._tag = await queue.consume(take)

    async def _overstay(self) -> None:
        """Hold what came from the queue that is consumed until the broker takes it away."""
        if any(held.act.queue == self._consumed for held in self._in_hand):
            await asyncio.wait_for(self._cancelled.wait(), OVERSTAYED)

    async def _timed_out(self, frame: aiormq.spec.Basic.Cancel) -> None:
        """Part with what the broker took away, or will; settle every other one too late."""
        if frame.consumer_tag != self._tag:  # for what else it held the broker says it once more
            return
        lost = [held for held in self._in_hand if held.act.queue == self._consumed]
        self._in_hand = [held for held in self._in_hand if held not in lost]
        self._consumed, self._tag = None, ""
        self._cancelled.set()
        for held in lost:
            act = self._log.part(ActKind.time_out, held.act)
            if act.number % 2:
                await held.message.ack()

    def _note(self, message: AbstractIncomingMessage, queue: str, asked: int | None) -> InHand:
        act = self._log.delivery(
            self.name,
            message.body.decode(),
            queue,
            session=self._session,
            redelivered=bool(message.redelivered),
            asked=asked,
        )
        self._join(json.loads(str(message.headers.get("clock", "{}"))))
        self._tick(act)
        if message.message_id:
            self._handed.append(message.message_id)
        held = InHand(act, message)
        self._in_hand.append(held)
        return held

    def _join(self, clock: dict[str, int]) -> None:
        for program, count in clock.items():
            self.clock[program] = max(count, self.clock.get(program, 0))

    def _tick(self, act: Act) -> None:
        self.clock[self.name] = act.number + 1
        act.clock = dict(self.clock)

    # ---- parting with what it holds --------------------------------------------------------------

    async def _part(self, draw: random.Random) -> None:
        held = draw.choice(self._in_hand)
        if held.message.headers.get("x-death") and draw.random() < 0.3:
            await self._replay(held, draw)
            return
        kinds = (ActKind.acknowledge, ActKind.reject, ActKind.give_back)
        await self._settle(held, draw.choices(kinds, (40, 35, 25))[0])

    async def _settle(self, held: InHand, kind: ActKind) -> None:
        if held not in self._in_hand:
            return
        self._in_hand.remove(held)
        self._log.part(kind, held.act)
        if kind is ActKind.acknowledge:
            await held.message.ack()
        elif held.act.number % 2:
            await held.message.reject(requeue=kind is ActKind.give_back)
        else:
            await held.message.nack(requeue=kind is ActKind.give_back)

    async def _fall_over(self, draw: random.Random, *, quietly: bool = False) -> None:
        """Lose the channel or the connection, with all that is in hand."""
        if not quietly and not self._in_hand and self._consumed is None and draw.random() < 0.7:
            return
        way = draw.choice(("channel", "close", "cut"))
        if way == "cut":  # what was acknowledged has to arrive first
            await self._open.get_exchange(DIRECT, ensure=True)
        channel = self._open
        for held in self._in_hand:
            self._log.part(ActKind.die, held.act)
        if self._consumed is not None:
            self._log.leave(self.name, self._consumed)
        self._in_hand, self._consumed, self._session = [], None, ""
        if way == "channel":
            await channel.close()
            await self._open_channel()
            return
        await self._disconnect(cut=way == "cut")
        await self._connect()

    async def purge(self, draw: random.Random) -> None:
        """Purge a queue, or delete it and declare it again."""
        queue = draw.choice(self._topology.purged)
        is_held = any(held.act.queue == queue for held in self._in_hand)
        there = await self._open.get_queue(queue, ensure=False)
        act = self._log.purge(self.name, queue)
        if draw.random() < 0.5 or is_held or not self._is_alone:
            await there.purge()
        else:
            await there.delete(if_unused=False, if_empty=False)
            await self._topology.declare_queue(self._open, queue)
        self._log.confirm(act)

    async def _bind(self, draw: random.Random) -> None:
        """Bind a queue to the exchange that keeps messages, which then come into it.

        What is published meanwhile may come twice: so nobody else acts at the same time.
        """
        if not self._is_alone:
            return
        bound = {act.queue for act in self._log.acts if act.kind is ActKind.bind}
        for name in [each for each in self._topology.unbound if each not in bound][:1]:
            queue = await self._open.get_queue(name, ensure=False)
            self._log.bind(self.name, name)
            await queue.bind(KEPT, "")

    # ---- its connection --------------------------------------------------------------------------

    @property
    def _open(self) -> AbstractChannel:
        if self._channel is None:
            raise RuntimeError(f"{self.name} is not connected")
        return self._channel

    async def _connect(self) -> None:
        await self._open_way.enter_async_context(self._way.open())
        self._connection = await aio_pika.connect(
            self._way.url, client_properties={"connection_name": self.name}
        )
        await self._open_channel()

    async def _open_channel(self) -> None:
        """Open a channel of a number that the connection has not had."""
        if self._connection is None:
            raise RuntimeError(f"{self.name} is not connected")
        self._channels += 1
        self._channel = await self._connection.channel(channel_number=self._channels)
        self._session = f"{self._way.port_there}/{self._channels}"

    async def _disconnect(self, *, cut: bool = False) -> None:
        if self._connection is None:
            return
        if cut:
            self._way.cut()
        with contextlib.suppress(aio_pika.exceptions.AMQPError, OSError):
            await self._connection.close()
        await self._open_way.aclose()
