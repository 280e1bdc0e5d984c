"""``archive``, ``prune``: for old events."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.client import Client
from app.cli.exits import CommandError, Exit
from app.cli.following import followed, say_job, submit
from app.cli.options import Json, Url, User, Vhost, Wait
from app.cli.output import as_json, say


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(archive)
    app.command()(prune)


def archive(
    vhost: Vhost,
    keep_days: Annotated[
        float | None, typer.Option(help="Archive what is older than this many days.")
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
    if (keep_days is None) == (before is None):
        raise CommandError(Exit.usage, "say what to archive: with either --keep-days or --before")
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


def prune(
    vhost: Vhost,
    keep_events: Annotated[
        int | None, typer.Option(min=1, help="How many of the newest events stay.")
    ] = None,
    keep_days: Annotated[
        float | None, typer.Option(help="Events younger than this many days stay.")
    ] = None,
    archived: Annotated[
        bool, typer.Option("--archived", help="Only remove what is archived.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be removed.")
    ] = False,
    json: Json = False,
    url: Url = None,
    user: User = None,
) -> None:
    """Remove the oldest events of a virtual host; without options, as its own retention would."""
    client = Client.from_environment(url, user)
    chosen = {"keep_events": keep_events, "keep_days": keep_days}
    parameters = {name: value for name, value in chosen.items() if value is not None}
    answer = client.send(
        "DELETE",
        "/itc_db",
        params={"vhost": vhost, "archived": archived, "dry_run": dry_run, **parameters},
    ).json()
    if json:
        as_json(answer)
    else:
        verb = "would go" if dry_run else "went"
        say(f"{answer['events']} events {verb}, {answer['participants']} participants with them")
