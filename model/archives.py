"""Archives: what a job has archived."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ArchiveSummary:
    """The result of an archiving job, and up to which event everything is archived."""

    vhost: str
    through: int
    events: int
    files: int
    bytes: int
