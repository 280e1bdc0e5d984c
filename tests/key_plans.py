"""How SQLite goes about looking for keys: never through all of a trace."""

from __future__ import annotations

import re
from collections.abc import Iterable

# As statements call the table of keys; one that is looked up in the view is `keys` by itself.
_KEYS = re.compile(r"(SEARCH|SCAN) (keys|mine|s|k)(?: |$)")
_BY_INDEX = (
    "PRIMARY KEY (trace_id=? AND run=? AND key=?",
    "COVERING INDEX ix_keys_conversations (trace_id=? AND event_id",
)


def of_keys(steps: Iterable[str]) -> list[str]:
    """The steps of a query's plan that look for keys."""
    return [each for each in steps if _KEYS.match(each)]


def through_a_trace(steps: Iterable[str]) -> list[str]:
    """Those that go through more than what is looked for."""
    return [each for each in of_keys(steps) if not any(index in each for index in _BY_INDEX)]
