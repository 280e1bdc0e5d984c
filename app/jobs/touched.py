"""Files that say what an event touched, in the folder of exports, each with its manifest.

They count in the bounds of exports.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from app.errors import NotFoundError
from app.jobs.folders import ManifestedFile, ManifestedFiles, invalid_name, is_plain
from app.jobs.requests import JobRequest
from app.stored.jobs import Json
from model.exports import FORMATS, MANIFEST, Format, Quota

KIND = "touched"
TOUCHED_FORMATS = (FORMATS["jsonl"], FORMATS["parquet"])


def location_of(event_id: int, file: str) -> str:
    """The path of a file's URL; plain names need no encoding."""
    return f"/itc_db/touched/{event_id}/{file}"


def checked_name(file: str) -> Format:
    """The format of a file with this name; raises `BadRequestError` if it cannot be one."""
    for each in TOUCHED_FORMATS:
        if is_plain(file) and file.endswith(each.extension):
            return each
    raise invalid_name(TOUCHED_FORMATS)


class TouchedFiles:
    """The files of touched events under the folder of exports."""

    def __init__(self, folder: Path, quota: Quota, key_file: Path | None = None) -> None:
        """``key_file`` holds the key that manifests are signed with."""
        self._files = ManifestedFiles(folder, quota)
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
        self._files.make_room(self._path(event_id, file))

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

    def manifest(self, event_id: int, file: str) -> Json:
        """The content of a file's manifest; raises as `get`."""
        found: Json = msgspec.json.decode(self.get(event_id, f"{file}{MANIFEST}").path.read_bytes())
        return found

    def _path(self, event_id: int, file: str) -> Path:
        return self._files.folder / f"{KIND}-{event_id}" / file
