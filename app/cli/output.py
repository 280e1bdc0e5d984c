"""What the commands print: tables for people, JSON for machines.

Names and payloads come from whoever uses the broker, so none of it reaches a terminal as a
control sequence.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

out = Console(highlight=False)
_pipe = Console(highlight=False, width=10_000)  # nothing is cut when there is no window
err = Console(stderr=True, highlight=False)


def printable(value: object) -> str:
    """Text without control or direction-changing characters: they show as ``\\x1b``."""
    text = "" if value is None else str(value)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def as_json(value: Any) -> None:
    """One line of JSON, ASCII only."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """One plain line, never wrapped: it may be read by a script."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def complain(text: str) -> None:
    """One plain line on stderr."""
    sys.stderr.write(printable(text) + "\n")


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table as wide as it needs to be in a pipe, fitted to the window on a terminal."""
    shown = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        shown.add_column(column, overflow="ellipsis", no_wrap=True)
    for row in rows:
        shown.add_row(*(Text(printable(cell)) for cell in row))
    (out if out.is_terminal else _pipe).print(shown)
