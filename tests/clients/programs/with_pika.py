"""A program on pika, with one connection, or with one to consume and one to publish on.

python -m tests.clients.programs.with_pika one|two
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import Basic

from tests.clients.programs.role import WORK_SECONDS, Role


def connect(me: Role) -> BlockingChannel:
    parameters = pika.URLParameters(me.url)
    if me.client_properties:
        parameters.client_properties = me.client_properties
    return pika.BlockingConnection(parameters).channel()


def main(connections: str) -> None:
    me = Role.from_environment()
    consuming = connect(me)
    publishing = connect(me) if connections == "two" else consuming

    def publish(messages: Iterable[tuple[str, str]], because: Iterable[str] = ()) -> None:
        for target, message in messages:
            body = json.dumps(me.body(message)).encode()
            publishing.basic_publish(
                "", target, body, pika.BasicProperties(message_id=message, delivery_mode=2)
            )
            me.diary.published(message, because)

    def handle(
        channel: BlockingChannel,
        method: Basic.Deliver,
        properties: pika.BasicProperties,
        body: bytes,
    ) -> None:
        message = properties.message_id
        time.sleep(WORK_SECONDS)
        publish(me.reactions(message), [message])
        channel.basic_ack(method.delivery_tag)
        me.diary.handled(message)

    if me.starts:
        publish(me.first())
        publishing.connection.close()
    else:
        consuming.basic_consume(me.program, handle)
        consuming.start_consuming()


if __name__ == "__main__":
    main(sys.argv[1])
