"""Options that several commands share."""

from __future__ import annotations

import platform
from typing import Annotated, Any

import typer

from app.cli.output import say
from app.version import PACKAGE, program_version


def _show_version(asked: bool) -> None:
    if asked:
        say(f"{PACKAGE} {program_version()} (Python {platform.python_version()})")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version", help="Show the program's version.", callback=_show_version, is_eager=True
    ),
]
Url = Annotated[
    str | None,
    typer.Option("--url", envvar="ITC_URL", help="The service.", show_envvar=True),
]
User = Annotated[
    str | None,
    typer.Option(
        "--user",
        envvar="ITC_USER",
        help="A user of the broker; the password is read from ITC_PASSWORD.",
        show_envvar=True,
    ),
]
Vhost = Annotated[str, typer.Argument(help="The virtual host's name, such as /")]
Quiet = Annotated[
    list[str] | None,
    typer.Option(
        help="Traffic that joins no clocks: exchange:NAME or queue:NAME, with * for any "
        "characters. May be given several times; '' for none; as it is if left out."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Wait = Annotated[
    bool, typer.Option("--wait/--no-wait", help="Wait for the end, or print the job's number.")
]
RequireComplete = Annotated[
    bool,
    typer.Option("--require-complete", help="Exit with 7 if the answer spans a gap."),
]
RequireSound = Annotated[
    bool,
    typer.Option(
        "--require-sound", help="Exit with 8 if participants may be parts of one program."
    ),
]


def rules(participant: str | None, quiet: list[str] | None) -> dict[str, Any] | None:
    """The body that asks for these rules of who acts; one that is not given is left out."""
    wish: dict[str, Any] = {} if participant is None else {"participant": participant}
    if quiet:  # typer gives an empty list, or None, if the option is not given
        wish["quiet"] = [pattern for pattern in quiet if pattern]
    return wish or None
