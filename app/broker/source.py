"""The broker as a trace sees it: the firehose, and the switch that turns it on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.broker.consumer import Firehose, TraceStream
from app.broker.management import ManagementApi
from app.errors import NotFoundError


class TraceSource:
    """Streams of trace messages, and tracing itself, for every virtual host."""

    def __init__(self, firehose: Firehose, management: ManagementApi) -> None:
        self._firehose = firehose
        self._management = management
        # Before 4.3.3 the broker loses all but one of concurrent changes of tracing.
        self._switching = asyncio.Lock()

    @asynccontextmanager
    async def open(self, vhost: str, prefetch: int) -> AsyncIterator[TraceStream]:
        """Consume the trace queue of a virtual host, made where it is missing.

        :raises OutageError: when the broker cannot be used.
        """
        running = [node for node in await self._management.nodes() if node.running]
        async with self._firehose.open(vhost, prefetch, quorum=len(running) > 1) as stream:
            yield stream

    async def has_vhost(self, vhost: str) -> bool:
        """Whether the broker has this virtual host."""
        return vhost in await self._management.vhosts()

    async def switch_on(self, vhost: str) -> list[str]:
        """Switch tracing on wherever it is off; return the nodes where it was off."""
        async with self._switching:
            return await self._management.set_tracing(vhost, True)

    async def switch_off(self, vhost: str) -> None:
        """Switch tracing off, unless somebody else's queue is bound to the trace exchange."""
        async with self._switching:
            if await self._management.trace_queues(vhost) <= {self._firehose.queue}:
                await self._management.set_tracing(vhost, False)

    async def queued_bytes(self, vhost: str) -> int | None:
        """Return the size of what waits in the trace queue; None when the broker can't say."""
        try:
            return (await self._management.queue(vhost, self._firehose.queue)).message_bytes
        except NotFoundError:
            return None

    async def delete_queue(self, vhost: str) -> None:
        """Delete the trace queue with what it holds."""
        await self._firehose.delete_queue(vhost)
