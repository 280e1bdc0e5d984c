"""Parts that all runs of one trace share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
from pydantic import SecretStr

from app.errors import CheckpointError
from app.stored.capture import Trace
from app.traces.losses.gapwatch import GapWatch
from app.traces.losses.marks import Marks
from app.traces.retention import RetentionLimits
from app.traces.runs.feed import Feed
from app.traces.runs.sieve import Sieve
from app.traces.supervisor import Supervisor
from app.tracker import (
    Bounds,
    Policy,
    Quiet,
    RestorePoint,
    SharedPlaces,
    Tracker,
    UnreadableCheckpointError,
)
from app.tracker.links import BUILT_IN, Rule, Rules, TraceRule, of_all

if TYPE_CHECKING:
    from app.broker.source import TraceSource
    from app.store.store import Store
    from app.traces.runs.introductions import Introductions


class PipelineSettings(msgspec.Struct, frozen=True):
    """The bounds of a run; times in seconds. ``link_rules`` hold in all virtual hosts."""

    bounds: Bounds = Bounds()
    batch_events: int = 8_000
    batch_seconds: float = 0.2
    prefetch: int = 32_000
    check_seconds: float = 15.0
    mark_seconds: float = 1.0  # 0: no marks
    audit_seconds: float = 5.0
    retention: RetentionLimits = RetentionLimits()
    shared_places: tuple[str, ...] = ()
    link_rules: tuple[Rule, ...] = BUILT_IN
    indexed_headers: tuple[str, ...] = ()
    redaction_key: SecretStr | None = None

    @property
    def found_by(self) -> Mapping[str, bool]:
        """The headers by which events are found, and whether each holds an id of a message.

        They are the same in all virtual hosts (`app.tracker.links.Rules`).
        """
        return _indexed_headers(self.link_rules, self.indexed_headers)

    @property
    def rules_of_all(self) -> tuple[TraceRule, ...]:
        return of_all(self.link_rules)

    def rules(self, trace: Trace, trace_rules: Sequence[TraceRule]) -> Rules:
        """The names in messages of a trace with these rules, and what they are found by."""
        rules = Rules((trace_rule.rule for trace_rule in trace_rules), found_by=self.found_by)
        return rules if trace.bodies else rules.for_cut_bodies()

    async def restore(
        self, store: Store, trace: Trace, point: RestorePoint | None = None
    ) -> RestorePoint:
        """A trace's last checkpoint, some of it perhaps read already; raises `OutageError`."""
        bounds = self.bounds
        return await store.checkpoints.restore(
            trace.id, bounds.handovers, bounds.named_events, point
        )

    def tracker(self, trace: Trace, restored: RestorePoint) -> Tracker:
        """The trace's tracker, as of its checkpoint, by the rules of links that held then.

        Raises `CheckpointError` if that cannot be read.
        """
        try:
            return Tracker(
                Policy(trace.policy),
                self.bounds,
                restored,
                quiet=Quiet(trace.quiet),
                places=SharedPlaces(self.shared_places),
                rules=self.rules(trace, restored.link_rules),
                selection=trace.taken,
            )
        except UnreadableCheckpointError as error:
            raise CheckpointError(unreadable_checkpoint(trace.vhost)) from error


def unreadable_checkpoint(vhost: str) -> str:
    """The sentence about a trace whose checkpoint cannot be read."""
    return (
        f"the checkpoint of the trace of {vhost!r} cannot be read. Its events can; "
        "rabbitmq-itc trace reset makes it anew from them and says what is lost"
    )


@lru_cache(maxsize=4)
def _indexed_headers(rules: tuple[Rule, ...], indexed: tuple[str, ...]) -> Mapping[str, bool]:
    return Rules(rules, indexed=indexed).indexed


class Ending(msgspec.Struct):
    """The request to a run to end; it checks this between batches."""

    at_once: bool = False  # after the current batch; the queue keeps collecting
    when_empty: bool = False  # once the queue is empty; until then tracing is off on purpose


@dataclass(frozen=True)
class Pipeline:
    """The parts that the runs of a trace share, and that outlive each of them."""

    trace: Trace
    store: Store
    source: TraceSource
    feed: Feed
    supervisor: Supervisor
    settings: PipelineSettings
    gaps: GapWatch
    marks: Marks
    sieve: Sieve
    introductions: Introductions
