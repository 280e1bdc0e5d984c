"""Opens what sends spans to a collector: as events come, and a period's for a job."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import msgspec

from app.collector.following import Following, SpanJobs
from app.jobs.exports import SPANS

if TYPE_CHECKING:
    from app.settings import Settings
    from app.traces.holding.here import TracesHere


def open_following(
    stack: AsyncExitStack, settings: Settings, traces: TracesHere
) -> Following | None:
    """Have spans sent as events come; None where no rule says so."""
    if not settings.export_shares:
        return None
    following = Following(msgspec.json.encode(settings.portable()), traces)
    following.start()
    stack.push_async_callback(following.stop)
    return following


def open_span_jobs(settings: Settings) -> Mapping[str, SpanJobs]:
    """The runner of the jobs that send a period's spans, by their kind."""
    return {SPANS: SpanJobs(msgspec.json.encode(settings.portable()))}
