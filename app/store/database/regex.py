"""Regular expressions from callers: matched in linear time, or refused.

Python's own engine takes exponential time for some, and holds the interpreter meanwhile: one
request could stop the service. RE2 never does. On PostgreSQL its own engine does the matching: it
knows most of what RE2 knows, and is stopped by the statement timeout.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import re2

from app.errors import BadRequestError

LONGEST = 500  # characters


def check(pattern: str) -> str:
    """The pattern itself; raises `BadRequestError` if it is invalid."""
    if len(pattern) > LONGEST:
        raise BadRequestError(f"a regular expression has at most {LONGEST} characters")
    try:
        _searcher(pattern)
    except re2.error as error:
        reason = error.args[0]
        message = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
        raise BadRequestError(f"the regular expression cannot be read: {message}") from None
    return pattern


def matches(pattern: str, value: str | None) -> bool | None:
    """SQLite's ``value REGEXP pattern``: whether the pattern is found anywhere in the value."""
    return None if value is None else _searcher(pattern)(value) is not None


@functools.lru_cache(maxsize=64)
def _searcher(pattern: str) -> Callable[[str], Any]:
    options = re2.Options()
    options.log_errors = False  # they go into the answer, not the log
    compile_it: Callable[..., Any] = re2.compile
    search: Callable[[str], Any] = compile_it(pattern, options).search
    return search
