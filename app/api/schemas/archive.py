"""Archives: what a job has archived, and what there is."""

from __future__ import annotations

from app.api.schemas.common import Model, Time


class ArchiveSummary(Model):
    """What a job has archived, and up to which event everything is."""

    job: int
    vhost: str
    through: int
    events: int
    files: int
    bytes: int


class Archive(Model):
    """What of a virtual host is archived: every event up to ``through``, recorded at ``until``."""

    vhost: str
    through: int
    until: Time
    events: int
    files: int
    bytes: int
