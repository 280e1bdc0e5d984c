"""A service that lags rather than slows applications that share its processors."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

# A busy broker on the same cores gets nine times as much of them. With the same priority,
# applications with bodies of 64 kB kept 0.33 to 0.60 of their throughput, and 0.50 to 0.78 with
# this one; with the least (19) not clearly more (`bench.overhead`).
NICENESS = 10


def let_others_go_first() -> None:
    """Lower this process's priority, unless it was started with another than the usual one.

    To be called before there are threads: each has the niceness of the one that starts it.
    """
    if os.getpriority(os.PRIO_PROCESS, 0) == 0:
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    if os.getsid(0) == os.getpid():  # else the session is a shell's, with all that it runs
        give_priority(os.getpid())


def give_priority(leader: int) -> None:
    """Give a session, by its first process, the niceness of this process.

    Linux weighs niceness within a session only, and sessions by that of each.
    """
    with contextlib.suppress(OSError):  # it does not, or nobody may change it
        Path(f"/proc/{leader}/autogroup").write_text(str(os.getpriority(os.PRIO_PROCESS, 0)))
