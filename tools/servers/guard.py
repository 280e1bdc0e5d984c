"""The guard: one small process that outlives its parent just long enough to clean up after it.

Run as ``python guard.py`` with a pipe on standard input, one JSON object per line:
``{"pid": 12, "signal": 9}`` (end this process), ``{"gone": 12}`` (it has already ended),
``{"folder": "/tmp/…"}`` (remove it), ``{"kept": "/tmp/…"}`` (it is already removed). When the
pipe closes, its parent is gone, for whatever reason, and what is still listed is ended or removed.

A pipe rather than the kernel's parent-death signal: that one is sent when the parent *thread*
ends, and is dropped when a program changes its user, as PostgreSQL must.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterable

GRACE_SECONDS = 10.0


class Charges:
    """The processes to end and folders to remove. By pidfd, not pid: pids are reused."""

    def __init__(self) -> None:
        self.processes: dict[int, tuple[int, int]] = {}  # pid -> (pidfd, signal)
        self.folders: list[str] = []

    def note(self, message: dict[str, object]) -> None:
        """Take in one message."""
        match message:
            case {"pid": int(pid), "signal": int(number)}:
                self._watch(pid, number)
            case {"gone": int(pid)}:
                descriptor, _ = self.processes.pop(pid, (-1, 0))
                if descriptor >= 0:
                    os.close(descriptor)
            case {"folder": str(folder)}:
                self.folders.append(folder)
            case {"kept": str(folder)} if folder in self.folders:
                self.folders.remove(folder)

    def _watch(self, pid: int, number: int) -> None:
        try:
            self.processes[pid] = (os.pidfd_open(pid), number)
        except ProcessLookupError:
            return  # it ended before we read the line

    def see_off(self) -> None:
        """End every process, by its own signal and then by SIGKILL, and remove the folders."""
        for descriptor, number in self.processes.values():
            _send(descriptor, number)
        descriptors = {descriptor for descriptor, _ in self.processes.values()}
        for descriptor in _still_running(descriptors, GRACE_SECONDS):
            _send(descriptor, signal.SIGKILL)
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)


def _send(descriptor: int, number: int) -> None:
    try:
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return


def _still_running(descriptors: set[int], seconds: float) -> set[int]:
    """Wait for the processes to end; return those that have not. A pidfd is readable at the end."""
    deadline = time.monotonic() + seconds
    while descriptors and (left := deadline - time.monotonic()) > 0:
        ended, _, _ = select.select(list(descriptors), [], [], left)
        descriptors = descriptors - set(ended)
    return descriptors


def watch(lines: Iterable[str]) -> None:
    """Follow the parent's messages until it is gone, then clean up."""
    charges = Charges()
    for line in lines:
        charges.note(json.loads(line))
    charges.see_off()


if __name__ == "__main__":
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)  # the pipe alone says when it is time
    watch(sys.stdin)
