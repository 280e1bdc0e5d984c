"""Opens a service's restamping, and its previews by rules that are not adopted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from app.jobs.folders import Archives
from app.jobs.restamp import KIND, Pause, RestampProcess
from app.restamp.replay import Replay
from app.stored.capture import ParticipantSettings, Trace
from app.traces.pipeline import PipelineSettings
from app.tracker.links import Origin, Rule, TraceRule

if TYPE_CHECKING:
    from app.settings import Settings
    from app.store.store import Store


def open_restamps(
    settings: Settings, pause: Pause, archives: Archives, link_rules: Sequence[Rule]
) -> Mapping[str, RestampProcess]:
    """The process for jobs that restamp, by kind; ``link_rules`` are of all virtual hosts."""
    rules = [rule.to_json() for rule in link_rules]
    portable = msgspec.json.encode(settings.portable())
    return {KIND: RestampProcess(portable, pause, archives, link_rules=rules)}


def previews(store: Store, pipeline: PipelineSettings) -> Callable[[Trace, Sequence[Rule]], Replay]:
    """Readers of a trace's stored messages, by rules of links that are not adopted."""

    def preview(trace: Trace, rules: Sequence[Rule]) -> Replay:
        links = tuple(TraceRule(rule, Origin.own) for rule in rules)
        participant_rules = ParticipantSettings(trace.policy, trace.quiet, links)
        return Replay(store.restamps, trace.id, participant_rules, lambda _: None, pipeline)

    return preview
