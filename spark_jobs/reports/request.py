"""What is asked of a report, and what a kind of report gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from spark_jobs.database import Database

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class ReportRequest:
    """A report on a virtual host from ``since`` to before ``until`` (µs), as a JSON file.

    ``asked`` is what else was asked for, by the kind of report; its facts repeat it.
    """

    database: Database
    report: str
    id: str
    vhost: str
    since: int
    until: int
    output: Path
    asked: Json = field(default_factory=dict)


class Made(NamedTuple):
    """What a report found: what a list of reports shows too, and what only the report has."""

    facts: Json
    lists: Json
