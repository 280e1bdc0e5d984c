"""The folder of archives: each virtual host's oldest events as Parquet, which may then be pruned.

Everything here blocks on the disk: call it in a thread.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from app.errors import BadRequestError, ConflictError, NotFoundError
from app.jobs.requests import JobRequest
from app.stored.jobs import Json
from model.times import Microseconds

if TYPE_CHECKING:
    from spark_jobs.archived import Archive


class ArchiveState(msgspec.Struct, frozen=True):
    """The archived part of a virtual host: every event up to ``through``, recorded at ``until``."""

    vhost: str
    through: int
    until: Microseconds
    events: int
    files: int
    bytes: int


class Archives:
    """The archives under one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def request(self, vhost: str, before: int, owner: str) -> JobRequest:
        """The job that archives what was recorded before ``before`` (µs) and is not archived yet.

        Raises `BadRequestError` for an invalid time.
        """
        if before <= 0:
            raise BadRequestError("nothing was recorded before 1970")
        shown: Json = {"vhost": vhost, "before": before}
        work = {**shown, "archives": str(self._folder)}
        return JobRequest("archive", vhost, owner, shown, work)

    def get(self, vhost: str) -> ArchiveState:
        """The archived part of a virtual host; raises `NotFoundError` if there is none."""
        archive = self._archive(vhost)
        return ArchiveState(
            vhost=vhost,
            through=archive.through,
            until=Microseconds(archive.until),
            events=sum(part.events for part in archive.parts),
            files=len(archive.parts),
            bytes=sum(part.bytes for part in archive.parts),
        )

    def prunable(self, vhost: str, newest: tuple[int, int] | None) -> int:
        """The id up to which a virtual host's events may be pruned, because they are archived.

        ``newest`` is the newest stored event up to the archive's end: its id and time. Raises
        `NotFoundError` if nothing is archived, `ConflictError` if the archive is damaged or belongs
        to another store.
        """
        archive = self._archive(vhost)
        if not archive.is_whole:
            raise ConflictError(f"files of the archive of {vhost} are missing or cut short")
        if not archive.fits(newest):
            raise ConflictError(f"the archive of {vhost} is of another store: move it away")
        return archive.through

    def vhost_of(self, event_id: int) -> str | None:
        """The virtual host of the event archived under an id; None if there is none."""
        if not self._folder.is_dir():
            return None
        from spark_jobs.archived import Archive  # loads Arrow, which few services need

        archive = Archive.holding(self._folder, event_id)
        return archive.vhost if archive else None

    def _archive(self, vhost: str) -> Archive:
        if self._folder.is_dir():
            from spark_jobs.archived import Archive

            archive = Archive.at(self._folder, vhost, 0)
            if archive.through:
                return archive
        raise NotFoundError(f"nothing of {vhost} is archived")
