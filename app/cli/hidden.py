"""``hidden``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app.cli.client import Client
from app.cli.options import Json, Url, User, Vhost
from app.cli.output import as_json, table


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(hidden)


def hidden(
    vhost: Vhost,
    links: Annotated[
        bool, typer.Option("--links", help="Each message by itself, newest first.")
    ] = False,
    limit: Annotated[
        int, typer.Option("-n", "--limit", min=1, max=1_000, help="How many messages, for --links.")
    ] = 100,
    json: Json = False,
    url: Url = None,
    user: User = None,
) -> None:
    """Ways by which causes came to messages, and not through the broker: outboxes, HTTP calls."""
    client = Client.from_environment(url, user)
    if links:
        found = client.get("/itc_db/hidden", vhost=vhost, limit=limit)
    else:
        found = client.get("/itc_db/hidden/ways", vhost=vhost)
    if json:
        as_json(found)
    elif links:
        table(("EFFECT", "CAUSE", "RULE", "FROM", "TO", "AT"), map(_link, found))
    else:
        table(("RULE", "FROM", "TO", "LINKS", "LAST"), map(_way, found["ways"]))


def _link(one: dict[str, Any]) -> tuple[object, ...]:
    who = (one["from"]["name"], one["to"]["name"])
    return (one["effect"], one["cause"], one["rule"], *who, one["recorded_at"])


def _way(one: dict[str, Any]) -> tuple[object, ...]:
    who = (one["from"]["name"], one["to"]["name"])
    return (one["rule"], *who, one["links"], one["last_at"])
