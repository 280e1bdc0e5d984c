"""A Celery application of four programs: one that calls, and three workers.

    celery -A tests.clients.programs.with_celery worker -Q orders     (billing, shipping)
    python -c "from tests.clients.programs.with_celery import main; main()"    calls

Each queue has a worker. A task that is called in another, a chain, a chord, and a retry at a later
time (ETA). The truth is written by Celery's own signals, in whatever process publishes.
"""

from __future__ import annotations

import time
from typing import Any

from celery import Celery, Task, chain, chord, current_task, signals

from tests.clients.programs.role import WORK_SECONDS, Role

me = Role.from_environment()
app = Celery("pipeline", broker=me.url, backend=f"file://{me.folder}")
app.conf.update(
    broker_transport_options={"client_properties": me.client_properties},
    broker_connection_retry_on_startup=True,
    result_chord_retry_interval=0.2,
)


def _name(request: Any) -> str:
    return f"{request.id}/{request.retries or 0}"


@signals.before_task_publish.connect
def _published(headers: dict[str, Any], **_: Any) -> None:
    because = [_name(current_task.request)] if current_task else []
    me.diary.published(f"{headers['id']}/{headers['retries']}", because)


@signals.task_prerun.connect
def _work(**_: Any) -> None:
    time.sleep(WORK_SECONDS)


@signals.task_postrun.connect
def _handled(task: Task, **_: Any) -> None:
    me.diary.handled(_name(task.request))


@app.task(queue="orders")
def order(number: int) -> int:
    announce.delay(number)
    return number


@app.task(bind=True, queue="billing")
def bill(self: Task, number: int) -> int:
    if not self.request.retries:
        raise self.retry(countdown=0.3)
    return number


@app.task(queue="shipping")
def ship(number: int) -> int:
    return number


@app.task(queue="shipping")
def announce(number: int) -> int:
    return number


@app.task(bind=True, queue="shipping")
def pack(self: Task, number: int) -> str:
    return _name(self.request)


@app.task(bind=True, queue="shipping")
def settle(self: Task, packed: list[str]) -> None:
    """A chord's body: it gets the header's results, which are the names of its messages.

    Its queue is that of `celery.chord_unlock` too, which publishes it. The header's tasks have the
    same: what is joined through the store of results, and not by messages, is then joined within
    one program.
    """
    me.diary.joined(_name(self.request), packed)


def main() -> None:
    for number in range(me.requests):
        chain(order.s(number), bill.s(), ship.s()).apply_async()
        chord([pack.s(number), pack.s(number)])(settle.s())
