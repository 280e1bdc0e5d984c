"""Python imports this at its start if its folder is on PYTHONPATH: a clock that can be set.

The file that ``DRILL_CLOCK`` names holds the seconds by which this process's wall clock is ahead.
"""

import os
import time

LOOK_SECONDS = 0.1

_file = os.environ.get("DRILL_CLOCK", "")
_real = time.time_ns
_ahead = 0
_next_look = 0.0


def _time_ns() -> int:
    global _ahead, _next_look
    if time.monotonic() >= _next_look:
        _next_look = time.monotonic() + LOOK_SECONDS
        try:
            with open(_file) as told:  # noqa: PTH123 - at a start, every import counts
                _ahead = int(float(told.read()) * 1e9)
        except (OSError, ValueError):
            pass
    return _real() + _ahead


if _file:
    time.time_ns = _time_ns
    time.time = lambda: _time_ns() / 1e9
