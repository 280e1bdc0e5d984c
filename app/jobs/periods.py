"""Exports of periods for other tools, in the folder of exports, and spans that are sent.

A file belongs to a virtual host and has a manifest beside it. They count in the bounds of exports.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from app.errors import BadRequestError, ConflictError
from app.jobs.folders import ManifestedFiles, folder_of
from app.jobs.requests import JobRequest
from app.stored.jobs import Json
from model.exports import MANIFEST, Quota
from model.interchange import COLLECTOR, PERIOD_FORMATS, PeriodForm
from model.times import IsoTime
from model.words import Along, Via

KIND = "period"


class PeriodFile(msgspec.Struct, frozen=True):
    """A file of a period."""

    vhost: str
    file: str
    location: str
    format: PeriodForm
    since: IsoTime
    until: IsoTime
    via: Along
    events: int
    bytes: int
    complete: bool


def location_of(vhost: str, file: str) -> str:
    return f"/itc_db/periods/{quote(vhost, safe='')}/{file}"


class PeriodFiles(ManifestedFiles[str]):
    """The exports of periods under the folder of exports, by virtual host."""

    formats = tuple(PERIOD_FORMATS.values())

    def __init__(self, folder: Path, quota: Quota, collector: Json | None = None) -> None:
        """``collector`` is where spans may be sent (`Settings.collector`)."""
        super().__init__(folder, quota)
        self._collector = collector

    def request(
        self,
        vhost: str,
        file: str,
        period: tuple[int, int],
        via: Via,
        owner: str,
        rules: Sequence[Json],
    ) -> JobRequest:
        """The job that writes what began from one time to before another (µs).

        ``rules`` are those of links, as people see them. Raises `BadRequestError`.
        """
        location = location_of(vhost, file)
        asked = _asked(vhost, period, via)
        return JobRequest(
            kind=KIND,
            vhost=vhost,
            owner=owner,
            shown={**asked, "file": file},
            work={**asked, **self.output(vhost, file), "rules": [*rules]},
            finish=lambda result: {**result, "location": location},
        )

    def sending(self, vhost: str, period: tuple[int, int], via: Via, owner: str) -> JobRequest:
        """The job that sends a period's spans to the collector.

        Raises `BadRequestError`, and `ConflictError` where no collector is set.
        """
        if self._collector is None:
            raise ConflictError("no collector is set: ITC_OTLP_EXPORT_URL says where one is")
        asked = _asked(vhost, period, via)
        return JobRequest(
            kind=KIND,
            vhost=vhost,
            owner=owner,
            shown={**asked, "file": None},
            work={**asked, "format": COLLECTOR, "collector": self._collector},
            finish=lambda result: {**result, "location": None},
        )

    def list(self) -> list[PeriodFile]:
        """All files, the one made last first."""
        found = []
        for path in self.folder.glob(f"{KIND}-*/*{MANIFEST}"):
            file = path.with_name(path.name.removesuffix(MANIFEST))
            with contextlib.suppress(OSError, msgspec.MsgspecError, KeyError):
                said = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
                location = location_of(said["vhost"], file.name)
                values = {**said, "file": file.name, "location": location}
                row = msgspec.convert(values, PeriodFile, strict=False)
                found.append((file.stat().st_mtime_ns, row))
        return [row for _, row in sorted(found, key=lambda each: each[0], reverse=True)]

    def _folder_of(self, vhost: str) -> str:
        return f"{KIND}-{folder_of(vhost)}"

    def _none(self, vhost: str, file: str) -> str:
        return f"there is no export {file} of a period of {vhost}"


def _asked(vhost: str, period: tuple[int, int], via: Via) -> Json:
    since, until = period
    if not 0 <= since < until:
        raise BadRequestError("an export needs a time: since must be before until")
    return {"vhost": vhost, "since": since, "until": until, "via": via.value}
