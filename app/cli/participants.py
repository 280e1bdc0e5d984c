"""``participants``, ``alias``, ``hidden``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app.cli.client import ServiceClient, segment
from app.cli.exits import CommandError, Exit
from app.cli.options import Json, Listed, Vhost
from app.cli.output import listed, printable, say


def participants(
    client: ServiceClient, vhost: Vhost, limit: Listed = 100, json: Json = False
) -> None:
    """Who took part in a virtual host's trace, those that were active last first."""
    found = client.get("/itc_db/participants", vhost=vhost, limit=limit)
    columns = ("NO.", "PARTICIPANT", "PUBLISHED", "RECEIVED", "CONNECTIONS", "REMARK")
    listed(found, json, columns, _row, limit=limit)


def _row(who: dict[str, Any]) -> tuple[object, ...]:
    assumed = "assumed: its client gives no name, or one of too many" if who["assumed"] else ""
    remark = "; ".join(filter(None, (who["note"], assumed, _misses(who["evidence"]))))
    counts = (who["published"], who["received"], who["connections"])
    return (who["participant"], who["name"], *counts, remark)


def _misses(evidence: dict[str, Any]) -> str:
    missed, known = evidence["missed"], evidence["known"]
    return f"misses {missed} of {known + missed} causes that its messages name" if missed else ""


def alias(
    client: ServiceClient,
    vhost: Vhost,
    participant: Annotated[int, typer.Argument(min=1, help="Its number.")],
    name: Annotated[str | None, typer.Argument(help="What to call it.")] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Have it shown by its own name again.")
    ] = False,
) -> None:
    """Give a participant a name that is shown instead of its own."""
    if remove == (name is not None):
        raise CommandError(Exit.usage, "give either a name or --remove")
    path = f"/itc_db/participants/{segment(vhost)}/{participant}"
    if name is None:
        client.send("DELETE", path)
        say(f"participant {participant} has its own name again")
    else:
        client.send("PUT", path, json={"alias": name})
        say(f"participant {participant} is now called {printable(name.strip())}")


def hidden(
    client: ServiceClient,
    vhost: Vhost,
    links: Annotated[
        bool, typer.Option("--links", help="Each message by itself, newest first.")
    ] = False,
    limit: Annotated[
        int, typer.Option("-n", "--limit", min=1, max=1_000, help="How many messages, for --links.")
    ] = 100,
    json: Json = False,
) -> None:
    """Ways by which causes came to messages, and not through the broker: outboxes, HTTP calls."""
    if links:
        found = client.get("/itc_db/hidden", vhost=vhost, limit=limit)
        listed(found, json, ("EFFECT", "CAUSE", "RULE", "FROM", "TO", "AT"), _link, limit=limit)
    else:
        found = client.get("/itc_db/hidden/ways", vhost=vhost)
        found["items"] = found.pop("ways")
        listed(found, json, ("RULE", "FROM", "TO", "LINKS", "LAST"), _way)


def _link(one: dict[str, Any]) -> tuple[object, ...]:
    who = (one["from"]["name"], one["to"]["name"])
    return (one["effect"], one["cause"], one["rule"], *who, one["recorded_at"])


def _way(one: dict[str, Any]) -> tuple[object, ...]:
    who = (one["from"]["name"], one["to"]["name"])
    return (one["rule"], *who, one["links"], one["last_at"])
