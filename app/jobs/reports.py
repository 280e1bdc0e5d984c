"""The folder of reports on periods, a file for each.

Written as exports are, under a temporary name and then renamed, and a report's facts last: what is
listed is complete. Everything here blocks on the disk: call it in a thread.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from app.errors import BadRequestError, NotFoundError
from app.jobs.requests import JobRequest
from app.stored.jobs import Json

# How many reports of a virtual host are kept, those made last.
KEPT = 100
NAMED = ("header.", "body.")
KEYS = ("message_id", "correlation_id", "routing_key")
"""What messages may share that are compared; and a header, or a field of a JSON body, by name."""


class ReportKind(enum.StrEnum):
    """What a report is about."""

    races = "races"
    inversions = "inversions"
    assertions = "assertions"
    correlations = "correlations"


def check_key(key: str | None) -> None:
    """Raise `BadRequestError` for what no message can share."""
    if not (key is None or key in KEYS or any(key.startswith(n) and key != n for n in NAMED)):
        raise BadRequestError(
            f"key: expected {', '.join(KEYS)}, header.NAME or body.NAME, not {key}"
        )


class Reports:
    """The reports under one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

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
        output = str(self._of(vhost) / f"{report_id}.json")
        return JobRequest(
            kind="report",
            vhost=vhost,
            owner=owner,
            shown=shown,
            work={**period, "asked": asked, "id": report_id, "output": output},
        )

    def get(self, report_id: str) -> Json:
        """A report; raises `NotFoundError`."""
        for path in self._folder.glob(f"*/{report_id}.json"):
            with contextlib.suppress(FileNotFoundError):  # removed just now
                return _read(path)
        raise NotFoundError("no such report")

    def newest(self) -> list[Json]:
        """What there is to say of each report but its lists, the one made last first."""
        found = []
        for path in self._newest_first(self._folder.glob("*/*.facts")):
            with contextlib.suppress(FileNotFoundError):
                found.append(_read(path))
        return found

    def forget_old(self, vhost: str) -> None:
        """Remove all but the newest `KEPT` reports of a virtual host."""
        for path in [*self._newest_first(self._of(vhost).glob("*.facts"))][KEPT:]:
            path.unlink(missing_ok=True)
            path.with_suffix(".json").unlink(missing_ok=True)

    def _of(self, vhost: str) -> Path:
        # A virtual host's name may be anything; its digest is a valid file name.
        return self._folder / hashlib.sha256(vhost.encode()).hexdigest()[:32]

    def _newest_first(self, paths: Iterator[Path]) -> Iterator[Path]:
        found = []
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                found.append((path.stat().st_mtime_ns, path))
        return (path for _, path in sorted(found, reverse=True))


def _read(path: Path) -> Json:
    found: Json = msgspec.json.decode(path.read_bytes())
    return found
