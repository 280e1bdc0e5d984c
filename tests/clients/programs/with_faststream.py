"""A program on FastStream: a subscriber that publishes with its broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from faststream import FastStream
from faststream.rabbit import RabbitBroker, RabbitMessage, RabbitQueue
from yarl import URL

from tests.clients.programs.role import Role


async def main() -> None:
    me = Role.from_environment()
    url = URL(me.url)
    broker = RabbitBroker(url.update_query(name=me.connection_name) if me.connection_name else url)

    async def publish(messages: Iterable[tuple[str, str]], because: Iterable[str] = ()) -> None:
        for target, message in messages:
            await broker.publish(me.body(message), target, message_id=message)
            me.diary.published(message, because)

    if me.starts:
        async with broker:
            await publish(me.first())
        return

    @broker.subscriber(RabbitQueue(me.program, durable=True))
    async def handle(body: dict[str, str], delivery: RabbitMessage) -> None:
        await publish(me.reactions(delivery.message_id), [delivery.message_id])
        me.diary.handled(delivery.message_id)

    await FastStream(broker).run()


if __name__ == "__main__":
    asyncio.run(main())
