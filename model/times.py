"""Times: microseconds since the epoch inside, ISO 8601 in UTC outside."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import NewType

Microseconds = NewType("Microseconds", int)
"""Since the epoch, UTC. Answers show them as ISO 8601."""

Duration = NewType("Duration", int)
"""In microseconds. Answers show seconds."""

IsoTime = NewType("IsoTime", str)
"""A time as answers show it, as it was read from one."""

MINUTE, HOUR, DAY = 60_000_000, 3_600_000_000, 86_400_000_000
"""In µs."""

CLOCKS_DIFFER = 1_000_000
"""How far the clocks of the broker and the service may be apart (µs)."""

LATEST = Microseconds(253_402_300_799_999_999)
"""The last time that can be written, of the year 9999."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def now() -> Microseconds:
    """The current time."""
    return Microseconds(time.time_ns() // 1000)


@lru_cache(maxsize=1024)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]  # strftime writes a year as it is


def iso_time(microseconds: int) -> str:
    """A time as ISO 8601, UTC, always with six decimals."""
    seconds, rest = divmod(microseconds, 1_000_000)
    return f"{_second(seconds)}.{rest:06d}Z"


def said_time(microseconds: int) -> str:
    """A time for sentences, to the second; the page knows it by its form, and shows local time."""
    return f"{_second(microseconds // 1_000_000).replace('T', ' ')} UTC"


def microseconds_of(time: datetime) -> Microseconds:
    """Microseconds since the epoch; a time without an offset is UTC."""
    elapsed = (time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH
    return Microseconds(
        (elapsed.days * 86_400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds
    )
