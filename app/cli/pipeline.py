"""``archive``, ``topology``: the jobs over many events at once."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app.cli.client import Client
from app.cli.following import followed, say_job, submit
from app.cli.options import Json, Url, User, Wait
from app.cli.output import as_json, printable, say, table

Vhost = Annotated[str, typer.Argument(help="The virtual host's name, such as /")]

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
    """Put the commands in place."""
    app.command()(archive)
    app.command()(topology)


def archive(
    vhost: Vhost,
    keep_days: Annotated[
        float | None, typer.Option(help="Archive what is older than so many days.")
    ] = None,
    before: Annotated[
        str | None, typer.Option(help="Archive what was recorded before this time (ISO 8601).")
    ] = None,
    wait: Wait = True,
    json: Json = False,
    url: Url = None,
    user: User = None,
) -> None:
    """Write the oldest events of a virtual host as Parquet, so that they may be pruned.

    They stay where they are until `prune --archived`.
    """
    client = Client.from_environment(url, user)
    job = submit(client, "/itc_db/archive", vhost=vhost, keep_days=keep_days, before=before)
    if not wait:
        return say_job(job, json)
    summary = followed(client, job)
    if json:
        return as_json(summary)
    return say(
        f"{summary['events']} events archived in {summary['files']} files,"
        f" {summary['bytes']} bytes; all up to event {summary['through']} are archived"
    )


def topology(
    vhost: Vhost,
    since: Annotated[str | None, typer.Option(help="From this time on (ISO 8601).")] = None,
    until: Annotated[str | None, typer.Option(help="Before this time (ISO 8601).")] = None,
    count: Annotated[
        bool, typer.Option("--count", help="Count now; the last hour, unless told otherwise.")
    ] = False,
    json: Json = False,
    url: Url = None,
    user: User = None,
) -> None:
    """Who sends what where: what was counted last, or for that time."""
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
