"""``assertions show``, ``assertions set``, ``assertions remove``, and ``violations``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.client import Client, segment
from app.cli.exits import CommandError, Exit
from app.cli.options import Json, Url, User, Vhost
from app.cli.output import as_json, printable, say, table

assertions = typer.Typer(
    help="Look at and change what must hold in a virtual host while its events come.",
    no_args_is_help=True,
)

_PATH = "/itc_db/assertions"
OptionalVhost = Annotated[
    str | None, typer.Argument(help="Only those of this virtual host.", show_default=False)
]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(assertions, name="assertions")
    app.command()(violations)


@assertions.command()
def show(
    vhost: OptionalVhost = None, json: Json = False, url: Url = None, user: User = None
) -> None:
    """What must hold, and for how many events it did, did not, or nobody knows."""
    found = Client.from_environment(url, user).get(_PATH, vhost=vhost)
    if json:
        as_json(found)
    else:
        columns = ("VHOST", "ASSERTION", "HELD", "VIOLATED", "UNKNOWN", "WAITING", "SAYS")
        table(columns, map(_row, found))


@assertions.command("set")
def set_(
    vhost: Vhost,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A file of YAML or JSON; - for standard input.")
    ],
    url: Url = None,
    user: User = None,
) -> None:
    """Hold the assertions of a file against a virtual host from now on, and no others."""
    try:
        text = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise CommandError(Exit.usage, f"{file}: {error.strerror}") from error
    client = Client.from_environment(url, user)
    client.send("PUT", f"{_PATH}/{segment(vhost)}", content=text)
    say(f"{printable(vhost)}: {len(client.get(_PATH, vhost=vhost))} assertions")


@assertions.command()
def remove(
    vhost: Vhost,
    name: Annotated[str, typer.Argument(help="The assertion's name.")],
    url: Url = None,
    user: User = None,
) -> None:
    """Remove one assertion; what it found stays."""
    Client.from_environment(url, user).send("DELETE", f"{_PATH}/{segment(vhost)}/{segment(name)}")
    say(f"{printable(vhost)}: assertion {printable(name)} removed")


def violations(
    vhost: OptionalVhost = None,
    assertion: Annotated[str | None, typer.Option(help="Of this assertion.")] = None,
    kind: Annotated[str | None, typer.Option(help="Of this kind.")] = None,
    since: Annotated[str | None, typer.Option(help="Found at this time or later.")] = None,
    until: Annotated[str | None, typer.Option(help="Found before this time.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="How many at most.")] = 100,
    json: Json = False,
    url: Url = None,
    user: User = None,
) -> None:
    """What did not hold, newest first."""
    found = Client.from_environment(url, user).get(
        "/itc_db/violations",
        vhost=vhost,
        assertion=assertion,
        kind=kind,
        since=since,
        until=until,
        limit=limit,
    )
    if json:
        as_json(found)
        return
    columns = ("FOUND", "VHOST", "ASSERTION", "EVENT", "COMPLETE", "WEBHOOK", "SAYS")
    table(columns, map(_violation_row, found["items"]))
    if found["truncated"]:
        say(f"there are more: --until {found['items'][-1]['found_at']} shows those before")


def _row(each: Mapping[str, Any]) -> tuple[object, ...]:
    said = (f"{key} {value}" for key, value in each["assertion"].items() if key != "name")
    says = ", ".join(said)
    if each["unwatched"]:
        says += f" (not watched: {each['unwatched']})"
    counts = (each["held"], each["violated"], each["unknown"], each["waiting"])
    return (each["vhost"], each["name"], *counts, says)


def _violation_row(each: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        each["found_at"],
        each["vhost"],
        each["assertion"],
        each["event"],
        "yes" if each["complete"] else "no",
        "-" if each["delivery"] == "none" else each["delivery"],
        each["sentence"],
    )
