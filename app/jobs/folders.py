"""Folders that jobs write to, as the service reads them.

A worker writes a file under a temporary name and renames it when it is complete, so what is here is
complete at any moment. A file that is downloaded has a manifest beside it, which is renamed first.
Everything here blocks on the disk: call it in a thread.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from app.errors import BadRequestError, QuotaError
from app.stored.jobs import Json
from model.exports import LEFTOVER, Format, Manifest, Quota, Usage, manifest_of, usage_of

# How many documents of a virtual host are kept, those made last.
KEPT = 100

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")


def is_plain(file: str) -> bool:
    """Tell whether a file may have this name."""
    return _NAME.fullmatch(file) is not None


def invalid_name(formats: Iterable[Format]) -> BadRequestError:
    """The error for a name that no file of these formats has."""
    known = ", ".join(each.extension for each in formats)
    return BadRequestError(
        "expected a name of 1 to 200 letters, digits, dots, underscores and hyphens that does not"
        f" begin with a dot, and ends in one of {known}"
    )


def folder_of(vhost: str) -> str:
    """A virtual host's folder: its name may be anything, and a digest is a valid file name."""
    return hashlib.sha256(vhost.encode()).hexdigest()[:32]


def files_in(folder: Path) -> list[Path]:
    """The files of a folder: none where it is not there, or where somebody just removed it."""
    try:
        return list(folder.iterdir())
    except OSError:
        return []


class ManifestedFile(msgspec.Struct, frozen=True):
    """A file, or the manifest of one."""

    path: Path
    vhost: str
    media_type: str


class ManifestedFiles:
    """Files with manifests in the folder of exports, each in a folder of its own subject."""

    def __init__(self, folder: Path, quota: Quota) -> None:
        self.folder = folder
        self._quota = quota

    @property
    def quota(self) -> Json:
        """The bounds, for the job: they are looked at again when its turn has come."""
        return {"files": self._quota.files, "bytes": self._quota.bytes}

    def usage(self) -> Usage:
        """The space that all exports take."""
        return usage_of(self.folder)

    def make_room(self, path: Path) -> None:
        """Raise `QuotaError` where there is no room for another file, or for one anew."""
        used = usage_of(self.folder, path)
        if self._quota.left(used) <= 0:
            raise QuotaError(self._quota.refusal(used))

    def manifest(self, path: Path) -> Manifest | None:
        """The manifest of a file; None unless both are there."""
        try:
            path.stat()
            return msgspec.json.decode(manifest_of(path).read_bytes(), type=Manifest)
        except (OSError, msgspec.DecodeError):
            return None

    def find(
        self, path: Path, media_type: str, *, is_manifest: bool = False
    ) -> ManifestedFile | None:
        """A file, or its manifest; None unless both are there."""
        manifest = self.manifest(path)
        if manifest is None:
            return None
        if is_manifest:
            return ManifestedFile(manifest_of(path), manifest.vhost, "application/json")
        return ManifestedFile(path, manifest.vhost, media_type)

    def remove(self, path: Path) -> None:
        """Remove a file and its manifest, and their folder if nothing else is in it."""
        path.unlink(missing_ok=True)
        manifest_of(path).unlink(missing_ok=True)
        _remove_empty(path.parent)

    def sweep(self) -> int:
        """Remove what killed workers left half-written; returns how many files."""
        leftovers = [*self.folder.glob(f"*/.*{LEFTOVER}")]
        for path in leftovers:
            path.unlink(missing_ok=True)
        for folder in files_in(self.folder):
            _remove_empty(folder)
        return len(leftovers)


def _remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not empty, or gone, or no folder: each is fine
        folder.rmdir()


class Documents:
    """JSON documents of virtual hosts, under one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, vhost: str, name: str) -> Path:
        """Where a document of a virtual host is, or will be."""
        return self.folder / folder_of(vhost) / name

    def newest_first(self, pattern: str, vhost: str | None = None) -> Iterator[Path]:
        """Documents of a virtual host, or of all, by their names."""
        found = []
        for path in self.folder.glob(f"{'*' if vhost is None else folder_of(vhost)}/{pattern}"):
            with contextlib.suppress(FileNotFoundError):  # removed just now
                found.append((path.stat().st_mtime_ns, path))
        return (path for _, path in sorted(found, reverse=True))

    def read(self, paths: Iterable[Path]) -> Iterator[Json]:
        """The content of documents; those that were removed just now are left out."""
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                yield msgspec.json.decode(path.read_bytes())

    def forget_old(self, vhost: str, pattern: str, *beside: str) -> None:
        """Remove all but the newest `KEPT` of a virtual host, with what has another suffix."""
        for path in [*self.newest_first(pattern, vhost)][KEPT:]:
            for each in (path, *map(path.with_suffix, beside)):
                each.unlink(missing_ok=True)
