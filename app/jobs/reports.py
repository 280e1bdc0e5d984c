"""Reports on periods, a document for each; facts are written last, so what is listed is whole."""

from __future__ import annotations

import enum
import hashlib
from pathlib import Path

import msgspec

from app.errors import BadRequestError, NotFoundError
from app.jobs.folders import Documents
from app.jobs.requests import JobRequest
from app.stored.jobs import Json

NAMED = ("header.", "body.")
KEYS = ("message_id", "correlation_id", "routing_key")
"""What messages may share that are compared; and a header, or a field of a JSON body, by name."""


class ReportKind(enum.StrEnum):
    """The subject of a report."""

    races = "races"
    inversions = "inversions"
    assertions = "assertions"
    correlations = "correlations"
    expectations = "expectations"
    comparison = "comparison"


def check_key(key: str | None) -> None:
    """Raise `BadRequestError` for what no message can share."""
    if not (key is None or key in KEYS or any(key.startswith(n) and key != n for n in NAMED)):
        raise BadRequestError(
            f"key: expected {', '.join(KEYS)}, header.NAME or body.NAME, not {key}"
        )


class Reports:
    """The reports under one folder."""

    def __init__(self, folder: Path) -> None:
        self._documents = Documents(folder)

    def request(
        self, kind: ReportKind, vhost: str, since: int, until: int, owner: str, asked: Json
    ) -> JobRequest:
        """The job that makes a report of what was recorded from ``since`` to before ``until`` (µs).

        ``asked`` is what else is asked for, by the kind. Raises `BadRequestError` for an invalid
        period.
        """
        if not 0 <= since < until:
            raise BadRequestError("a report needs a time: since must be before until")
        period: Json = {"report": kind.value, "vhost": vhost, "since": since, "until": until}
        shown = {**period, **asked}
        report_id = hashlib.sha256(msgspec.json.encode(shown)).hexdigest()[:16]
        output = str(self._documents.path(vhost, f"{report_id}.json"))
        return JobRequest(
            kind="report",
            vhost=vhost,
            owner=owner,
            shown=shown,
            work={**period, "asked": asked, "id": report_id, "output": output},
        )

    def get(self, report_id: str) -> Json:
        """A report; raises `NotFoundError`."""
        for found in self._documents.read(self._documents.newest_first(f"{report_id}.json")):
            return found
        raise NotFoundError("no such report")

    def newest(self) -> list[Json]:
        """The facts of each report, without its lists, the one made last first."""
        return [*self._documents.read(self._documents.newest_first("*.facts"))]

    def forget_old(self, vhost: str) -> None:
        """Remove the oldest reports of a virtual host where there are too many."""
        self._documents.forget_old(vhost, "*.facts", ".json")
