"""Has a running trace take up the rules that people set for it, wherever it runs.

The store is asked every few seconds: whoever set a rule may have asked another service. The run
takes a change up between two batches, and stores it with the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from app.errors import OutageError
from app.traces.pipeline import Pipeline
from app.traces.recorder import Recorder
from app.tracker.links import Rule

LOOK_SECONDS = 2.0


class LinkWatch:
    """The rules that a run is to go by."""

    def __init__(self, pipeline: Pipeline, recorder: Recorder) -> None:
        self._store = pipeline.store.link_rules
        self._trace_id = pipeline.trace.id
        self._recorder = recorder
        self._own: Sequence[Rule] = recorder.restored.own_rules
        # At first for what has changed while it did not run, in the file too.
        self._is_due = True

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            with contextlib.suppress(OutageError):  # until the next look
                await self.look()

    async def look(self) -> None:
        """See what is set now. Raises `OutageError`."""
        own = tuple(await self._store.own(self._trace_id))
        if own != self._own:
            self._own, self._is_due = own, True

    def take_up(self) -> None:
        """Go by what was seen last from here on; no batch may be half stamped."""
        if self._is_due:
            self._is_due = False
            self._recorder.take_up(self._own)
