"""``participants``, ``alias``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app.cli.client import Client, segment
from app.cli.exits import CommandError, Exit
from app.cli.options import Json, Url, User, Vhost
from app.cli.output import as_json, printable, say, table


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(participants)
    app.command()(alias)


def participants(
    vhost: Vhost,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, max=1_000, help="How many.")] = 100,
    json: Json = False,
    url: Url = None,
    user: User = None,
) -> None:
    """Who took part in a virtual host's trace, those that were active last first."""
    client = Client.from_environment(url, user)
    found = client.get("/itc_db/participants", vhost=vhost, limit=limit)
    if json:
        as_json(found)
    else:
        table(
            ("NO.", "PARTICIPANT", "PUBLISHED", "RECEIVED", "CONNECTIONS", "REMARK"),
            map(_row, found),
        )


def _row(who: dict[str, Any]) -> tuple[object, ...]:
    assumed = "assumed: its client gives no name, or one of too many" if who["assumed"] else ""
    remark = "; ".join(filter(None, (who["note"], assumed, _misses(who["evidence"]))))
    counts = (who["published"], who["received"], who["connections"])
    return (who["participant"], who["name"], *counts, remark)


def _misses(evidence: dict[str, Any]) -> str:
    """What the policy keeps from it, by what its messages name."""
    missed, known = evidence["missed"], evidence["known"]
    return f"misses {missed} of {known + missed} causes that its messages name" if missed else ""


def alias(
    vhost: Vhost,
    participant: Annotated[int, typer.Argument(min=1, help="Its number.")],
    name: Annotated[str | None, typer.Argument(help="What to call it.")] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Have it shown by its own name again.")
    ] = False,
    url: Url = None,
    user: User = None,
) -> None:
    """Give a participant a name that is shown instead of its own."""
    if remove == (name is not None):
        raise CommandError(Exit.usage, "give either a name or --remove")
    path = f"/itc_db/participants/{segment(vhost)}/{participant}"
    client = Client.from_environment(url, user)
    if name is None:
        client.send("DELETE", path)
        say(f"participant {participant} has its own name again")
    else:
        client.send("PUT", path, json={"alias": name})
        say(f"participant {participant} is now called {printable(name.strip())}")
