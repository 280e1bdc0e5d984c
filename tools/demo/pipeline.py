"""The workload: a shop's order pipeline, with one order that cannot be carried out.

    shop ──topic──▶ orders ──fanout──▶ billing ──default exchange──▶ shop
                      │          └───▶ shipping ─default exchange──▶ shop
                      └─reject─▶ dead letters ──▶ auditor
    stock ──topic──▶ stock   (apart from all this, causing none of it)

Each role takes one message at a time (prefetch 1) and answers before it acknowledges: so what it
publishes follows from what it received before, and from nothing that was still on its way. As
RabbitMQ advises, those that answer consume on one connection and publish on another; only the names
of the connections say that they are one program. In between every role tells all others that it is
alive, as Celery's workers do: that must not make anything the cause of anything.

Messages say their type, their order as the correlation id, and in the header ``causation_id`` which
message they answer.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from pamqp.common import FieldTable

from tools.demo.history import Action, History

# Names nobody else has: the demo also runs on brokers that are in use, and removes these.
ORDERS = "itc-demo.orders"  # topic
ACCEPTED = "itc-demo.accepted"  # fanout
REJECTED = "itc-demo.rejected"  # fanout, dead letters
NEW_ORDERS = "itc-demo.orders.new"
BILLING = "itc-demo.billing"
SHIPPING = "itc-demo.shipping"
REPLIES = "itc-demo.shop.replies"
DEAD = "itc-demo.orders.dead"
STOCK = "itc-demo.stock"
ROLES = ("shop", "orders", "billing", "shipping", "auditor", "stock")
PUBLISHING_APART = ("orders", "billing", "shipping")  # with a second connection to publish on
HEARTBEATS = "itc-demo.celeryev"  # fanout
HEARD = {role: f"celeryev.itc-demo.{role}" for role in ROLES}  # quiet by default
EXCHANGES = (ORDERS, ACCEPTED, REJECTED, HEARTBEATS)
QUEUES = (NEW_ORDERS, BILLING, SHIPPING, REPLIES, DEAD, STOCK, *HEARD.values())
GOOD_ORDERS = 2
SUBJECT = "order"  # the field of a body that says what it is about
CONNECT_SECONDS = 30
# Broker and service see two connections in no particular order if nobody works in between.
WORK_SECONDS = 0.02


@dataclass(frozen=True)
class Outcome:
    """The first order's publish and the last thing that followed from it."""

    first: Action
    last: Action


class Role:
    """One participant: a name, channels to consume and to publish on, a note of all it does."""

    def __init__(
        self, name: str, consuming: AbstractChannel, publishing: AbstractChannel, history: History
    ) -> None:
        self.name = name
        self._consuming = consuming
        self._publishing = publishing
        self._history = history
        self.inbox: asyncio.Queue[tuple[Action, AbstractIncomingMessage]] = asyncio.Queue()
        self.heard = asyncio.Semaphore(0)

    async def publish(
        self,
        exchange: str,
        routing_key: str,
        kind: str,
        content: dict[str, object],
        *,
        answers: AbstractIncomingMessage | None = None,
        reply_to: str | None = None,
    ) -> Action:
        """Publish a message of some type and wait for the broker's confirm."""
        payload = json.dumps(content)
        message = aio_pika.Message(
            payload.encode(),
            content_type="application/json",
            type=kind,
            message_id=str(uuid.uuid4()),
            correlation_id=str(content[SUBJECT]) if SUBJECT in content else None,
            headers={} if answers is None else {"causation_id": answers.message_id},
            reply_to=reply_to,
        )
        action = self._history.published(self.name, exchange, payload)
        target = (
            await self._publishing.get_exchange(exchange, ensure=False)
            if exchange
            else self._publishing.default_exchange
        )
        await target.publish(message, routing_key)
        return action

    async def listen(self, queue: str) -> None:
        """Have a queue's messages put into the inbox, noted but not acknowledged."""
        source = await self._consuming.get_queue(queue, ensure=False)

        async def note(message: AbstractIncomingMessage) -> None:
            action = self._history.received(
                self.name, message.exchange or "", queue, message.body.decode()
            )
            self.inbox.put_nowait((action, message))

        await source.consume(note)

    async def hear(self) -> None:
        """Listen to everybody's heartbeats, of which nothing is noted."""
        source = await self._consuming.get_queue(HEARD[self.name], ensure=False)

        async def count(message: AbstractIncomingMessage) -> None:
            self.heard.release()

        await source.consume(count, no_ack=True)

    async def beat(self) -> None:
        """Tell everybody that this role is alive, and wait until all have said so."""
        everybody = await self._publishing.get_exchange(HEARTBEATS, ensure=False)
        content = {"type": "worker-heartbeat", "hostname": self.name}
        await everybody.publish(aio_pika.Message(json.dumps(content).encode()), "")
        for _ in ROLES:
            await self.heard.acquire()

    async def take(self) -> tuple[Action, dict[str, object], AbstractIncomingMessage]:
        """Wait for the next message: its note, its content, and the message to acknowledge."""
        action, message = await self.inbox.get()
        return action, json.loads(message.body), message


