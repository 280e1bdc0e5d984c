"""The broker as a trace sees it: the firehose, and the switch that turns it on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.broker.consumer import EVERYTHING, Firehose, Reading, TraceStream
from app.broker.management import Binding, ManagementApi, QueueInfo
from app.broker.outages import VirtualHostError, shown
from app.broker.trace_queue import QueueState, fault, state
from app.broker.undeliverable import undeliverable
from app.errors import ForeignQueueError, NotFoundError, OutageError
from app.tracker import Unreadable


class TraceSource:
    """Streams of trace messages, and tracing itself, for every virtual host."""

    def __init__(self, firehose: Firehose, management: ManagementApi) -> None:
        self._firehose = firehose
        self._management = management
        # Before 4.3.3 the broker loses all but one of concurrent changes of tracing.
        self._switching = asyncio.Lock()

    @asynccontextmanager
    async def open(
        self, vhost: str, prefetch: int, limit: int | None = None
    ) -> AsyncIterator[TraceStream]:
        """Consume the trace queue of a virtual host, made where it is missing.

        ``limit`` ends the stream after this many messages. Raises `OutageError`, and
        `ForeignQueueError` where there is a queue of that name which cannot be ours.
        """
        nodes = await self._management.nodes()
        queue = await self._queue(vhost)
        if queue is None:
            quorum, was_bound = sum(node.running for node in nodes) > 1, True
        else:
            self._refuse_foreign(vhost, queue)
            quorum, was_bound = queue.type == "quorum", await self._is_bound(vhost)
        reading = Reading(
            prefetch, quorum, is_cluster=len(nodes) > 1, was_bound=was_bound, limit=limit
        )
        try:
            async with self._firehose.open(vhost, reading) as stream:
                yield stream
        except VirtualHostError as error:
            if await self.has_vhost(vhost):
                raise
            raise _no_vhost(vhost) from error

    async def has_vhost(self, vhost: str) -> bool:
        """Whether the broker has this virtual host."""
        return vhost in await self._management.vhosts()

    async def switch_on(self, vhost: str) -> list[str]:
        """Switch tracing on wherever it is off; return the nodes where it was off."""
        async with self._switching:
            try:
                return await self._management.set_tracing(vhost, True)
            except NotFoundError as error:
                raise _no_vhost(vhost) from error

    async def switch_off(self, vhost: str) -> None:
        """Switch tracing off, unless somebody else's queue is bound to the trace exchange."""
        async with self._switching:
            if await self._management.trace_queues(vhost) <= {self._firehose.queue}:
                await self._management.set_tracing(vhost, False)

    async def look(self, vhost: str) -> QueueState:
        """Look at the trace queue: whether it is as it was made, bound, and how full."""
        queue = await self._queue(vhost)
        if queue is None:  # a lost stream is the consumer's to report
            return QueueState()
        return state(queue, self._firehose.bounds, is_bound=await self._is_bound(vhost))

    async def take_undeliverable(self, vhost: str) -> Unreadable | None:
        """Remove the first message of the trace queue, which the broker cannot hand to a consumer.

        AMQP's routing keys end at 255 bytes. The trace message of a queue or an exchange whose
        name is longer than 247 has a longer one, and the broker breaks off every connection that
        it tries to send it to.
        """
        taken = await self._management.take(vhost, self._firehose.queue)
        return None if taken is None else undeliverable(taken, time.time_ns() // 1000)

    async def _queue(self, vhost: str) -> QueueInfo | None:
        """The trace queue; None where there is none."""
        try:
            return await self._management.queue(vhost, self._firehose.queue)
        except NotFoundError:
            return None

    async def _is_bound(self, vhost: str) -> bool:
        ours = Binding(self._firehose.queue, "queue", EVERYTHING)
        return ours in await self._management.trace_bindings(vhost)

    def _refuse_foreign(self, vhost: str, queue: QueueInfo) -> None:
        if what := fault(queue, self._firehose.bounds):
            raise ForeignQueueError(
                f"the queue {shown(queue.name)} of the virtual host {shown(vhost)} was made by "
                f"somebody else ({shown(what)}), and is made anew"
            )

    async def delete_queue(self, vhost: str) -> None:
        """Delete the trace queue with what it holds."""
        await self._firehose.delete_queue(vhost)


def _no_vhost(vhost: str) -> OutageError:
    return OutageError(
        f"the broker has no virtual host {shown(vhost)} any more: make it again, or stop this trace"
    )
