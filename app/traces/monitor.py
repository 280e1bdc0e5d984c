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
# From here on the broker may already be dropping the oldest trace messages.
NEARLY_FULL = 0.95
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
            # From here on a start is a return, even if there is no event yet.
            await self._recorder.append(self._recorder.batch([], []))
        elif gaps.is_open:
            pass  # it covers this moment too
        elif stream.queue_is_new:
            await gaps.lost("the trace queue was gone", since, queued)
        elif was_off:
            await gaps.lost(_off(was_off), since, queued)
        await self._look_at_limit(since)
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

    async def _check(self) -> None:
        if self._ending.when_empty:  # tracing is off on purpose
            return
        gaps = self._gaps
        was_off = await self._pipeline.source.switch_on(self._pipeline.trace.vhost)
        since, gaps.well_until = gaps.well_until, _now()
        if was_off:
            await gaps.lost(_off(was_off), since, self.lag or 0)
        await self._look_at_limit(since)
        await gaps.write()

    async def _look_at_limit(self, since: int) -> None:
        pipeline = self._pipeline
        queued_bytes = await pipeline.source.queued_bytes(pipeline.trace.vhost)
        if queued_bytes is None:  # the broker cannot say now: assume that nothing has changed
            return
        if queued_bytes > NEARLY_FULL * pipeline.settings.queue_max_bytes:
            await self._gaps.losing(FULL, since)
        else:
            await self._gaps.ended(FULL, self.lag or 0)


def _off(nodes: list[str]) -> str:
    return f"tracing was off on {', '.join(nodes)}"


def _now() -> int:
    return time.time_ns() // 1000
