"""Quiet traffic: stored and matched, and never joined into clocks.

Heartbeats, gossip and audit copies tell everybody of everybody: joined, they would order
everything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate

from app.tracker._pass import QuietNames

KINDS = ("exchange", "queue")

DEFAULT = (
    "exchange:celeryev",
    "exchange:*.pidbox",
    "queue:celeryev.*",
    "queue:*.pidbox",
    *(
        f"{kind}:MOL{space}.{packet}{node}"
        for packet in ("DISCOVER", "INFO", "HEARTBEAT", "PING", "PONG", "DISCONNECT")
        for space in ("", "-*")
        for kind, node in (("exchange", ""), ("queue", ".*"))
    ),
)
"""Celery's and kombu's control traffic, and what Moleculer's nodes tell of themselves."""

MOST_PATTERNS, LONGEST = 100, 300
_CACHED_NAMES = 10_000


class Quiet(QuietNames):
    """Quiet exchanges and queues, by a shell's patterns such as ``queue:audit.*``."""

    def __init__(self, patterns: Sequence[str] = DEFAULT) -> None:
        """Raises `ValueError`, with the pattern at fault."""
        if len(patterns) > MOST_PATTERNS:
            raise ValueError(f"there are more than {MOST_PATTERNS} patterns")
        self.patterns = tuple(patterns)
        self._exchanges, self._queues = (_Verdicts(_compile(kind, patterns)) for kind in KINDS)


class _Verdicts(dict[str, bool]):
    """The names that a pattern was asked about, each with whether it matches."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern

    def __missing__(self, name: str) -> bool:
        if len(self) >= _CACHED_NAMES:
            self.clear()
        verdict = self[name] = self._pattern.fullmatch(name) is not None
        return verdict


def _compile(kind: str, patterns: Sequence[str]) -> re.Pattern[str]:
    expressions = []
    for pattern in patterns:
        side, colon, glob = pattern.partition(":")
        if not colon or side not in KINDS or not glob or len(glob) > LONGEST or "\0" in glob:
            raise ValueError(
                f"{pattern[:LONGEST]!r} is not quiet traffic: write exchange:NAME or queue:NAME, "
                f"with * for any characters, of at most {LONGEST}"
            )
        if side == kind:
            expressions.append(translate(glob))
    return re.compile("|".join(expressions) or r"(?!)")
