"""Archives of virtual hosts, by their manifests.

An archive holds a prefix of its trace: all events up to ``through``, as whole rows with their
channels, participants and causes. Only files that its manifest names belong to it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from model.gaps import Gap
from model.sound import AssumedParticipant, Misfit, SplitParticipant

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class ArchiveFile:
    """One Parquet file: its path in the archive, the span of its ids, its events, its bytes."""

    file: str
    first_id: int
    last_id: int
    events: int
    bytes: int


@dataclass(frozen=True)
class ArchiveManifest:
    """One virtual host's archive, by its manifest.

    It has the events up to the id ``through``, recorded at ``until`` (µs), and the gaps and doubts
    that were known then.
    """

    folder: Path
    vhost: str
    trace: int
    through: int = 0
    until: int = 0
    parts: tuple[ArchiveFile, ...] = ()
    gaps: tuple[Gap, ...] = ()
    assumed: tuple[AssumedParticipant, ...] = ()
    misfit: Misfit | None = None
    missing: tuple[SplitParticipant, ...] = ()

    @classmethod
    def of_vhost(cls, root: Path, vhost: str, trace: int) -> Self:
        """The archive of a virtual host under a folder of archives; empty if there is none."""
        folder = root / hashlib.sha256(vhost.encode()).hexdigest()[:32]
        return cls.load(folder) or cls(folder, vhost, trace)

    @classmethod
    def load(cls, folder: Path) -> Self | None:
        """The archive in a folder; None if there is none."""
        try:
            manifest = json.loads((folder / MANIFEST).read_bytes())
        except FileNotFoundError:
            return None
        return cls(
            folder,
            manifest["vhost"],
            manifest["trace"],
            manifest["through"],
            manifest["until"],
            tuple(_file_in(part) for part in manifest["parts"]),
            tuple(Gap(**gap) for gap in manifest["gaps"]),
            tuple(AssumedParticipant(**row) for row in manifest["assumed"]),
            Misfit(**manifest["misfit"]) if manifest["misfit"] else None,
            tuple(SplitParticipant(**row) for row in manifest["missing"]),
        )

    @property
    def is_whole(self) -> bool:
        """Tell whether every file is there and still as long as when it was written."""
        try:
            return all(
                (self.folder / part.file).stat().st_size == part.bytes for part in self.parts
            )
        except OSError:
            return False

    def fits(self, newest: tuple[int, int] | None) -> bool:
        """Tell whether it is of a store, by the (id, time) of that store's event ``through``.

        Another store, or one restored from a backup, assigns the same ids again.
        """
        return newest is None or newest == (self.through, self.until)


def _file_in(part: dict[str, Any]) -> ArchiveFile:
    return ArchiveFile(*(part[column.name] for column in fields(ArchiveFile)))


@dataclass(frozen=True, slots=True)
class ArchiveSummary:
    """The result of an archiving job, and up to which event everything is archived."""

    vhost: str
    through: int
    events: int
    files: int
    bytes: int
