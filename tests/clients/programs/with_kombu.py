"""A program on kombu: a consumer on its connection, producers from a pool that has others."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import kombu
from kombu.mixins import ConsumerProducerMixin

from tests.clients.programs.role import WORK_SECONDS, Role


class Program(ConsumerProducerMixin):
    """Kombu's own way to do both: `producer_connection` is a second connection."""

    def __init__(self, me: Role) -> None:
        self.me = me
        self.connection = kombu.Connection(
            me.url, transport_options={"client_properties": me.client_properties}
        )

    def get_consumers(self, Consumer: Any, channel: Any) -> list[Any]:
        queue = kombu.Queue(self.me.program, no_declare=True)
        return [Consumer([queue], on_message=self.handle)]

    def handle(self, delivery: Any) -> None:
        message = delivery.properties["message_id"]
        time.sleep(WORK_SECONDS)
        self.publish(self.me.reactions(message), [message])
        delivery.ack()
        self.me.diary.handled(message)

    def publish(self, messages: Iterable[tuple[str, str]], because: Iterable[str] = ()) -> None:
        for target, message in messages:
            body = self.me.body(message)
            self.producer.publish(body, exchange="", routing_key=target, message_id=message)
            self.me.diary.published(message, because)


def main() -> None:
    me = Role.from_environment()
    program = Program(me)
    if me.starts:
        program.publish(me.first())
        program.producer_connection.close()
    else:
        program.run()


if __name__ == "__main__":
    main()
