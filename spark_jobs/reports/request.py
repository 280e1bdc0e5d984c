"""Requests for a report."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from model.times import now
from spark_jobs.reports.period import Period
from spark_jobs.spark.database import DatabaseAddress

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class ReportRequest:
    """A report on a virtual host from ``since`` to before ``until`` (µs), as a JSON file.

    ``asked`` is what else was asked for, by the kind of report; its facts repeat it.
    """

    database: DatabaseAddress
    report: str
    id: str
    vhost: str
    since: int
    until: int
    output: Path
    asked: Json = field(default_factory=dict)

    def facts(self, period: Period) -> Json:
        """Return what every report on the period has (`model.reports.facts`), and the request."""
        return {
            "id": self.id,
            "report": self.report,
            "vhost": self.vhost,
            "since": self.since,
            "until": self.until,
            **self.asked,
            "made_at": now(),
            "gaps": period.gaps,
            "soundness": period.sound,
        }
