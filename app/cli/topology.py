"""``topology``: who sends what where."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app.cli.client import Client
from app.cli.following import followed, submit
from app.cli.options import Json, Url, User, Vhost
from app.cli.output import as_json, printable, say, table

_TOPOLOGY = "/itc_db/topology"
_COLUMNS = (
    "PUBLISHER",
    "EXCHANGE",
    "QUEUE",
    "RECEIVER",
    "MESSAGES",
    "REDELIVERED",
    "DEAD LETTERS",
    "UNMATCHED",
    "P50 S",
    "P95 S",
    "P99 S",
)


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(topology)


def topology(
    vhost: Vhost,
    since: Annotated[str | None, typer.Option(help="From this time on (ISO 8601).")] = None,
    until: Annotated[str | None, typer.Option(help="Before this time (ISO 8601).")] = None,
    count: Annotated[
        bool, typer.Option("--count", help="Count now; by default the last hour.")
    ] = False,
    json: Json = False,
    url: Url = None,
    user: User = None,
) -> None:
    """Who sends what where: what was counted last, or for that period."""
    client = Client.from_environment(url, user)
    if count:
        job = submit(client, _TOPOLOGY, vhost=vhost, since=since, until=until)
        counted = followed(client, job)
        since, until = counted["since"], counted["until"]
    found = client.get(_TOPOLOGY, vhost=vhost, since=since, until=until)
    if json:
        return as_json(found)
    gaps = "complete" if found["complete"] else "INCOMPLETE: it spans a gap"
    say(f"{printable(found['vhost'])} from {found['since']} to {found['until']}, {gaps}")
    return table(_COLUMNS, (_row(flow) for flow in found["deliveries"]))


def _row(flow: dict[str, Any]) -> tuple[object, ...]:
    seconds = flow["seconds"] or {}
    return (
        flow["publisher"] or "?",
        flow["exchange"] or "(default)",
        flow["queue"],
        flow["receiver"],
        flow["messages"],
        flow["redelivered"],
        flow["dead_lettered"],
        flow["unmatched"],
        *(f"{seconds[name]:.3f}" if name in seconds else "" for name in ("p50", "p95", "p99")),
    )
