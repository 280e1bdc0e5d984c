"""Output of the commands: tables for people, JSON for machines.

Names and payloads come from whoever uses the broker, so none of it reaches a terminal as a
control sequence.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.cli.exits import CommandError, Exit

console = Console(highlight=False)
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
    sys.stderr.write(printable(text) + "\n")


Cell: TypeAlias = Callable[[dict[str, Any]], object]
Columns: TypeAlias = Mapping[str, Cell]
"""By its heading what stands in a column of a table."""


def columns(specification: str, **cells: Cell) -> Columns:
    """Columns as a text says them: ``"KEY, BY: by.name, TO: queue or ?, P99: seconds.p99 .3f"``.

    Each is a heading, the way to its value in an item where that is not the heading's name, and
    what stands there for no value, or its format. Of lists all values stand there. ``cells`` make
    those that say more, by headings.
    """
    return dict(_column(part.strip(), cells) for part in specification.split(","))


def _column(specification: str, cells: Columns) -> tuple[str, Cell]:
    heading, _, value = specification.partition(": ")
    path, _, form = (value or heading.lower().replace(" ", "_")).partition(" ")
    default = form.removeprefix("or ") if form.startswith("or ") else ""

    def cell(item: Any) -> object:
        for name in path.split("."):
            try:
                item = None if item is None else item[name]
            except KeyError:
                reason = f"the service does not say {path!r}: it may be older than this command"
                raise CommandError(Exit.failure, reason) from None
        if item is None or item == "":
            return default
        if isinstance(item, list):
            return ", ".join(map(str, item))
        return item if default or not form else format(item, form)

    return heading, cells.get(heading, cell)


def table(columns: Columns | Sequence[str], rows: Iterable[Any]) -> None:
    """A table as wide as it needs to be in a pipe, fitted to the window on a terminal.

    Rows are items where the columns say what is in them, otherwise their cells.
    """
    grid = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        grid.add_column(column, overflow="ellipsis", no_wrap=True)
    for row in rows:
        cells = [cell(row) for cell in columns.values()] if isinstance(columns, Mapping) else row
        grid.add_row(*(Text(printable(cell)) for cell in cells))
    (console if console.is_terminal else _pipe).print(grid)


def show_list(rows: Any, json: bool, columns: Columns, *, limit: int | None = None) -> None:
    """A list: a table for people, for machines an object with ``items``.

    Beside the items it says whether they are ``complete`` and ``sound``, which is null where
    the service does not say so of a list, and whether there are more (``truncated``): null where
    there are as many as ``limit`` asked for.
    """
    answer = rows if isinstance(rows, dict) else {"items": rows}
    items = answer["items"]
    if json:
        may_be_cut = limit is not None and len(items) >= limit
        defaults = {"complete": None, "sound": None, "truncated": None if may_be_cut else False}
        return as_json(defaults | answer)
    if not items:
        complain("none")
    return table(columns, items)


def period_of(answer: dict[str, Any]) -> str:
    return f"{printable(answer['vhost'])} from {answer['since']} to {answer['until']}"
