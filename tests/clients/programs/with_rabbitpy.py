"""A program on rabbitpy, which asks for each message with `basic.get`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable

import rabbitpy

from tests.clients.programs.role import Role

PAUSE_SECONDS = 0.05  # between two questions to an empty queue


def main() -> None:
    me = Role.from_environment()
    with rabbitpy.Connection(me.url, connection_name=me.connection_name) as connection:
        channel = connection.channel()

        def publish(messages: Iterable[tuple[str, str]], because: Iterable[str] = ()) -> None:
            for target, message in messages:
                body = json.dumps(me.body(message)).encode()
                rabbitpy.Message(channel, body, {"message_id": message}).publish("", target)
                me.diary.published(message, because)

        if me.starts:
            publish(me.first())
            return
        queue = rabbitpy.Queue(channel, me.program)
        while True:
            delivery = queue.get()
            if delivery is None:
                time.sleep(PAUSE_SECONDS)
                continue
            message = delivery.properties["message_id"]
            if isinstance(message, bytes):
                message = message.decode()
            publish(me.reactions(message), [message])
            delivery.ack()
            me.diary.handled(message)


if __name__ == "__main__":
    main()
