"""Steady traffic in which every message leads to others."""

from __future__ import annotations

import asyncio
import contextlib
import random
from contextlib import AsyncExitStack

import aio_pika
from aio_pika.abc import AbstractIncomingMessage

PUBLISHERS = 3
CATCH_UP_SECONDS = 0.5  # the most that a delayed publisher catches up
QUEUES = ("red", "green")


class Load:
    """Clients that publish, consume, answer and sometimes put a message back.

    Each of the publishers sends a message every ``pause`` seconds. It goes to two queues, and each
    delivery is answered: three publishes and two deliveries, five events.
    """

    def __init__(self, url: str, pause: float) -> None:
        self._url = url
        self._pause = pause
        self._number = 0
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin."""
        for queue in QUEUES:
            channel = await self._channel()
            await channel.set_qos(20)
            there = await channel.declare_queue(queue)
            await there.bind("amq.fanout")
            await there.consume(self._answering(channel, queue))
        for _ in range(PUBLISHERS):
            self._tasks.append(asyncio.create_task(self._publish(await self._channel())))

    async def stop(self) -> None:
        """Stop; messages on their way may stay where they are."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()

    async def _channel(self) -> aio_pika.abc.AbstractChannel:
        connection = await self._stack.enter_async_context(await aio_pika.connect(self._url))
        return await connection.channel(publisher_confirms=False)

    async def _publish(self, channel: aio_pika.abc.AbstractChannel) -> None:
        fanout = await channel.get_exchange("amq.fanout", ensure=False)
        now = asyncio.get_running_loop().time
        due = now()
        while True:
            self._number += 1
            body = b"%d" % self._number
            await fanout.publish(aio_pika.Message(body), "", mandatory=False)
            due = max(due + self._pause, now() - CATCH_UP_SECONDS)
            await asyncio.sleep(due - now())

    def _answering(self, channel: aio_pika.abc.AbstractChannel, queue: str):  # type: ignore[no-untyped-def]
        async def take(message: AbstractIncomingMessage) -> None:
            with contextlib.suppress(aio_pika.exceptions.AMQPError):
                if not message.redelivered and random.random() < 0.05:
                    await message.nack(requeue=True)
                    return
                answer = aio_pika.Message(message.body + queue.encode())
                # Nothing is bound there: in a queue that nobody empties, copies would pile up.
                topic = await channel.get_exchange("amq.topic", ensure=False)
                await topic.publish(answer, "answer", mandatory=False)
                await message.ack()

        return take
