"""The broker as a trace sees it: the firehose, and switching it on and off."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.broker.consumer import Firehose, Reading, TraceStream
from app.broker.management import ManagementApi
from app.broker.outages import VirtualHostError, shown
from app.broker.undeliverable import undeliverable
from app.errors import NotFoundError, OutageError
from app.tracker import Unreadable


class TraceSource:
    """Opens streams of trace messages, and switches tracing, for every virtual host."""

    def __init__(self, firehose: Firehose, management: ManagementApi) -> None:
        self._firehose = firehose
        self._management = management
        # Before 4.3.3 the broker loses all but one of concurrent changes of tracing.
        self._switching = asyncio.Lock()

    @asynccontextmanager
    async def open(
        self, vhost: str, prefetch: int, limit: int | None = None
    ) -> AsyncIterator[TraceStream]:
        """Consume the trace queue of a virtual host, created if it is missing.

        ``limit`` ends the stream after this many messages. Raises `OutageError`.
        """
        nodes = await self._management.nodes()
        quorum = await self._is_quorum(vhost)
        if quorum is None:
            quorum = sum(node.running for node in nodes) > 1
        reading = Reading(prefetch, quorum, is_cluster=len(nodes) > 1, limit=limit)
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
        """Switch tracing on wherever it is off; returns the nodes where it was off."""
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

    async def queued_bytes(self, vhost: str) -> int | None:
        """The size of what waits in the trace queue; None when the broker can't say."""
        try:
            return (await self._management.queue(vhost, self._firehose.queue)).message_bytes
        except NotFoundError:
            return None

    async def take_undeliverable(self, vhost: str) -> Unreadable | None:
        """Remove the first message of the trace queue, which the broker cannot hand to a consumer.

        AMQP's routing keys have at most 255 bytes. The trace message of a queue or an exchange
        whose name is longer than 247 has a longer one, and the broker breaks every connection that
        it tries to send it to.
        """
        taken = await self._management.take(vhost, self._firehose.queue)
        return None if taken is None else undeliverable(taken, time.time_ns() // 1000)

    async def _is_quorum(self, vhost: str) -> bool | None:
        """Whether the trace queue is a quorum queue; None if there is no trace queue."""
        try:
            return (await self._management.queue(vhost, self._firehose.queue)).type == "quorum"
        except NotFoundError:
            return None

    async def delete_queue(self, vhost: str) -> None:
        """Delete the trace queue and what it holds."""
        await self._firehose.delete_queue(vhost)


def _no_vhost(vhost: str) -> OutageError:
    return OutageError(
        f"the broker has no virtual host {shown(vhost)} any more: create it again, "
        "or stop this trace"
    )
