"""A Dramatiq application: one program that calls, and a worker for each queue.

    dramatiq tests.clients.programs.with_dramatiq --queues orders     (billing, shipping, mail)
    python -c "from tests.clients.programs.with_dramatiq import main; main()"    calls

An actor that sends in another, a pipeline, and a retry, which waits in a queue of its own. The
truth is written by a middleware, in whatever thread publishes.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.middleware import CurrentMessage, Middleware, Pipelines, Retries

from tests.clients.programs.role import WORK_SECONDS, Role

me = Role.from_environment()


def _name(message: Any) -> str:
    return f"{message.message_id}/{message.options.get('retries', 0)}@{message.queue_name}"


class Witness(Middleware):
    """Writes down what is published and handled. First in the list, so it hears of an end last."""

    def __init__(self) -> None:
        self._here = threading.local()
        self._delayed: dict[tuple[str, int, str], str] = {}

    def before_delay_message(self, broker: Any, message: Any) -> None:
        self._delayed[self._wait(message)] = _name(message)

    @staticmethod
    def _wait(message: Any) -> tuple[str, int, str]:
        """What a message has in common with the copy that is published when its time has come."""
        queue = message.queue_name.removesuffix(".DQ")
        return message.message_id, message.options.get("retries", 0), queue

    def before_process_message(self, broker: Any, message: Any) -> None:
        self._here.handling = _name(message)
        time.sleep(WORK_SECONDS)

    def before_enqueue(self, broker: Any, message: Any, delay: int | None) -> None:
        waited = self._delayed.pop(self._wait(message), None) if delay is None else None
        cause = waited or getattr(self._here, "handling", None)
        me.diary.published(_name(message), [cause] if cause else [])
        if waited:
            me.diary.handled(waited)

    def after_process_message(self, broker: Any, message: Any, **_: Any) -> None:
        # Signals go backwards through the list: Retries and Pipelines have published by now, and
        # Retries has counted the attempt in the message.
        me.diary.handled(self._here.handling)
        self._here.handling = None


broker = RabbitmqBroker(
    url=me.url, middleware=[Witness(), Retries(min_backoff=200), Pipelines(), CurrentMessage()]
)
if me.client_properties:
    broker.parameters.client_properties = me.client_properties
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name="orders")
def order(number: int) -> int:
    announce.send(number)
    return number


@dramatiq.actor(queue_name="billing", max_retries=1)
def bill(number: int) -> int:
    message = CurrentMessage.get_current_message()
    if message is None or not message.options.get("retries"):
        raise ConnectionError("not yet")
    return number


@dramatiq.actor(queue_name="shipping")
def ship(number: int) -> int:
    post.send(number)
    return number


@dramatiq.actor(queue_name="mail")
def announce(number: int) -> None:
    pass


@dramatiq.actor(queue_name="mail")
def post(number: int) -> None:
    pass


def main() -> None:
    for number in range(me.requests):
        (order.message(number) | bill.message() | ship.message()).run()
    broker.close()
