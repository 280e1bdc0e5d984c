"""A program whose messages are events of the CloudEvents SDK, bound to AMQP; on pika.

Those for the last program are whole in the body, the others in headers.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

import pika
from cloudevents.core.bindings import amqp
from cloudevents.core.v1.event import CloudEvent
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import Basic

from tests.clients.programs.role import WORK_SECONDS, Role
from tests.clients.programs.with_pika import connect


def main() -> None:
    me = Role.from_environment()
    channel = connect(me)

    def publish(messages: Iterable[tuple[str, str]], cause: str | None = None) -> None:
        for target, message in messages:
            named = {} if cause is None else {"causationid": cause}
            said = {"id": message, "type": target, "source": f"/{me.program}", **named}
            event = CloudEvent(
                {"specversion": "1.0", "datacontenttype": "application/json", **said}, {}
            )
            bind = amqp.to_structured_event if target == "mail" else amqp.to_binary_event
            bound = bind(event)
            properties = pika.BasicProperties(
                bound.properties["content-type"],
                headers=bound.application_properties,
                message_id=message,
                delivery_mode=2,
            )
            channel.basic_publish("", target, bound.application_data, properties)
            me.diary.published(message, [] if cause is None else [cause])

    def handle(
        consumer: BlockingChannel,
        method: Basic.Deliver,
        properties: pika.BasicProperties,
        body: bytes,
    ) -> None:
        bound = amqp.AMQPMessage(
            {"content-type": properties.content_type}, properties.headers or {}, body
        )
        message = amqp.from_amqp_event(bound).get_id()
        time.sleep(WORK_SECONDS)
        publish(me.reactions(message), message)
        consumer.basic_ack(method.delivery_tag)
        me.diary.handled(message)

    if me.starts:
        publish(me.first())
        channel.connection.close()
    else:
        channel.basic_consume(me.program, handle)
        channel.start_consuming()


if __name__ == "__main__":
    main()
