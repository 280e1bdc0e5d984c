"""RabbitMQ's own tracing plugin draining a backlog: it writes each message as a line of JSON.

The plugin only traces live traffic. So its consumer is suspended while the backlog gathers in its
queue, and resumed to drain it: the same messages that all the others drain.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tools.servers import RabbitNode, ServerError, wait_until

NAME = "rabbitmq_tracing"
LOG = "bench"
LOOK_SECONDS = 0.005
PATIENCE_SECONDS = 300
_CONSUMERS = (
    "[sys:{action}(P) || P <- processes(),"
    " {{rabbit_tracing_consumer, _, _}} <- [proc_lib:translate_initial_call(P)]]."
)


@contextmanager
def suspended(broker: RabbitNode, vhost: str) -> Iterator[Path]:
    """One of the plugin's traces that consumes nothing yet; yields the file that it will write."""
    broker.ctl("enable", NAME, tool="rabbitmq-plugins")
    # The management API is away for a moment, and comes back with the plugin's part of it. So it
    # is when the plugin goes.
    wait_until(lambda: _is_traced(broker, vhost), 60, "the management API with the plugin")
    try:
        # The answer to PUT may come before the consumer exists.
        suspend = _CONSUMERS.format(action="suspend")
        wait_until(lambda: "ok" in broker.ctl("eval", suspend), 60, "the plugin's consumer")
        yield broker.folder / "tracing" / f"{LOG}.log"
    finally:
        broker.api("DELETE", "traces", vhost, LOG)
        broker.ctl("disable", NAME, tool="rabbitmq-plugins")
        wait_until(lambda: _is_gone(broker), 60, "the management API without the plugin")


def _is_traced(broker: RabbitNode, vhost: str) -> bool:
    try:
        broker.api("PUT", "traces", vhost, LOG, json={"format": "json", "pattern": "#"})
    except ServerError:
        return False
    return True


def _is_gone(broker: RabbitNode) -> bool:
    try:
        broker.api("GET", "traces")
    except ServerError as error:
        return ": 404 " in str(error)  # else it does not answer
    return False


def drained(broker: RabbitNode, file: Path, count: int) -> float:
    """Resume it; return the messages per second from the first line to the last of ``count``."""
    with ThreadPoolExecutor(1) as pool, file.open("rb") as lines:
        lines.seek(0, os.SEEK_END)  # after what an earlier trace of this name has left
        resuming = pool.submit(broker.ctl, "eval", _CONSUMERS.format(action="resume"))
        until = time.monotonic() + PATIENCE_SECONDS
        first, begin, seen = 0, 0.0, 0
        while seen < count:
            if time.monotonic() > until:
                raise TimeoutError(f"{NAME} wrote {seen} of {count} messages")
            if new := lines.read().count(b"\n"):
                seen += new
                first, begin = (first, begin) if first else (seen, time.perf_counter())
            else:
                time.sleep(LOOK_SECONDS)
        seconds = time.perf_counter() - begin
        resuming.result()
    if first >= count:
        raise RuntimeError(f"{NAME} had already drained its backlog, so nothing was measured")
    return (seen - first) / seconds
