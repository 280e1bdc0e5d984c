"""Archives: what a job has archived."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ArchiveSummary:
    """What a job has archived, and up to which event everything is."""

    vhost: str
    through: int
    events: int
    files: int
    bytes: int
