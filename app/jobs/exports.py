"""The folder of exports: chains, what events touched, and periods for other tools.

Each file has a manifest beside it, in a folder of its subject; `app.jobs.folders` says how they get
there. All count in the same bounds.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import msgspec

from app.errors import BadRequestError, ConflictError
from app.jobs.folders import (
    ManifestedFile,
    ManifestedFiles,
    files_in,
    folder_of,
    is_plain,
    remove_empty,
    times_of,
)
from app.stored.jobs import JobRequest, Json
from model.exports import (
    FORMATS,
    LEFTOVER,
    MANIFEST,
    Format,
    Quota,
    Usage,
    format_of,
    manifest_of,
    usage_of,
)
from model.interchange import PERIOD_FORMATS, PeriodForm
from model.times import IsoTime, Microseconds
from model.words import BondWord, Via

FOLDER = re.compile(r"([0-9]{1,19})-([0-9]{1,19})")


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a chain job."""

    from_id: int = msgspec.field(name="from")
    to_id: int = msgspec.field(name="to")
    file: str
    vhost: str
    bytes: int
    created_at: Microseconds
    events: int

    @property
    def location(self) -> str:
        """The address at which the API serves it."""
        return _chain_location(self.from_id, self.to_id, self.file)


def _chain_location(from_id: int, to_id: int, file: str) -> str:
    return f"/itc_db/undefined/{from_id}/{to_id}/{file}"


