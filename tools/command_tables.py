"""``python -m tools.command_tables``: docs/cli.md's tables, from the program's help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from app.cli import app

_COMMON = {"help", "url", "user"}  # of every command, or of every client of a service


def every_command() -> Iterator[tuple[str, Any, str]]:
    """Each command with the words that call it, and the panel of the help that it is in."""
    group: Any = typer.main.get_command(app)
    for name, command in group.commands.items():
        for second, inner in getattr(command, "commands", {"": command}).items():
            yield f"{name} {second}".strip(), inner, command.rich_help_panel


def command_tables() -> dict[str, list[str]]:
    """The rows of each panel's table."""
    tables: dict[str, list[str]] = {}
    for words, command, panel in every_command():
        tables.setdefault(panel, []).append(f"| `{_synopsis(words, command)}` | {_says(command)} |")
    return tables


def _says(command: Any) -> str:
    first, _, _ = command.help.partition("\n\n")
    return " ".join(first.split())


def _synopsis(words: str, command: Any) -> str:
    shown = (_parameter(one) for one in command.params if one.name not in _COMMON)
    return " ".join((words, *shown)).replace("|", r"\|")


def _parameter(one: Any) -> str:
    if one.param_type_name == "argument":
        name = (one.metavar or one.name).upper().strip("{}[]")
        return name if one.required else f"[{name}]"
    spelt = "/".join((min(one.opts, key=len), *one.secondary_opts))
    return f"[{spelt}{'…' if one.multiple else ''}]"


if __name__ == "__main__":
    for panel, rows in command_tables().items():
        print(f"## {panel}", "| command | what it does |", "|---|---|", *rows, sep="\n", end="\n\n")
