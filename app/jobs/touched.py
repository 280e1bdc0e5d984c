"""Files that say what an event touched, in the folder of exports, each with its manifest.

They count in the bounds of exports, and are written as those are. Everything here blocks on the
disk: call it in a thread.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from app.errors import BadRequestError, NotFoundError
from app.jobs.manifested import Manifested, ManifestedFile
from app.jobs.requests import JobRequest
from app.stored.jobs import Json
from model.exports import FORMATS, MANIFEST, Format, Quota

KIND = "touched"
EXTENSIONS = ("jsonl", "parquet")
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")


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
        self._files = Manifested(folder, quota)
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
                "quota": self._files.quota,
                "key_file": None if self._key_file is None else str(self._key_file.absolute()),
            },
            finish=lambda result: {**result, "location": location},
        )

    def check_room(self, event_id: int, file: str) -> None:
        """Raise `QuotaError` where there is no room for another file, or for one anew."""
        self._files.check_room(self._path(event_id, file))

    def get(self, event_id: int, file: str) -> ManifestedFile:
        """A file, or the manifest of one; raises `BadRequestError` and `NotFoundError`."""
        name = file.removesuffix(MANIFEST)
        media_type = checked_name(name).media_type
        path = self._path(event_id, name)
        found = self._files.find(path, media_type, is_manifest=name != file)
        if found is None:
            raise NotFoundError(f"there is no file {name} of what event {event_id} touched")
        return found

    def delete(self, event_id: int, file: str) -> None:
        """Remove a file and its manifest; raises as `get`."""
        checked_name(file)
        self._files.remove(self.get(event_id, file).path)

    def sweep(self) -> int:
        """Remove what killed workers left half-written; returns how many files."""
        return self._files.sweep(f"{KIND}-*")

    def manifest(self, event_id: int, file: str) -> Json:
        """What a file's manifest says; raises as `get`."""
        found: Json = msgspec.json.decode(self.get(event_id, f"{file}{MANIFEST}").path.read_bytes())
        return found

    def _path(self, event_id: int, file: str) -> Path:
        return self._files.folder / f"{KIND}-{event_id}" / file
