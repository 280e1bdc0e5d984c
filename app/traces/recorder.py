"""Restores a trace from the store, and stores what a run adds.

Every batch goes into one transaction with the tracker's checkpoint and the digests of the messages
that it comes from. So what a run records, the tracker and the window, is what was restored for it.
"""

from __future__ import annotations

import asyncio
import time

from app.errors import CheckpointError, LeaseLostError, OutageError
from app.stored.batches import Batch
from app.traces.life import Standing
from app.traces.pipeline import Pipeline
from app.traces.rate import Rate
from app.traces.resume import Window
from app.traces.status import Snapshot, Work
from app.traces.supervisor import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS
from app.tracker import (
    Restored,
    StampedEvent,
    Unreadable,
    UnreadableCheckpointError,
)


def unreadable_checkpoint(vhost: str) -> str:
    """What is said about a trace whose checkpoint cannot be read."""
    return (
        f"the checkpoint of the trace of {vhost!r} cannot be read. Its events can; "
        "rabbitmq-itc trace reset makes it anew from them and says what is lost"
    )


class Recorder:
    """Stores what a run stamps, from the checkpoint on."""

    def __init__(self, pipeline: Pipeline, restored: Restored, epoch: int) -> None:
        settings = pipeline.settings
        self._pipeline = pipeline
        self.epoch = epoch
        self.restored = restored
        self.tracker = settings.tracker(pipeline.trace, restored)
        self.window = Window(settings.prefetch, restored.window)
        self.last_event_id = restored.last_event_id
        self.work = Work()
        self._rate = Rate(time.monotonic)

    @classmethod
    async def restore(cls, pipeline: Pipeline) -> Recorder:
        """Take the trace, and continue where it ends in the store.

        In this order: from here on no earlier run can store anything that is not restored. Raises
        `OutageError`, `LeaseLostError` if another service holds the trace, and `CheckpointError` if
        the stored checkpoint cannot be read.
        """
        trace = pipeline.trace
        pipeline.gaps.epoch = epoch = await pipeline.store.leases.take(trace.id, trace.holder)
        handovers = pipeline.settings.bounds.handovers
        restored = await pipeline.store.checkpoints.restore(pipeline.trace.id, handovers)
        try:
            return cls(pipeline, restored, epoch)
        except UnreadableCheckpointError as error:
            raise CheckpointError(unreadable_checkpoint(pipeline.trace.vhost)) from error

    def snapshot(self, standing: Standing, lag: int | None = None) -> Snapshot:
        """The numbers now."""
        return Snapshot(
            standing=standing,
            totals=self.tracker.totals(),
            last_event_id=self.last_event_id,
            rate=self._rate.per_second(),
            lag=lag,
            work=self.work,
        )

    def batch(self, events: list[StampedEvent], unreadable: list[Unreadable]) -> Batch:
        """Make a batch, with the tracker and the window as they are now."""
        return Batch(events, self.tracker.checkpoint(), self.window.dump(), unreadable)

    async def append(self, batch: Batch) -> None:
        """Store a batch in the trace's turn; waits here while the store is away.

        Raises `LeaseLostError` if another has taken the trace since this run has.
        """
        pipeline, pause = self._pipeline, FIRST_PAUSE_SECONDS
        while True:
            began = time.perf_counter()
            try:
                async with pipeline.turn:
                    ids = await pipeline.store.batches.append(pipeline.trace.id, batch, self.epoch)
            except LeaseLostError:
                raise
            except OutageError as outage:
                pipeline.supervisor.waiting(str(outage))
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
            else:
                if pause > FIRST_PAUSE_SECONDS:
                    pipeline.supervisor.running()
                newest = batch.events[-1].stamp if batch.events else None
                self.work.count_stored(newest, time.perf_counter() - began)
                self._stored(ids)
                return

    def _stored(self, ids: range) -> None:
        if ids:
            self.last_event_id = ids[-1]
            self._rate.add(len(ids))
            self._pipeline.feed.advance(ids[-1])
