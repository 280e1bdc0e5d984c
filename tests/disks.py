"""Disks for the tests: small ones to be filled, and one in memory where there is room for it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_STEP = 4096
_MEMORY = Path("/dev/shm")
_ROOM = 6 << 30  # bytes: what two processes of tests put there at once is a third of it


@contextmanager
def small_disk(place: Path, megabytes: int) -> Iterator[Path]:
    """A disk of that size, mounted in a new folder; where that is not permitted, a skip."""
    place.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(place)]
    try:
        done = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        pytest.skip(f"a disk to be filled needs the program mount: {error}")
    if done.returncode:
        pytest.skip(f"a disk to be filled needs the right to mount one: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path) -> Path:
    """Take all the space of a disk; removing the file that this gives makes room again."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        while free := os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize:
            file.write(bytes(max(_STEP, min(free, 1 << 20) // _STEP * _STEP)))
    return filler


def in_memory() -> Path | None:
    """A disk in memory that temporary files may go to, or nothing where there is too little."""
    try:
        disk = os.statvfs(_MEMORY)
        words = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        available = int(words["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError):
        return None  # not Linux, or no such disk
    fits = disk.f_bavail * disk.f_frsize >= _ROOM and available >= 2 * _ROOM
    # Compiled parts and Java's own libraries are loaded from there.
    usable = not disk.f_flag & os.ST_NOEXEC and os.access(_MEMORY, os.W_OK)
    return _MEMORY if fits and usable else None
