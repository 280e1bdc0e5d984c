"""Files with manifests in the folder of exports: bounds, reading, removing, whatever they hold.

A worker writes a file's manifest first and renames both when they are complete. Everything here
blocks on the disk: call it in a thread.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from app.errors import QuotaError
from app.stored.jobs import Json
from model.exports import LEFTOVER, Manifest, Quota, manifest_of, usage_of


class ManifestedFile(msgspec.Struct, frozen=True):
    """A file, or the manifest of one."""

    path: Path
    vhost: str
    media_type: str


class Manifested:
    """The files with manifests under a folder, each in a folder of its own subject."""

    def __init__(self, folder: Path, quota: Quota) -> None:
        self.folder = folder
        self._quota = quota

    @property
    def quota(self) -> Json:
        """The bounds, for the job: they are looked at again when its turn has come."""
        return {"files": self._quota.files, "bytes": self._quota.bytes}

    def check_room(self, path: Path) -> None:
        """Raise `QuotaError` where there is no room for another file, or for one anew."""
        used = usage_of(self.folder, path)
        if self._quota.left(used) <= 0:
            raise QuotaError(self._quota.refusal(used))

    def find(
        self, path: Path, media_type: str, *, is_manifest: bool = False
    ) -> ManifestedFile | None:
        """A file, or its manifest; None unless both are there."""
        try:
            manifest = msgspec.json.decode(manifest_of(path).read_bytes(), type=Manifest)
            path.stat()
        except (OSError, msgspec.DecodeError):
            return None
        if is_manifest:
            return ManifestedFile(manifest_of(path), manifest.vhost, "application/json")
        return ManifestedFile(path, manifest.vhost, media_type)

    def remove(self, path: Path) -> None:
        """Remove a file and its manifest, and their folder if nothing else is in it."""
        path.unlink(missing_ok=True)
        manifest_of(path).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # not empty, or gone: both are fine
            path.parent.rmdir()

    def sweep(self, folders: str) -> int:
        """Remove what killed workers left half-written; returns how many files."""
        leftovers = [*self.folder.glob(f"{folders}/.*{LEFTOVER}")]
        for path in leftovers:
            path.unlink(missing_ok=True)
        return len(leftovers)
