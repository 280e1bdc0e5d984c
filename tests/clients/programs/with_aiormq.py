"""A program on aiormq: a connection to consume and one to publish on, both of its name."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable

import aiormq
from aiormq.abc import DeliveredMessage

from tests.clients.programs.role import WORK_SECONDS, Role


async def main() -> None:
    me = Role.from_environment()
    url = f"{me.url}?name={me.connection_name}" if me.connection_name else me.url
    connections = [await aiormq.connect(url) for _ in range(2)]
    consuming, publishing = [await connection.channel() for connection in connections]

    async def publish(messages: Iterable[tuple[str, str]], because: Iterable[str] = ()) -> None:
        for target, message in messages:
            body = json.dumps(me.body(message)).encode()
            properties = aiormq.spec.Basic.Properties(message_id=message)
            await publishing.basic_publish(body, routing_key=target, properties=properties)
            me.diary.published(message, because)

    async def handle(delivery: DeliveredMessage) -> None:
        message = delivery.header.properties.message_id
        assert message is not None
        assert delivery.delivery_tag is not None
        await asyncio.sleep(WORK_SECONDS)
        await publish(me.reactions(message), [message])
        await consuming.basic_ack(delivery.delivery_tag)
        me.diary.handled(message)

    if me.starts:
        await publish(me.first())
        for connection in connections:
            await connection.close()
    else:
        await consuming.basic_consume(me.program, handle)
        await asyncio.Future()


if __name__ == "__main__":
    asyncio.run(main())
