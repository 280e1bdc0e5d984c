"""``links show``, ``links set``, ``links add``, ``links remove``."""

from __future__ import annotations

import json as json_
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.client import Client, segment
from app.cli.exits import CommandError, Exit
from app.cli.options import Json, Url, User, Vhost
from app.cli.output import as_json, printable, say, table

links = typer.Typer(
    help="Look at and change the rules by which messages name their causes.", no_args_is_help=True
)

RulesFile = Annotated[
    str, typer.Argument(metavar="FILE", help="A file of JSON; - for standard input.")
]
_PATH = "/itc_db/links"


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(links, name="links")


@links.command()
def show(
    vhost: Vhost,
    own: Annotated[bool, typer.Option("--own", help="Only the virtual host's own.")] = False,
    json: Json = False,
    url: Url = None,
    user: User = None,
) -> None:
    """The rules of a virtual host in their order, and from which event on each holds."""
    found = Client.from_environment(url, user).get(_PATH, vhost=vhost)
    if own:
        found = [each for each in found if each["origin"] == "own"]
    if json:
        as_json(found)
    else:
        table(("RULE", "KIND", "ORIGIN", "FROM", "CHILD", "PARENT", "REMARK"), map(_row, found))


@links.command("set")
def set_(vhost: Vhost, file: RulesFile, url: Url = None, user: User = None) -> None:
    """Have a virtual host have the rules of a file, a JSON list, and no others of its own."""
    rules = _read(file)
    if not isinstance(rules, list):
        raise CommandError(Exit.usage, f"{file}: a list of rules is expected; links add takes one")
    Client.from_environment(url, user).send("PUT", _PATH, params={"vhost": vhost}, json=rules)
    say(f"{printable(vhost)}: {len(rules)} rules of its own")


@links.command()
def add(vhost: Vhost, file: RulesFile, url: Url = None, user: User = None) -> None:
    """Add one rule to a virtual host's own, or have it take the place of its namesake."""
    rule = _read(file)
    if not isinstance(rule, Mapping) or not isinstance(rule.get("name"), str):
        raise CommandError(Exit.usage, f"{file}: one rule is expected, an object with a name")
    path = f"{_PATH}/{segment(vhost)}/{segment(rule['name'])}"
    answer = Client.from_environment(url, user).send("PUT", path, json=rule)
    done = "added" if answer.status_code == 201 else "replaced"
    say(f"{printable(vhost)}: rule {printable(rule['name'])} {done}")


@links.command()
def remove(
    vhost: Vhost,
    name: Annotated[str, typer.Argument(help="The rule's name.")],
    url: Url = None,
    user: User = None,
) -> None:
    """Remove one of a virtual host's own rules; links that are stored stay."""
    Client.from_environment(url, user).send("DELETE", f"{_PATH}/{segment(vhost)}/{segment(name)}")
    say(f"{printable(vhost)}: rule {printable(name)} removed")


def _read(file: str) -> Any:
    try:
        text = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        read = json_.loads(text)
        # What cannot be sent: NaN, halves of characters.
        json_.dumps(read, ensure_ascii=False, allow_nan=False).encode()
    except OSError as error:
        raise CommandError(Exit.usage, f"{file}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise CommandError(Exit.usage, f"{file}: {error}") from error
    return read


_REMARKS = {"holds": "", "set": "holds soon", "removed": "removed; holds a moment longer"}


def _row(each: dict[str, Any]) -> tuple[object, ...]:
    rule = each["rule"]
    since = "-" if each["from_event_id"] is None else each["from_event_id"]
    places = (" + ".join(rule["child"]), " + ".join(rule.get("parent", ())))
    remark = _REMARKS.get(each["state"], each["state"])
    return (each["name"], rule["kind"], each["origin"], since, *places, remark)