class Exports(ManifestedFiles[tuple[int, int]]):
    """The exports under one folder, by the pair of events."""

    formats = tuple(FORMATS.values())

    def __init__(self, folder: Path, archives: Path, quota: Quota) -> None:
        """Exports in ``folder``; chains are looked for in the folder ``archives`` too."""
        super().__init__(folder, quota)
        self._archives = archives

    @classmethod
    def _format_of(cls, file: str) -> Format | None:
        return None if file.endswith(MANIFEST) else format_of(file)

    def request(
        self, vhost: str, from_id: int, to_id: int, file: str, owner: str, via: Via = Via.any
    ) -> JobRequest:
        """The job that makes an export of the chain along ``via``.

        Raises `BadRequestError` for a bad name, and for equal ids.
        """
        output = self.output((from_id, to_id), file)
        if from_id == to_id:
            raise BadRequestError("a chain needs two events; both ids are the same")
        ends: Json = {"from": from_id, "to": to_id}
        extra = {} if via is Via.any else {"via": via.value}
        request = {**ends, "file": file, **extra}
        work = {**ends, **output, "archives": str(self._archives), "via": via.value}
        location = _chain_location(from_id, to_id, file)
        return JobRequest("chain", vhost, owner, request, work, location)

    def usage(self) -> Usage:
        return usage_of(self.folder)

    def find(self, subject: tuple[int, int], file: str) -> ManifestedFile:
        """An export; raises `BadRequestError` for a bad name, as a manifest's is here."""
        self.check_format(file)
        return super().find(subject, file)

    def list(self) -> list[Export]:
        exports = []
        for path, status in self.newest_first("*-*"):
            ends, manifest = FOLDER.fullmatch(path.parent.name), self.manifest(path)
            if ends and manifest and is_plain(path.name) and self._format_of(path.name):
                export = Export(
                    from_id=int(ends[1]),
                    to_id=int(ends[2]),
                    file=path.name,
                    vhost=manifest.vhost,
                    bytes=status.st_size,
                    created_at=Microseconds(status.st_mtime_ns // 1000),
                    events=manifest.events,
                )
                exports.append(export)
        return exports

    def sweep(self) -> int:
        """Remove half-written files of killed workers, of any kind; returns how many."""
        leftovers = [*self.folder.glob(f"*/.*{LEFTOVER}")]
        for path in leftovers:
            path.unlink(missing_ok=True)
        for folder in files_in(self.folder):
            remove_empty(folder)
        return len(leftovers)

    def _folder_of(self, subject: tuple[int, int]) -> str:
        return "{}-{}".format(*subject)

    def _absence(self, subject: tuple[int, int], file: str) -> str:
        return "there is no export {} of a chain from {} to {}".format(file, *subject)


TOUCHED = "touched"


class TouchedFiles(ManifestedFiles[int]):
    """The files of touched events under the folder of exports, by event."""

    formats = (FORMATS["jsonl"], FORMATS["parquet"])

    def __init__(self, folder: Path, quota: Quota, key_file: Path | None = None) -> None:
        super().__init__(folder, quota)
        self._key_file = key_file

    def request(self, vhost: str, event_id: int, file: str, owner: str) -> JobRequest:
        """The job that writes what an event touched; raises `BadRequestError` for a bad name."""
        key_file = None if self._key_file is None else str(self._key_file.absolute())
        request = {"event": event_id, "file": file}
        work = {"event": event_id, "key_file": key_file, **self.output(event_id, file)}
        location = f"/itc_db/touched/{event_id}/{file}"  # plain names need no encoding
        return JobRequest(TOUCHED, vhost, owner, request, work, location)

    def _folder_of(self, event_id: int) -> str:
        return f"{TOUCHED}-{event_id}"

    def _absence(self, event_id: int, file: str) -> str:
        return f"there is no file {file} of what event {event_id} touched"


PERIOD = "period"
SPANS = "spans"


class PeriodFile(msgspec.Struct, frozen=True):
    """A file of a period."""

    vhost: str
    file: str
    location: str
    format: PeriodForm
    since: IsoTime
    until: IsoTime
    via: BondWord
    events: int
    bytes: int
    complete: bool


Arrivals: TypeAlias = Mapping[str, tuple[str, int, int]]
"""The virtual host, id and time (µs) of deliveries elsewhere, by the publish that each became."""


def _period_location(vhost: str, file: str) -> str:
    return f"/itc_db/periods/{quote(vhost, safe='')}/{file}"


class PeriodFiles(ManifestedFiles[str]):
    """The exports of periods under the folder of exports, by virtual host."""

    formats = tuple(PERIOD_FORMATS.values())

    def __init__(self, folder: Path, quota: Quota, *, can_send: bool = False) -> None:
        """``can_send`` says whether there is a collector to send spans to."""
        super().__init__(folder, quota)
        self._can_send = can_send

    def request(
        self,
        vhost: str,
        file: str,
        period: tuple[int, int],
        via: Via,
        owner: str,
        rules: Sequence[Json],
        arrivals: Arrivals,
    ) -> JobRequest:
        """The job that writes a period: from one time to before another (µs).

        ``rules`` are of links, as people see them. Raises `BadRequestError`.
        """
        fields = {"vhost": vhost, **times_of(period, "an export"), "via": via.value}
        request, work = {**fields, "file": file}, {**fields, **self.output(vhost, file)}
        work |= {"rules": [*rules], "arrivals": arrivals}
        return JobRequest(PERIOD, vhost, owner, request, work, _period_location(vhost, file))

    def send_request(
        self, vhost: str, period: tuple[int, int], owner: str, arrivals: Arrivals
    ) -> JobRequest:
        """The job that sends a period's spans to the collector.

        Raises `BadRequestError`, and `ConflictError` where no collector is set.
        """
        if not self._can_send:
            raise ConflictError("no collector is set: ITC_OTLP_EXPORT_URL says where one is")
        fields = {"vhost": vhost, **times_of(period, "an export")}
        return JobRequest(SPANS, vhost, owner, fields, {**fields, "arrivals": arrivals})

    def list(self) -> list[PeriodFile]:
        files = []
        for path, _ in self.newest_first(f"{PERIOD}-*"):
            with contextlib.suppress(OSError, msgspec.MsgspecError, KeyError):
                manifest = msgspec.json.decode(manifest_of(path).read_bytes(), type=dict[str, Any])
                location = _period_location(manifest["vhost"], path.name)
                values = {**manifest, "file": path.name, "location": location}
                files.append(msgspec.convert(values, PeriodFile, strict=False))
        return files

    def _folder_of(self, vhost: str) -> str:
        return f"{PERIOD}-{folder_of(vhost)}"

    def _absence(self, vhost: str, file: str) -> str:
        return f"there is no export {file} of a period of {vhost}"
