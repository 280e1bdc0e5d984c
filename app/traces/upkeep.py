"""Upkeep of stored traces: retention, and a checkpoint made anew where it cannot be read."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.background import Lookout
from app.errors import (
    BadRequestError,
    CheckpointError,
    ConflictError,
    LeaseLostError,
    NotFoundError,
    OutageError,
)
from app.stored.capture import Batch, Trace
from app.traces.holding.elsewhere import Elsewhere
from app.traces.holding.here import TracesHere
from app.traces.pipeline import PipelineSettings
from app.traces.retention import PruneCount, RetentionLimits, preview, retain
from app.tracker import Checkpoint
from app.tracker.events import NO_EVENT_ID, SettledChanges
from app.tracker.rebuild import rebuilt

if TYPE_CHECKING:
    from app.store.store import Store

log = logging.getLogger(__name__)


@dataclass(eq=False)
class Upkeep(Lookout):
    """The work on traces while they do not run, or pause."""

    task_name = "retention of stopped traces"

    store: Store
    here: TracesHere
    elsewhere: Elsewhere
    settings: PipelineSettings

    def __post_init__(self) -> None:
        self.look_seconds = self.pause_seconds = self.settings.retention.check_seconds

    async def reset(self, vhost: str) -> str:
        """Replace the checkpoint of a trace that fails; returns the losses, in words.

        Events, participants and their clocks stay. A gap is recorded. The trace runs again if it
        was wanted.

        Raises `NotFoundError` if there never was such a trace, `ConflictError` if it does not fail.
        """
        trace = await self.here.find(vhost)
        await self.elsewhere.check(trace)
        restored = await self.settings.restore(self.store, trace)
        present = self.here.alive(vhost)
        fails = present is not None and present.snapshot().standing.is_failing
        try:
            self.settings.tracker(trace, restored)
        except CheckpointError:
            cause = "its checkpoint could not be read"
        else:
            cause = "it failed again and again"
            if not fails:
                raise ConflictError(
                    f"the trace of {vhost!r} does not fail, and its checkpoint can be read"
                )
        async with self.here.paused(vhost) as (trace, epoch):
            restored = await self.settings.restore(self.store, trace)
            state, losses = rebuilt(restored, without_copies=fails)
            reason = f"the trace was reset, as {cause}; lost are {losses}"
            await self.store.gaps.open(
                trace.id,
                after_event_id=restored.last_event_id,
                since=restored.recorded_at,
                reason=reason,
                epoch=epoch,
            )
            numbers = [copy.number for copy in restored.copies] if fails else []
            unsettled = SettledChanges(NO_EVENT_ID) if fails else SettledChanges()
            checkpoint = Checkpoint(state, [], [], [], [], numbers, settlements=unsettled)
            batch = Batch([], checkpoint, restored.window)
            await self.store.batches.append(trace.id, batch, epoch)
        async with self.here.lock(vhost):  # it had failed, and may run again
            trace = await self.here.find(vhost)
            if trace.wanted and self.here.alive(vhost) is None:
                await self.here.begin(trace)
        return losses

    async def prune(
        self,
        vhost: str,
        *,
        keep_events: int | None = None,
        keep_seconds: float | None = None,
        through: int | None = None,
        dry_run: bool = False,
    ) -> PruneCount:
        """Remove all but the newest events of a trace now; or only say how many that would be.

        Nothing with an id above ``through`` is removed. Without any bound the service's own
        retention applies. A running trace pauses meanwhile; its queue keeps collecting.

        Raises `BadRequestError` if there is no bound at all, `NotFoundError` if there never was
        such a trace.
        """
        retention = RetentionLimits(keep_events, keep_seconds, through=through)
        retention = retention if retention.is_on else self.settings.retention
        if not retention.is_on:
            raise BadRequestError("say how many events to keep, or for how long")
        trace = await self.here.find(vhost)
        if dry_run:
            return await preview(self.store.retention, trace.id, retention)
        async with self.here.paused(vhost) as (trace, epoch):
            return await self._retain(trace, retention, epoch)

    async def look(self) -> bool:
        """Carry out retention for traces that are not running; running ones do it themselves.

        The failure of one keeps no other from its turn.
        """
        for vhost in [trace.vhost for trace in await self.store.traces.list()]:
            if self.here.alive(vhost) is None:
                try:
                    async with self.here.paused(vhost) as (trace, epoch):
                        await self._retain(trace, self.settings.retention, epoch)
                except (ConflictError, LeaseLostError, NotFoundError):
                    # Another service has it, or its checkpoint cannot be read: its state says so.
                    pass
                except OutageError:  # of the store, so of all
                    raise
                except Exception:
                    log.exception("the retention of the stopped trace of %r failed", vhost)
        return False

    async def _retain(
        self, trace: Trace, retention: RetentionLimits, epoch: int | None = None
    ) -> PruneCount:
        restored = await self.settings.restore(self.store, trace)
        tracker = self.settings.tracker(trace, restored)
        return await retain(self.store.retention, trace.id, tracker, retention, epoch)
