"""Files that say what an event touched, in the folder of exports, each with its manifest.

They count in the bounds of exports.
"""

from __future__ import annotations

from pathlib import Path

from app.jobs.folders import ManifestedFiles
from app.jobs.requests import JobRequest
from model.exports import FORMATS, Quota

KIND = "touched"


class TouchedFiles(ManifestedFiles[int]):
    """The files of touched events under the folder of exports, by event."""

    formats = (FORMATS["jsonl"], FORMATS["parquet"])

    def __init__(self, folder: Path, quota: Quota, key_file: Path | None = None) -> None:
        """``key_file`` holds the key that manifests are signed with."""
        super().__init__(folder, quota)
        self._key_file = key_file

    def request(self, vhost: str, event_id: int, file: str, owner: str) -> JobRequest:
        """The job that writes what an event touched; raises `BadRequestError` for a bad name."""
        location = f"/itc_db/touched/{event_id}/{file}"  # plain names need no encoding
        key_file = None if self._key_file is None else str(self._key_file.absolute())
        return JobRequest(
            kind=KIND,
            vhost=vhost,
            owner=owner,
            shown={"event": event_id, "file": file},
            work={"event": event_id, "key_file": key_file, **self.output(event_id, file)},
            finish=lambda result: {**result, "location": location},
        )

    def _folder_of(self, event_id: int) -> str:
        return f"{KIND}-{event_id}"

    def _none(self, event_id: int, file: str) -> str:
        return f"there is no file {file} of what event {event_id} touched"
