"""One attempt at running a trace: restore it, connect it, and let it run.

Whatever goes wrong ends the attempt: the next one starts from the checkpoint again, and what was
not acknowledged comes back from the broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.errors import ForeignQueueError, QueueInUseError, QueueLostError, QueueTakenError
from app.traces.life import Standing
from app.traces.pipeline import Ending, Pipeline
from app.traces.recorder import Recorder
from app.traces.run import Run
from app.traces.status import Snapshot

if TYPE_CHECKING:
    from app.broker.source import Stream


class Attempt:
    """Opens a trace, which becomes a `Run` once it is connected; a new object for each attempt."""

    def __init__(self, pipeline: Pipeline, *, passing: bool = False) -> None:
        """Prepare it; ``passing`` reads past messages that the broker cannot hand over."""
        self._pipeline = pipeline
        self.is_passing = passing
        self.is_over = False  # when passing: whether the usual way will do again
        self._ending = Ending()
        # How far it has come: nothing is known yet, restored, or running.
        self._reached: Recorder | Run | None = None

    def stop(self) -> None:
        """Ask the run to end after the current batch; the queue keeps collecting."""
        self._ending.at_once = True

    def drain(self) -> None:
        """Ask the run to end once the queue is empty."""
        self._ending.when_empty = True

    def snapshot(self, standing: Standing) -> Snapshot:
        """The numbers as far as they are known."""
        if self._reached is None:
            return Snapshot(standing, last_event_id=self._pipeline.trace.last_event_id)
        return self._reached.snapshot(standing)

    async def run(self) -> None:
        """Restore, connect, and store what comes, until asked to end.

        Raises `OutageError` if the broker or the database is away, `UndeliverableError` at a
        message that has to be passed.
        """
        pipeline = self._pipeline
        recorder = await self._restore()
        try:
            source = pipeline.source
            open_stream = source.open_passing if self.is_passing else source.open
            prefetch, sentinel = recorder.window.span, recorder.sentinel
            taken, before = pipeline.trace.taken, recorder.tracker.took
            async with open_stream(
                pipeline.trace.vhost, prefetch, sentinel, taken, before
            ) as stream:
                await self._follow(recorder, stream)
                self.is_over = stream.is_over
        except QueueInUseError:
            await self._cut_off()
            raise
        except ForeignQueueError as error:
            await self._lost_queue(recorder, str(error))
            await pipeline.source.delete_queue(pipeline.trace.vhost)
            raise
        except QueueTakenError:
            await self._lost_queue(recorder, "the trace queue belonged to another service")
            raise
        except QueueLostError as error:
            await self._lost_queue(recorder, error.gap)
            raise

    async def _cut_off(self) -> None:
        """Have services that hold the trace no more leave its queue to us."""
        trace = self._pipeline.trace
        known = {each.id for each in await self._pipeline.store.services.all()}
        if others := known - {trace.holder}:
            await self._pipeline.source.cut_off(trace.vhost, others)

    async def _lost_queue(self, recorder: Recorder, reason: str) -> None:
        """Open a gap that ends when we have a queue again."""
        gaps, restored = self._pipeline.gaps, recorder.restored
        gaps.stand(recorder.last_event_id, restored.recorded_at)
        await gaps.losing(reason)

    async def _restore(self) -> Recorder:
        self._reached = recorder = await Recorder.restore(self._pipeline)
        return recorder

    async def _follow(self, recorder: Recorder, stream: Stream) -> None:
        self._reached = run = Run(self._pipeline, recorder, stream, self._ending)
        await run.follow()
