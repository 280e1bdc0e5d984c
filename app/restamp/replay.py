"""Restamps a trace: puts new stamps aside while it runs on, and swaps them in while it pauses."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from app.errors import CheckpointError
from app.restamp.restamper import Restamper
from app.stored.capture import ParticipantSettings, RestampOutcome, Trace, TraceExtent
from app.stored.likely import Overlay
from app.stored.restamps import StoredEvent
from app.traces.pipeline import PipelineSettings
from app.tracker import Policy, Quiet, SharedPlaces, UnreadableCheckpointError
from app.tracker.links import Origin, Rule, TraceRule
from app.tracker.links import Rules as LinkRules
from model.jobs import Progress

if TYPE_CHECKING:
    from app.store.restamps import Restamps
    from app.store.store import Store

CHUNK = 2_000
CHUNK_WITH_MESSAGES = 200  # each with as much of its body as is stored
# A lap of this few events: the rest may wait for the pause.
SMALL_LAP = 5_000
# Events that a preview reads, and how long it may take.
MOST_PREVIEWED = 10_000
PREVIEW_SECONDS = 10.0
# The replay's share of the progress; the swap has the rest.
REPLAY_PERCENT = 75.0


@dataclass(eq=False)
class Replay:
    """Takes the stored events of one trace through a `Restamper` with other rules.

    By ``rules``, and by the ``settings`` of all traces.
    """

    store: Restamps
    trace_id: int
    rules: ParticipantSettings
    report: Callable[[Progress], None]
    settings: PipelineSettings

    def __post_init__(self) -> None:
        rules, settings, links = self.rules, self.settings, None
        if rules.links is not None:
            links = LinkRules((listed.rule for listed in rules.links), found_by=settings.found_by)
        self._restamper = Restamper(
            Policy(rules.policy),
            Quiet(rules.quiet),
            SharedPlaces(settings.shared_places),
            assumed=settings.bounds.assumed,
            rules=links,
            most_named=settings.bounds.named_events,
        )
        self._last_id = self._last_key = self._event_count = 0

    async def catch_up(self) -> None:
        """Put new stamps aside until a lap is small, or no longer shrinks."""
        await self.store.clear(self.trace_id)
        previous_lap = None
        while True:
            start = self._event_count
            await self._replay()
            lap = self._event_count - start
            if lap <= SMALL_LAP or (previous_lap is not None and lap > previous_lap / 2):
                return
            previous_lap = lap

    async def finish(self, epoch: int | None = None) -> RestampOutcome:
        """Stamp the rest of a trace that pauses, and swap the stamps.

        Raises `CheckpointError` if the trace's checkpoint cannot be read, and `LeaseLostError` if
        the trace was taken since ``epoch``, so that it pauses no more.
        """
        await self._replay()
        standing = await self.store.extent(self.trace_id)
        try:
            await self._introduce(self._restamper.held_connections(standing.state))
            new = self._restamper.end(standing.state, standing.first_id)
        except UnreadableCheckpointError as error:
            raise CheckpointError(
                "the checkpoint of the trace cannot be read: first rabbitmq-itc trace reset"
            ) from error
        edges = await self.store.swap(
            self.trace_id,
            self.rules,
            standing,
            new,
            lambda count: self._report_swap(standing, count),
            epoch,
        )
        await self.store.settle_late(self.trace_id)
        assumed = sum(state.assumed for state, _, _ in new.participants)
        outcome = RestampOutcome(standing.events, len(new.participants), assumed)
        if self.rules.links is None:
            return outcome
        return msgspec.structs.replace(outcome, edges=edges, cut=self._restamper.cut)

    async def preview(self, overlay: Overlay) -> None:
        """Fill an overlay with its events' links and keys, as if the trace began there.

        It ends after too many events, or too long. Nothing is put aside.
        """
        self._last_id, deadline = overlay.first - 1, time.monotonic() + PREVIEW_SECONDS
        while (events := await self._next()) and events[0].id <= overlay.last:
            self._last_id, self._event_count = events[-1].id, self._event_count + len(events)
            for event, stamp in zip(events, self._restamper.stamp(events, {}), strict=True):
                if event.id <= overlay.last and not stamp.quiet:
                    overlay.add(event, stamp)
            if self._event_count >= MOST_PREVIEWED or time.monotonic() > deadline:
                overlay.last = min(overlay.last, self._last_id)
                break

    async def tidy(self) -> None:
        await self.store.clear(self.trace_id)

    async def _replay(self) -> None:
        standing = await self.store.extent(self.trace_id)
        while self._last_id < standing.last_id and (events := await self._next()):
            ids = self._restamper.missing_causes(events)
            clocks = await self.store.clocks(self.trace_id, ids) if ids else {}
            await self.store.put_aside(self.trace_id, self._restamper.stamp(events, clocks))
            self._last_id, self._event_count = events[-1].id, self._event_count + len(events)
            share = min(1.0, self._event_count / max(standing.events, 1))
            self._say("stamping", REPLAY_PERCENT * share)

    async def _next(self) -> Sequence[StoredEvent]:
        """The next events, with all of their channels known."""
        while True:
            messages = self.rules.links is not None
            limit = CHUNK_WITH_MESSAGES if messages else CHUNK
            events = await self.store.events(
                self.trace_id, after_id=self._last_id, limit=limit, messages=messages
            )
            if self._restamper.has_met(events):
                return events
            # Read after these events, so it has all of their channels, unless retention came
            # between.
            channels = await self.store.channels(self.trace_id, after_number=self._last_key)
            if channels:
                self._last_key = channels[-1][0]
                await self._introduce(self._restamper.meet(channels))

    async def _introduce(self, names: Sequence[str]) -> None:
        if names:
            self._restamper.introduce(await self.store.incarnations(names))

    def _report_swap(self, standing: TraceExtent, count: int) -> None:
        share = count / max(standing.events, 1)
        self._say("swapping", REPLAY_PERCENT + (100.0 - REPLAY_PERCENT) * share, count)

    def _say(self, stage: str, percent: float, count: int = 0) -> None:
        self.report(Progress(stage, round(percent, 1), self._event_count, count))


def previews(store: Store, pipeline: PipelineSettings) -> Callable[[Trace, Sequence[Rule]], Replay]:
    """Readers of a trace's stored messages, by rules of links that are not adopted."""

    def preview(trace: Trace, rules: Sequence[Rule]) -> Replay:
        links = tuple(TraceRule(rule, Origin.own) for rule in rules)
        participant_rules = ParticipantSettings(trace.policy, trace.quiet, links)
        return Replay(store.restamps, trace.id, participant_rules, lambda _: None, pipeline)

    return preview
