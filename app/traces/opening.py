"""The settings of a service's traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.traces.pipeline import PipelineSettings
from app.traces.retention import RetentionLimits
from app.tracker import Bounds
from app.tracker.links import Rule

if TYPE_CHECKING:
    from app.settings import Settings

_DAY_SECONDS = 86_400


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
