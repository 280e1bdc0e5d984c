"""The rules of links that hold in all traces: the built-in ones, and those of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from app.errors import SettingsError
from app.tracker.links import BUILT_IN, Rule, Rules


def link_rules(path: Path | None, *, built_in: bool) -> tuple[Rule, ...]:
    """All rules; raises `SettingsError`, which says what is wrong with the file."""
    rules = BUILT_IN if built_in else ()
    if path is None:
        return rules
    try:
        given = msgspec.json.decode(path.read_bytes(), type=list[Any])
        rules = (*rules, *map(Rule.from_json, given))
        Rules(rules)
    except OSError as error:
        raise SettingsError(f"ITC_LINK_RULES: {path}: {error.strerror}") from error
    except ValueError as error:  # JSON's and a rule's own
        raise SettingsError(f"ITC_LINK_RULES: {path}: {error}") from error
    return rules
