"""Folders that jobs write to, as the service reads them.

A worker writes a file under a temporary name and renames it when it is complete, so what is here is
complete at any moment. A file that is downloaded has a manifest beside it, which is renamed first.
Archives are each virtual host's oldest events as Parquet, which may then be pruned. Everything here
blocks on the disk: call it in a thread.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from abc import abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

import msgspec

from app.errors import BadRequestError, ConflictError, NotFoundError, QuotaError
from app.extras import check_spark
from app.stored.jobs import JobRequest, Json
from model.archives import ArchiveManifest
from model.exports import MANIFEST, Format, Manifest, Quota, manifest_of, usage_of

Subject = TypeVar("Subject")

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")


def is_plain(file: str) -> bool:
    return _NAME.fullmatch(file) is not None


def times_of(period: tuple[int, int], subject: str) -> Json:
    """A period as a job's request has it (µs); raises `BadRequestError` for an invalid one."""
    since, until = period
    if not 0 <= since < until:
        raise BadRequestError(f"{subject} needs a time: since must be before until")
    return {"since": since, "until": until}


def folder_of(vhost: str) -> str:
    """A virtual host's folder: its name may be anything, and a digest is a valid file name."""
    return hashlib.sha256(vhost.encode()).hexdigest()[:32]


def files_in(folder: Path) -> list[Path]:
    """The files of a folder: none if it is not there, or somebody just removed it."""
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def newest_first(
    paths: Iterable[Path], passed_over: type[OSError] = FileNotFoundError
) -> list[tuple[Path, os.stat_result]]:
    """The existing files among these, newest first, equal times by path.

    A file whose status raises ``passed_over`` is left out.
    """
    files = []
    for path in paths:
        with contextlib.suppress(passed_over):  # removed just now
            files.append((path, path.stat()))
    return sorted(files, key=lambda file: (file[1].st_mtime_ns, file[0]), reverse=True)


class ManifestedFile(msgspec.Struct, frozen=True):
    """A file, or the manifest of one."""

    path: Path
    vhost: str
    media_type: str


class ManifestedFiles(Generic[Subject]):
    """Files of one kind with manifests in the folder of exports, each in its subject's folder."""

    formats: ClassVar[Iterable[Format]]

    def __init__(self, folder: Path, quota: Quota) -> None:
        self.folder = folder
        self._quota = quota

    @classmethod
    def check_format(cls, file: str) -> Format:
        """The format of a file with this name; raises `BadRequestError` for an invalid one."""
        form = cls._format_of(file) if is_plain(file) else None
        if form is None:
            extensions = ", ".join(form.extension for form in cls.formats)
            raise BadRequestError(
                "expected a name of 1 to 200 letters, digits, dots, underscores and hyphens that"
                f" does not begin with a dot, and ends in one of {extensions}"
            )
        return form

    @classmethod
    def _format_of(cls, file: str) -> Format | None:
        return next((form for form in cls.formats if file.endswith(form.extension)), None)

    def path(self, subject: Subject, file: str) -> Path:
        return self.folder / self._folder_of(subject) / file

    @abstractmethod
    def _folder_of(self, subject: Subject) -> str: ...

    @abstractmethod
    def _absence(self, subject: Subject, file: str) -> str:
        """Say that there is no such file."""

    def output(self, subject: Subject, file: str) -> Json:
        """The part of a job's work about its file."""
        return {
            "output": str(self.path(subject, file)),
            "format": self.check_format(file).name,
            # The path is checked again when the job's turn comes.
            "quota": {"files": self._quota.files, "bytes": self._quota.bytes},
        }

    def check_room(self, subject: Subject, file: str) -> None:
        """Raise `QuotaError` if there is no room for another file, or for a new version of one."""
        usage = usage_of(self.folder, self.path(subject, file))
        if self._quota.free_bytes(usage) <= 0:
            raise QuotaError(self._quota.refusal(usage))

    def manifest(self, path: Path) -> Manifest | None:
        """The manifest of a file; None unless both are there."""
        try:
            path.stat()
            return msgspec.json.decode(manifest_of(path).read_bytes(), type=Manifest)
        except (OSError, msgspec.DecodeError):
            return None

    def find(self, subject: Subject, file: str) -> ManifestedFile:
        """A file, or the manifest of one; raises `BadRequestError` and `NotFoundError`."""
        name = file.removesuffix(MANIFEST)
        media_type = self.check_format(name).media_type
        path = self.path(subject, name)
        manifest = self.manifest(path)
        if manifest is None:
            raise NotFoundError(self._absence(subject, name))
        if name != file:
            return ManifestedFile(manifest_of(path), manifest.vhost, "application/json")
        return ManifestedFile(path, manifest.vhost, media_type)

    def newest_first(self, folders: str) -> list[tuple[Path, os.stat_result]]:
        """The files with manifests in folders that fit a pattern."""
        manifests = self.folder.glob(f"{folders}/*{MANIFEST}")
        files = (manifest.with_name(manifest.name.removesuffix(MANIFEST)) for manifest in manifests)
        return newest_first(files, passed_over=OSError)

    def delete(self, subject: Subject, file: str) -> None:
        """Remove a file and its manifest, and their folder if nothing else is in it."""
        self.check_format(file)
        path = self.find(subject, file).path
        path.unlink(missing_ok=True)
        manifest_of(path).unlink(missing_ok=True)
        remove_empty(path.parent)


def remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not empty, or gone, or no folder: each is fine
        folder.rmdir()


class Archives:
    """The archives under one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def request(self, vhost: str, before: int, owner: str) -> JobRequest:
        """The job that archives all events recorded before ``before`` (µs), from the archive's end.

        Raises `BadRequestError` for an invalid time.
        """
        if before <= 0:
            raise BadRequestError("nothing was recorded before 1970")
        request: Json = {"vhost": vhost, "before": before}
        work = {**request, "archives": str(self._folder)}
        return JobRequest("archive", vhost, owner, request, work)

    def through(self, vhost: str) -> int:
        """The id up to which events are archived; raises `NotFoundError` where none are."""
        return self._archive(vhost).through

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
        """The virtual host of the event archived under an id; None if there is none.

        Raises `NotInstalledError`.
        """
        if not self._folder.is_dir():
            return None
        check_spark("archived events need")
        from spark_jobs.events.archive import Archive  # loads Arrow

        archive = Archive.find(self._folder, event_id)
        return archive.vhost if archive else None

    def _archive(self, vhost: str) -> ArchiveManifest:
        archive = ArchiveManifest.of_vhost(self._folder, vhost, 0)
        if archive.through:
            return archive
        raise NotFoundError(f"nothing of {vhost} is archived")
