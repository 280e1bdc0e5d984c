"""A service that lags rather than slows applications that share its processors."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

NICENESS = 10
"""A busy broker on the same cores gets nine times as much of them (docs/overhead.md)."""

_OF_SESSION = Path("/proc/self/autogroup")
# Linux takes one of these in 0.1 s from all that are not root's.
_ATTEMPTS, _BETWEEN = 5, 0.1


def let_others_go_first() -> None:
    """Lower this process's priority, unless it was started with another than the usual one.

    To be called before there are threads and children: each has that of whoever starts it. Linux
    weighs niceness within a session, and sessions by their own: that of a shell is left alone.
    """
    if os.getpriority(os.PRIO_PROCESS, 0) == 0:
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):  # it does not, or nobody may
            _weigh_session(str(os.getpriority(os.PRIO_PROCESS, 0)))


def _weigh_session(niceness: str) -> None:
    for _ in range(_ATTEMPTS):
        try:
            _OF_SESSION.write_text(niceness)
        except BlockingIOError:
            time.sleep(_BETWEEN)
        else:
            return
