"""A program on aio-pika: one connection, a channel to consume and one to publish on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable

import aio_pika
from aio_pika.abc import AbstractIncomingMessage

from tests.clients.programs.role import WORK_SECONDS, Role


async def main() -> None:
    me = Role.from_environment()
    connection = await aio_pika.connect_robust(
        me.url, client_properties=me.client_properties or None
    )
    consuming, publishing = await connection.channel(), await connection.channel()

    async def publish(messages: Iterable[tuple[str, str]], because: Iterable[str] = ()) -> None:
        for target, message in messages:
            body = json.dumps(me.body(message)).encode()
            await publishing.default_exchange.publish(
                aio_pika.Message(body, message_id=message), target
            )
            me.diary.published(message, because)

    async def handle(delivery: AbstractIncomingMessage) -> None:
        async with delivery.process():
            message = delivery.message_id
            assert message is not None
            await asyncio.sleep(WORK_SECONDS)
            await publish(me.reactions(message), [message])
        me.diary.handled(message)

    if me.starts:
        await publish(me.first())
        await connection.close()
    else:
        queue = await consuming.get_queue(me.program)
        await queue.consume(handle)
        await asyncio.Future()


if __name__ == "__main__":
    asyncio.run(main())
