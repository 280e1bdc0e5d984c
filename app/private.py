"""Folders and files that nobody but the service's own user may read.

The store holds the messages of everybody on the broker, so the user's umask does not count:
folders are 0700 and files 0600, also those of Spark's process and the traces', which inherit this.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

GROUP_AND_OTHERS = stat.S_IRWXG | stat.S_IRWXO
# Contents of the data folder: a database with SQLite's companions and the lock that keeps a second
# service away, and folders.
FOLDERS = ("exports", "archives", "reports", "topologies")
OWN_NAMES = frozenset({"itc.db", "itc.db-wal", "itc.db-shm", "itc.db.lock", *FOLDERS})
COMPANIONS = ("", "-wal", "-shm", "-journal")


def keep_private() -> None:
    """Let nobody else at what this process and its children create from now on."""
    os.umask(GROUP_AND_OTHERS)


def tighten(data: Path, folders: Iterable[Path], database: str | None) -> Iterator[str]:
    """Remove others' rights to what an earlier run created; yields what is open and not ours.

    Other folders that the service writes to are ours if they are in the data folder. ``database``
    is SQLite's file, None for any other database.
    """
    if data.is_dir():
        yield from _close(data, _holds_ours_alone(data))
    for folder in folders:
        yield from _close(folder, folder.is_relative_to(data))
    if database is not None:
        for companion in COMPANIONS:
            yield from _close(Path(database + companion), True)


def _holds_ours_alone(folder: Path) -> bool:
    """Tell whether only the service uses a folder: it is not, say, /tmp or somebody's projects."""
    is_shared = bool(folder.stat().st_mode & stat.S_ISVTX)
    visible = {entry.name for entry in folder.iterdir() if not entry.name.startswith(".")}
    return not is_shared and visible - {"lost+found"} <= OWN_NAMES


def _close(path: Path, is_ours: bool) -> Iterator[str]:
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode) or not status.st_mode & GROUP_AND_OTHERS:
            return
        if is_ours and status.st_uid == os.geteuid():
            path.chmod(stat.S_IMODE(status.st_mode) & ~GROUP_AND_OTHERS)
            return
    except FileNotFoundError:
        return
    mode = f"{stat.S_IMODE(status.st_mode):04o}"
    yield f"{path} has the mode {mode}, which lets others in: chmod go= it, if it is for us alone"
