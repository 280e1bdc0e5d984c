"""Rules of redaction: ``redactions``."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.client import ServiceClient, segment
from app.cli.commands import family, remover
from app.cli.options import Json, Name, Vhost
from app.cli.output import columns, printable, say, show_list

_REDACTIONS = "/itc_db/redactions"
_COLUMNS = columns("RULE: name, KEEP, PLACES")

Place = Annotated[
    list[str], typer.Argument(help="Places such as '$message.payload#/card'; * for every element.")
]
Nothing = Annotated[bool, typer.Option("--nothing", help="Leave the values out: no digests.")]


def show_redactions(client: ServiceClient, vhost: Vhost, json: Json = False) -> None:
    """List the rules by which values are replaced before a virtual host's messages are stored."""
    show_list(client.get(_REDACTIONS, vhost=vhost), json, _COLUMNS)


def add_redaction(
    client: ServiceClient, vhost: Vhost, name: Name, places: Place, nothing: Nothing = False
) -> None:
    """Replace the values at these places by digests; it replaces a rule of the same name."""
    rule = {"places": places, "keep": "nothing" if nothing else "digest"}
    path = f"{_REDACTIONS}/{segment(vhost)}/{segment(name)}"
    outcome = "added" if client.send("PUT", path, json=rule).status_code == 201 else "replaced"
    say(f"{printable(vhost)}: rule {printable(name)} {outcome}")


redactions = family(
    "redactions",
    "Manage the rules by which values are replaced before messages are stored.",
    show=show_redactions,
    add=add_redaction,
    remove=remover(_REDACTIONS, "rule", "Remove a rule; what was stored by it stays as it is."),
)
