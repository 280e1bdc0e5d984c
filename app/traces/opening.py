"""Opens the traces of a service."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from app.traces.connectionwatch import ConnectionWatch
from app.traces.pipeline import PipelineSettings
from app.traces.registry import TraceRegistry
from app.traces.retention import RetentionLimits
from app.traces.runs.introductions import Introductions
from app.traces.spanwatch import SpanWatch
from app.tracker import Bounds
from app.tracker.links import Rule

if TYPE_CHECKING:
    from app.broker.opening import BrokerParts
    from app.settings import Settings
    from app.store.store import Store

_DAY_SECONDS = 86_400


def open_traces(
    store: Store, broker: BrokerParts, pipeline: PipelineSettings, service: str
) -> TraceRegistry:
    """The traces; none of them runs yet."""
    introductions = Introductions(store.connections, broker.announcements())
    return TraceRegistry(store, broker.source, pipeline, introductions, service)


def watch_connections(stack: AsyncExitStack, store: Store, broker: BrokerParts) -> ConnectionWatch:
    """The one task of the service that notes who connects to the broker; it is running."""
    watch = ConnectionWatch(store.connections, broker.announcements())
    watch.start()
    stack.push_async_callback(watch.stop)
    return watch


def watch_spans(stack: AsyncExitStack, settings: Settings, store: Store) -> SpanWatch | None:
    """The running task that finds what spans tell of; None where they are off."""
    if not settings.otlp:
        return None
    watch = SpanWatch(store.spans, settings.retention_days)
    watch.start()
    stack.push_async_callback(watch.stop)
    return watch


def pipeline_settings(settings: Settings, rules: tuple[Rule, ...]) -> PipelineSettings:
    """The settings of traces with these rules of links."""
    days = settings.retention_days
    return PipelineSettings(
        bounds=Bounds(
            copies=settings.pending_copies,
            reorder_window=int(settings.reorder_seconds * 1_000_000),
        ),
        link_rules=rules,
        indexed_headers=settings.indexed_headers,
        redaction_key=settings.redaction_key,
        prefetch=settings.prefetch,
        check_seconds=settings.tracing_check_seconds,
        mark_seconds=settings.mark_seconds,
        audit_seconds=settings.audit_seconds,
        shared_places=settings.shared_places,
        retention=RetentionLimits(
            keep_events=settings.retention_events,
            keep_seconds=None if days is None else days * _DAY_SECONDS,
        ),
    )
