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

    ``asked`` are the parameters of the kind of report, which its facts repeat.
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
        """The fields of every report (`model.reports.facts`), and the request's parameters."""
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