class Pipeline:
    """The roles on a broker. Use it as an asynchronous context manager, then `run` it once.

    ``url_of`` gives a role's AMQP address. ``run_name`` marks this run's connections and messages.
    With ``heartbeats`` all roles send one between the orders.
    """

    def __init__(
        self,
        url_of: Callable[[str], str],
        admin_url: str,
        run_name: str,
        *,
        heartbeats: bool = False,
    ) -> None:
        self.history = History()
        self._url_of = url_of
        self._admin_url = admin_url
        self._run = run_name
        self._heartbeats = heartbeats
        self._stack = AsyncExitStack()
        self._roles: dict[str, Role] = {}

    @property
    def connections(self) -> dict[str, str]:
        """The roles by what their connections are called: `orders.publisher-1001` → `orders`."""
        names = {f"{role}-{self._run}": role for role in ROLES}
        return names | {f"{role}.publisher-{self._run}": role for role in PUBLISHING_APART}

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            channel = await self._channel(stack, self._admin_url, f"itc-demo set-up-{self._run}")
            await remove(channel)
            stack.push_async_callback(remove, channel)
            await declare(channel)
            channels = {
                name: await self._channel(stack, self._url_of(role), name)
                for name, role in self.connections.items()
            }
            for role in ROLES:
                consuming = channels[f"{role}-{self._run}"]
                publishing = channels.get(f"{role}.publisher-{self._run}", consuming)
                self._roles[role] = Role(role, consuming, publishing, self.history)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def run(self) -> Outcome:
        """Place good orders one after another, then one that is rejected; wait for all to end."""
        role = self._roles
        async with asyncio.TaskGroup() as group:
            services = [
                group.create_task(self._accept_orders(role["orders"])),
                group.create_task(self._answer(role["billing"], BILLING, "invoice")),
                group.create_task(self._answer(role["shipping"], SHIPPING, "parcel")),
            ]
            counting = group.create_task(self._count_stock(role["stock"]))
            audit = group.create_task(self._audit(role["auditor"]))
            first = await self._shop(role["shop"])
            last = await audit
            await counting
            for service in services:
                service.cancel()
        return Outcome(first, last)

    async def _channel(self, stack: AsyncExitStack, url: str, name: str) -> AbstractChannel:
        connection = await aio_pika.connect(
            url, timeout=CONNECT_SECONDS, client_properties={"connection_name": name}
        )
        await stack.enter_async_context(connection)
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=1)
        return channel

    def _order(self, number: int, **more: object) -> dict[str, object]:
        return {SUBJECT: f"{self._run}-{number}", **more}

    async def _shop(self, shop: Role) -> Action:
        await shop.listen(REPLIES)
        placed = []
        for number in range(1, GOOD_ORDERS + 1):
            order = self._order(number, item="atlas", copies=number)
            placed.append(await self._place(shop, order))
            for _ in ("invoice", "parcel"):
                _, _, reply = await shop.take()
                await reply.ack()
            if self._heartbeats and number < GOOD_ORDERS:
                await self._all_beat()
        poison = self._order(GOOD_ORDERS + 1, item="atlas", copies=-1)
        await self._place(shop, poison)
        return placed[0]

    async def _place(self, shop: Role, order: dict[str, object]) -> Action:
        return await shop.publish(ORDERS, "order.new", "order.new", order, reply_to=REPLIES)

    async def _all_beat(self) -> None:
        await asyncio.gather(*(role.hear() for role in self._roles.values()))
        await asyncio.gather(*(role.beat() for role in self._roles.values()))

    async def _accept_orders(self, orders: Role) -> None:
        await orders.listen(NEW_ORDERS)
        while True:
            delivery, order, message = await orders.take()
            if int(str(order["copies"])) < 1:
                self.history.rejected(delivery)
                await message.reject(requeue=False)
                continue
            await asyncio.sleep(WORK_SECONDS)
            accepted = {**order, "accepted": True, "reply_to": message.reply_to}
            await orders.publish(ACCEPTED, "", "order.accepted", accepted, answers=message)
            await message.ack()

    async def _answer(self, service: Role, queue: str, what: str) -> None:
        await service.listen(queue)
        while True:
            _, order, message = await service.take()
            await asyncio.sleep(WORK_SECONDS)
            reply = {SUBJECT: order[SUBJECT], what: f"{what} for {order[SUBJECT]}"}
            await service.publish("", str(order["reply_to"]), what, reply, answers=message)
            await message.ack()

    async def _audit(self, auditor: Role) -> Action:
        await auditor.listen(DEAD)
        action, _, message = await auditor.take()
        await message.ack()
        return action

    async def _count_stock(self, stock: Role) -> None:
        await stock.listen(STOCK)
        for number in range(1, GOOD_ORDERS + 1):
            content = {"stock": f"{self._run}-{number}", "atlas": 40 - number}
            await stock.publish(ORDERS, "stock.changed", "stock.changed", content)
            _, _, message = await stock.take()
            await message.ack()


async def declare(channel: AbstractChannel) -> None:
    """Create the pipeline's exchanges, queues and bindings."""
    kinds = aio_pika.ExchangeType
    orders = await channel.declare_exchange(ORDERS, kinds.TOPIC, durable=True)
    accepted = await channel.declare_exchange(ACCEPTED, kinds.FANOUT, durable=True)
    rejected = await channel.declare_exchange(REJECTED, kinds.FANOUT, durable=True)
    heartbeats = await channel.declare_exchange(HEARTBEATS, kinds.FANOUT, durable=True)
    arguments: dict[str, FieldTable] = {NEW_ORDERS: {"x-dead-letter-exchange": REJECTED}}
    queues = {
        name: await channel.declare_queue(name, durable=True, arguments=arguments.get(name))
        for name in QUEUES
    }
    await queues[NEW_ORDERS].bind(orders, "order.*")
    await queues[STOCK].bind(orders, "stock.*")
    await queues[BILLING].bind(accepted)
    await queues[SHIPPING].bind(accepted)
    await queues[DEAD].bind(rejected)
    for queue in HEARD.values():
        await queues[queue].bind(heartbeats)


async def remove(channel: AbstractChannel) -> None:
    """Remove all of it (deleting what is not there is no error)."""
    for queue in QUEUES:
        await channel.queue_delete(queue)
    for exchange in EXCHANGES:
        await channel.exchange_delete(exchange)
