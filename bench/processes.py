"""Memory and processor time of processes, as Linux counts them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
LOOK_SECONDS = 0.5  # the kernel walks a process's whole memory for each look


def cpu_of(pid: int) -> float:
    """Processor time of a process alone, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def cpu_of_all(pid: int | None = None) -> float:
    """The same of a process, this one unless named, and of all below it, ended ones too."""
    return sum(sum(map(int, fields[11:15])) for _, fields in _family(pid or os.getpid())) / TICKS


def _family(first: int) -> Iterator[tuple[Path, list[str]]]:
    """A process and all below it, with the fields of their `stat` from the third on."""
    running: dict[int, tuple[Path, list[str]]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            running[int(path.name)] = path, fields
    pids = {first}
    while more := {pid for pid, (_, own) in running.items() if int(own[1]) in pids} - pids:
        pids |= more
    yield from (running[pid] for pid in pids)


class Watch:
    """The most memory that this process and all below it have had (MB), and their processor time.

    The latter in seconds, of all processors; both while it is open. ``own`` is the most of this
    process alone, ``largest`` that of any below it.
    """

    def __init__(self) -> None:
        self.most = self.own = self.largest = 0
        self.seconds = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self.seconds = -cpu_of_all()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self.seconds += cpu_of_all()

    def _look(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            memory = _memory()
            self.most = max(self.most, sum(memory.values()))
            self.own = max(self.own, memory.pop(os.getpid(), 0))
            self.largest = max(self.largest, *memory.values(), 0)


def _memory() -> dict[int, int]:
    """Megabytes by process; of pages that several have, to each its share."""
    sizes = {}
    for path, _ in _family(os.getpid()):
        try:
            text = (path / "smaps_rollup").read_text()
        except OSError:
            continue
        found = text.partition("\nPss:")[2].split()
        sizes[int(path.name)] = int(found[0]) >> 10 if found else 0
    return sizes
