"""Files that say what an event touched, in the folder of exports, each with its manifest.

They count in the bounds of exports, and are written as those are. Everything here blocks on the
disk: call it in a thread.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from app.errors import BadRequestError, NotFoundError, QuotaError
from app.jobs.requests import JobRequest
from app.stored.jobs import Json
from model.exports import (
    FORMATS,
    LEFTOVER,
    MANIFEST,
    Format,
    Manifest,
    Quota,
    manifest_of,
    usage_of,
)

KIND = "touched"
EXTENSIONS = ("jsonl", "parquet")
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")


class TouchedFile(msgspec.Struct, frozen=True):
    """A file of touched events, or its manifest."""

    path: Path
    vhost: str
    media_type: str


def location_of(event_id: int, file: str) -> str:
    """The path of a file's URL; plain names need no encoding."""
    return f"/itc_db/touched/{event_id}/{file}"


def checked_name(file: str) -> Format:
    """The format of a file with this name; raises `BadRequestError` if it cannot be one."""
    for name in EXTENSIONS:
        if NAME.fullmatch(file) and file.endswith(FORMATS[name].extension):
            return FORMATS[name]
    raise BadRequestError(
        "expected a name of 1 to 200 letters, digits, dots, underscores and hyphens that does not"
        " begin with a dot, and ends in .jsonl or .parquet"
    )


class TouchedFiles:
    """The files of touched events under the folder of exports."""

    def __init__(self, folder: Path, quota: Quota, key_file: Path | None = None) -> None:
        """``key_file`` holds the key that manifests are signed with."""
        self._folder = folder
        self._quota = quota
        self._key_file = key_file

    def request(self, vhost: str, event_id: int, file: str, owner: str) -> JobRequest:
        """The job that writes what an event touched; raises `BadRequestError` for a bad name."""
        found = checked_name(file)
        location = location_of(event_id, file)
        return JobRequest(
            kind=KIND,
            vhost=vhost,
            owner=owner,
            shown={"event": event_id, "file": file},
            work={
                "event": event_id,
                "output": str(self._path(event_id, file)),
                "format": found.name,
                "quota": {"files": self._quota.files, "bytes": self._quota.bytes},
                "key_file": None if self._key_file is None else str(self._key_file.absolute()),
            },
            finish=lambda result: {**result, "location": location},
        )

    def check_room(self, event_id: int, file: str) -> None:
        """Raise `QuotaError` where there is no room for another file, or for one anew."""
        used = usage_of(self._folder, self._path(event_id, file))
        if self._quota.left(used) <= 0:
            raise QuotaError(self._quota.refusal(used))

    def get(self, event_id: int, file: str) -> TouchedFile:
        """A file, or the manifest of one; raises `BadRequestError` and `NotFoundError`."""
        name = file.removesuffix(MANIFEST)
        media_type = checked_name(name).media_type
        path = self._path(event_id, name)
        try:
            manifest = msgspec.json.decode(manifest_of(path).read_bytes(), type=Manifest)
            path.stat()
        except (OSError, msgspec.DecodeError):
            raise NotFoundError(
                f"there is no file {name} of what event {event_id} touched"
            ) from None
        if name != file:
            return TouchedFile(manifest_of(path), manifest.vhost, "application/json")
        return TouchedFile(path, manifest.vhost, media_type)

    def delete(self, event_id: int, file: str) -> None:
        """Remove a file and its manifest; raises as `get`."""
        checked_name(file)
        path = self.get(event_id, file).path
        path.unlink(missing_ok=True)
        manifest_of(path).unlink(missing_ok=True)
        try:
            path.parent.rmdir()
        except OSError:  # not empty, or gone: both are fine
            return

    def sweep(self) -> int:
        """Remove what killed workers left half-written; returns how many files."""
        leftovers = [*self._folder.glob(f"{KIND}-*/.*{LEFTOVER}")]
        for path in leftovers:
            path.unlink(missing_ok=True)
        return len(leftovers)

    def manifest(self, event_id: int, file: str) -> Json:
        """What a file's manifest says; raises as `get`."""
        found: Json = msgspec.json.decode(self.get(event_id, f"{file}{MANIFEST}").path.read_bytes())
        return found

    def _path(self, event_id: int, file: str) -> Path:
        return self._folder / f"{KIND}-{event_id}" / file
