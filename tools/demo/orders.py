"""Orders by the hundred: ``python -m tools.demo.orders [URL]``, for what needs more than three.

    shop ──order.placed──▶ approval ──order.approved──▶ billing ──invoice.sent──▶ shop

Messages say their type, their order as the correlation id, and in the header ``causation_id`` which
message they answer. ``--coupons`` of the orders carry a coupon, which this billing does not know:
to them it sends no invoice, and tells nobody. ``--receipts`` is a newer billing, which sends a
receipt with every invoice. ``--pause`` places one more order some seconds after the others: as long
as nothing later is recorded, these may be too young to be judged. It ends as many seconds after
that one: a time taken then is behind all of it, however late a busy service records. URL is the
broker's, by default ``AMQP_URL``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

LOCAL = "amqp://guest:guest@127.0.0.1:5672/%2F"
PREFIX = "itc-demo.many"  # of queues that nobody else has
PLACED, APPROVED, INVOICE, RECEIPT = (
    "order.placed",
    "order.approved",
    "invoice.sent",
    "receipt.sent",
)
COUPON = {"coupon": "SPRING"}
AT_ONCE = 20  # orders that are under way
ORDER_SECONDS = 60.0
CONNECT_SECONDS = 30.0

Handle = Callable[[AbstractIncomingMessage], Awaitable[None]]


class Role:
    """A program with a connection of its own, which answers the messages of a queue."""

    def __init__(self, channel: AbstractChannel) -> None:
        self._channel = channel

    async def publish(
        self,
        queue: str,
        kind: str,
        order: str,
        headers: dict[str, str] | None = None,
        *,
        answers: AbstractIncomingMessage | None = None,
    ) -> None:
        """Publish a message about an order, and wait for the broker's confirm."""
        cause = {} if answers is None else {"causation_id": str(answers.message_id)}
        message = aio_pika.Message(
            json.dumps({"order": order}).encode(),
            content_type="application/json",
            type=kind,
            message_id=str(uuid.uuid4()),
            correlation_id=order,
            headers={**(headers or {}), **cause},
        )
        await self._channel.default_exchange.publish(message, queue)

    async def handle(self, queue: str, handle: Handle) -> None:
        """Have a queue's messages handled, and acknowledged when they are."""
        source = await self._channel.declare_queue(queue, exclusive=True)

        async def work(message: AbstractIncomingMessage) -> None:
            async with message.process():
                await handle(message)

        await source.consume(work)


class ManyOrders:
    """Places orders, of which some carry a coupon, and waits until all have been dealt with."""

    def __init__(self, orders: int, coupons: int, *, receipts: bool, pause: float) -> None:
        self._orders = orders
        self._pause = pause
        self._with_coupon = {(2 * n + 1) * orders // (2 * coupons) for n in range(coupons)}
        self._receipts = receipts
        self._run = uuid.uuid4().hex[:8]
        self._free = asyncio.Semaphore(AT_ONCE)
        self._done = asyncio.Event()
        self._left = orders + bool(pause)

    async def run(self, url: str) -> None:
        """Have all of them placed on a broker, approved, and billed."""
        async with AsyncExitStack() as stack:
            shop, approval, billing = [
                Role(await _channel(stack, url, name)) for name in ("shop", "approval", "billing")
            ]
            to = {name: f"{PREFIX}.{name}-{self._run}" for name in ("approval", "billing", "shop")}

            async def approve(message: AbstractIncomingMessage) -> None:
                order = str(message.correlation_id)
                await approval.publish(to["billing"], APPROVED, order, answers=message)

            async def bill(message: AbstractIncomingMessage) -> None:
                order = str(message.correlation_id)
                if int(order.rpartition("-")[2]) in self._with_coupon:
                    self._end()
                    return
                for kind in (INVOICE, RECEIPT) if self._receipts else (INVOICE,):
                    await billing.publish(to["shop"], kind, order, answers=message)

            async def end(message: AbstractIncomingMessage) -> None:
                if message.type == (RECEIPT if self._receipts else INVOICE):
                    self._end()

            await shop.handle(to["shop"], end)
            await billing.handle(to["billing"], bill)
            await approval.handle(to["approval"], approve)
            for number in range(self._orders):
                await self._place(shop, to["approval"], number)
            if self._pause:
                await asyncio.sleep(self._pause)
                await self._place(shop, to["approval"], self._orders)
            await asyncio.wait_for(self._done.wait(), ORDER_SECONDS)
        await asyncio.sleep(self._pause)

    async def _place(self, shop: Role, queue: str, number: int) -> None:
        await asyncio.wait_for(self._free.acquire(), ORDER_SECONDS)
        headers = COUPON if number in self._with_coupon else {}
        await shop.publish(queue, PLACED, f"{self._run}-{number}", headers)

    def _end(self) -> None:
        self._free.release()
        self._left -= 1
        if not self._left:
            self._done.set()


async def _channel(stack: AsyncExitStack, url: str, name: str) -> AbstractChannel:
    connection = await aio_pika.connect(
        url, timeout=CONNECT_SECONDS, client_properties={"connection_name": name}
    )
    await stack.enter_async_context(connection)
    channel = await connection.channel()
    await channel.set_qos(prefetch_count=AT_ONCE)
    return channel


def main() -> None:
    """Place orders as the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("url", nargs="?", default=os.environ.get("AMQP_URL", LOCAL))
    parser.add_argument("--orders", type=int, default=1000)
    parser.add_argument("--coupons", type=int, default=0, help="how many have a coupon")
    parser.add_argument("--receipts", action="store_true", help="send receipts, too")
    parser.add_argument("--pause", type=float, default=0, help="seconds before one more order")
    asked = parser.parse_args()
    many = ManyOrders(asked.orders, asked.coupons, receipts=asked.receipts, pause=asked.pause)
    asyncio.run(many.run(asked.url))
    print(f"{asked.orders} orders, {asked.coupons} of them with a coupon")


if __name__ == "__main__":
    main()
