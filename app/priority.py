"""A service that lags rather than slows applications that share its processors."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

NICENESS = 10
"""A busy broker on the same cores gets nine times as much of them (docs/overhead.md)."""

# Linux lets those that are not root weigh one session in 0.1 s, whoever they are.
ATTEMPTS, SECONDS_BETWEEN = 10, 0.11


def let_others_go_first() -> None:
    """Lower this process's priority, unless it was started with another than the usual one.

    To be called before there are threads: each has the niceness of the one that starts it. A
    session that is not this process's own is a shell's, and left alone.
    """
    if os.getpriority(os.PRIO_PROCESS, 0) == 0:
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    if os.getsid(0) == os.getpid():
        for seconds in weigh(os.getpid()):
            time.sleep(seconds)


def weigh(leader: int) -> Iterator[float]:
    """Give a session, by its first process, this process's niceness.

    Yields the seconds to wait before each further attempt. Linux weighs niceness within a session
    only, and sessions by their own. Lets it be where it does not, where nobody may, and of a
    process that has ended.
    """
    for _ in range(ATTEMPTS):
        try:
            Path(f"/proc/{leader}/autogroup").write_text(str(os.getpriority(os.PRIO_PROCESS, 0)))
        except BlockingIOError:
            yield SECONDS_BETWEEN
        except OSError:
            return
        else:
            return
