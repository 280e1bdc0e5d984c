"""How many processor cores we may use."""

from __future__ import annotations

import os
from pathlib import Path

QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of a container: µs of processor time in each period


def usable_cores(quota: Path = QUOTA) -> int:
    """The cores that this process may use, at least 1: those of the machine, or of a container."""
    # Not everywhere can a process be kept to some cores.
    ask = getattr(os, "sched_getaffinity", None)
    cores = os.cpu_count() or 1 if ask is None else len(ask(0))
    try:
        most, period = map(int, quota.read_text().split())
    except (OSError, ValueError):  # no such limit, or none that is understood
        return cores
    return max(1, min(cores, most // period))
