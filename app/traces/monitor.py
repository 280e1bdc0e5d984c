"""Keeps tracing on during a run, and notes where the firehose may have lost something."""

from __future__ import annotations

import asyncio
import contextlib
import time

from app.errors import OutageError
from app.traces.pipeline import Ending, Pipeline
from app.traces.ports import Stream
from app.traces.recorder import Recorder

LAG_SECONDS = 2.0
UNBOUND = "the trace queue was not bound to the trace exchange"
FULL = "the trace queue reached its limit, and drops its oldest messages"


class Monitor:
    """Watches one stream.

    ``lag`` is how many of its messages wait to be taken, None before the first check.
    """

    def __init__(
        self, pipeline: Pipeline, recorder: Recorder, stream: Stream, ending: Ending
    ) -> None:
        self._pipeline = pipeline
        self._recorder = recorder
        self._stream = stream
        self._ending = ending
        self._gaps = pipeline.gaps
        self._harm: str | None = None
        self.lag: int | None = None

    async def begin(self) -> None:
        """Switch tracing on, and record what was certainly missed before."""
        pipeline, stream, gaps = self._pipeline, self._stream, self._gaps
        restored, queued = self._recorder.restored, stream.queued_before
        was_off = await pipeline.source.switch_on(pipeline.trace.vhost)
        stored = await pipeline.store.gaps.newest(pipeline.trace.id)
        gaps.resume(restored.last_event_id, restored.recorded_at, stored, queued)
        since, gaps.well_until = gaps.well_until, _now()
        if not restored.state:
            # From here on every start is a resumption, even if there is no event yet.
            await self._recorder.append(self._recorder.batch([], []))
        elif gaps.is_open:
            pass  # it covers this moment too
        elif stream.queue_is_new:
            await gaps.lost("the trace queue was gone", since, queued)
        elif was_off:
            await gaps.lost(_off(was_off), since, queued)
        elif not stream.was_bound:
            await gaps.lost(UNBOUND, since, queued)
        await self._look_at_queue(since)
        await gaps.write()

    async def watch(self) -> None:
        """Keep the lag up to date, and check from time to time whether tracing is still on.

        Ends only by a failure.
        """
        check_seconds = self._pipeline.settings.check_seconds
        next_check = time.monotonic() + check_seconds
        while True:
            await asyncio.sleep(LAG_SECONDS)
            with contextlib.suppress(OutageError):  # the consumer reports a lost stream
                self.lag = await self._stream.ready_messages() + self._stream.buffered
            if time.monotonic() >= next_check:
                next_check = time.monotonic() + check_seconds
                # Without the management API nothing is known of tracing; the next check may tell.
                with contextlib.suppress(OutageError):
                    await self._check()
                with contextlib.suppress(OutageError):  # the next time will do
                    await self._pipeline.store.aliases.learn(self._pipeline.trace.id)

    async def _check(self) -> None:
        if self._ending.when_empty:  # tracing is off on purpose
            return
        gaps = self._gaps
        was_off = await self._pipeline.source.switch_on(self._pipeline.trace.vhost)
        since, gaps.well_until = gaps.well_until, _now()
        if was_off:
            await gaps.lost(_off(was_off), since, self.lag or 0)
        await self._look_at_queue(since)
        await gaps.write()

    async def _look_at_queue(self, since: int) -> None:
        """See that our queue is as declared: bound, bounded by nobody else, and not full."""
        pipeline, gaps = self._pipeline, self._gaps
        queue = await pipeline.source.look(pipeline.trace.vhost)
        if queue.fault:  # our own is gone; this ends our consumer
            await gaps.losing(f"the trace queue was another's: {queue.fault}", since)
            await pipeline.source.delete_queue(pipeline.trace.vhost)
            return
        if not queue.is_bound:
            await self._stream.bind()
            await gaps.lost(UNBOUND, since, self.lag or 0)
        await self._note_harm(queue.harm, since)
        if queue.is_nearly_full:
            await gaps.losing(FULL, since)
        elif queue.is_nearly_full is not None:  # if the broker cannot say now, nothing changes
            await gaps.ended(FULL, self.lag or 0)

    async def _note_harm(self, harm: str | None, since: int) -> None:
        if self._harm is not None and harm != self._harm:
            await self._gaps.ended(self._harm, self.lag or 0)
        if harm is not None:
            await self._gaps.losing(harm, since)
        self._harm = harm


def _off(nodes: list[str]) -> str:
    return f"tracing was off on {', '.join(nodes)}"


def _now() -> int:
    return time.time_ns() // 1000
