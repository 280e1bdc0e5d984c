"""Writing an export so that a reader sees all of it or none.

The file is written under another name in the same folder, synced and renamed. The manifest is
written before it: if the file is there, so is its manifest.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, cast

from model.exports import LEFTOVER, Quota, usage_of
from model.jobs import Problem
from spark_jobs.errors import JobError


class HashedFile:
    """A file being written, with the digest and the length of its content."""

    def __init__(self, file: BinaryIO, check: Callable[[int], None]) -> None:
        """``check`` is called with the length before each write, and raises if it is too much."""
        self._file = file
        self._check = check
        self._digest = hashlib.sha256()
        self.bytes = 0
        self.closed = False

    @property
    def sha256(self) -> str:
        """Digest of everything written."""
        return self._digest.hexdigest()

    def write(self, data: bytes) -> int:
        """Append; Arrow hands its own buffers in."""
        self._check(self.bytes + len(data))
        self._digest.update(data)
        count = self._file.write(data)
        self.bytes += count
        return count

    @contextmanager
    def spooled(self, chunks: Iterable[bytes]) -> Iterator[BinaryIO]:
        """The chunks in a file without a name beside this one, bounded as it is."""
        with TemporaryFile(dir=Path(self._file.name).parent) as spool:
            for chunk in chunks:
                spool.write(chunk)
                self._check(spool.tell())
            spool.seek(0)
            yield cast("BinaryIO", spool)

    def tell(self) -> int:
        """The number of bytes written."""
        return self.bytes

    def writable(self) -> bool:
        """Always."""
        return True

    def flush(self) -> None:
        """Pass what is buffered to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Note that Arrow is done; the file itself is closed by `open_whole`."""
        self.closed = True


@contextmanager
def open_whole(target: Path, quota: Quota | None = None) -> Iterator[HashedFile]:
    """A file that appears as ``target`` when the block ends well, and nowhere when it does not.

    Raises `JobError` if the disk is full, the folder cannot be written to, or the export exceeds
    what the quota of the exports' folder leaves.
    """
    check = quota_check(target, quota) if quota else lambda length: None
    check(0)
    part = target.with_name(f".{target.name}.{secrets.token_hex(6)}{LEFTOVER}")
    with disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with disk_errors(target), part.open("xb") as raw:
            yield HashedFile(raw, check)
            raw.flush()
            os.fsync(raw.fileno())
        with disk_errors(target):
            part.replace(target)
            sync(target.parent)
    finally:
        part.unlink(missing_ok=True)


def quota_check(target: Path, quota: Quota) -> Callable[[int], None]:
    """A function that raises `JobError` for a length that exceeds the folder's quota.

    The other exports are measured only once: jobs run one after the other.
    """
    usage = usage_of(target.parent.parent, target)
    rest = quota.free_bytes(usage)

    def check(length: int) -> None:
        if rest < length or rest <= 0:
            raise JobError(Problem.full, quota.refusal(usage))

    return check


def write_file(target: Path, content: bytes) -> None:
    """Replace a small file."""
    with open_whole(target) as file:
        file.write(content)


@contextmanager
def disk_errors(target: Path) -> Iterator[None]:
    """Turn a disk's errors into a sentence."""
    try:
        yield
    except OSError as error:
        raise JobError(Problem.outage, _sentence(error, target.parent)) from error


def _sentence(error: OSError, folder: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"The disk of {folder} is full; free some space and ask again. Nothing was written."
    return f"The export could not be written in {folder}: {error.strerror or error}."


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
