"""Keeping house: ``jobs``, ``restamp``, ``archive``, ``prune``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app.cli.client import ServiceClient
from app.cli.commands import family
from app.cli.exits import CommandError, Exit
from app.cli.following import run_job
from app.cli.options import ActingOptions, Json, Vhost, Wait
from app.cli.output import as_json, columns, printable, say, show_list
from model.words import number_of

_MOST_JOBS = 1_000

JobId = Annotated[int, typer.Argument(min=1, help="The job's number.")]


def list_jobs(client: ServiceClient, json: Json = False) -> None:
    """List the jobs, newest first."""
    rows = client.get("/itc_db/jobs", limit=_MOST_JOBS)
    headings = "ID, KIND, STATE, PERCENT, STAGE, VHOST, CREATED_AT, ERROR"
    show_list(rows, json, columns(headings), limit=_MOST_JOBS)


def show(client: ServiceClient, number: JobId) -> None:
    """Show one job as JSON."""
    as_json(client.get(f"/itc_db/jobs/{number}"))


def cancel(client: ServiceClient, number: JobId) -> None:
    """Cancel a job that has not ended."""
    client.send("DELETE", f"/itc_db/jobs/{number}")
    say(f"job {number}: cancelled")


jobs = family("jobs", "Manage the service's jobs.", list=list_jobs, show=show, cancel=cancel)


def restamp(
    client: ServiceClient,
    rules: ActingOptions,
    vhost: Vhost,
    links: Annotated[
        bool,
        typer.Option(
            "--links", help="Read the messages again, too, by the link rules that hold now."
        ),
    ] = False,
    wait: Wait = True,
    json: Json = False,
) -> None:
    """Stamp a virtual host's stored events again, by other rules or by its present ones.

    The trace goes on, with a pause at the end. Events keep their ids and causes, and their links
    unless the messages are read again.
    """
    wish = rules.wish() | ({"links": True} if links else {})
    summary = run_job(client, "/itc_db/restamp", wait, json, wish or None, vhost=vhost)
    if json:
        return as_json(summary)
    assumed = f", {summary['assumed']} of them assumed" if summary["assumed"] else ""
    say(
        f"{printable(vhost)}: {number_of(summary['events'], 'event')} restamped, with"
        f" {number_of(summary['participants'], 'participant')} by {summary['participant']}{assumed}"
    )
    if summary["edges"] is not None:
        say(f"  {number_of(summary['edges'], 'link')}")
    if summary["cut"]:
        say(
            f"  {summary['cut']} messages are not stored whole (ITC_PAYLOAD_MAX_BYTES): rules about"
            " bodies did not read them"
        )
    return None


def archive(
    client: ServiceClient,
    vhost: Vhost,
    keep_days: Annotated[
        float | None, typer.Option(help="Archive what is older than this many days.")
    ] = None,
    before: Annotated[
        str | None, typer.Option(help="Archive what was recorded before this time (ISO 8601).")
    ] = None,
    wait: Wait = True,
    json: Json = False,
) -> None:
    """Archive a virtual host's oldest events as Parquet, so that they can be pruned.

    They stay in the database until `prune --archived`.
    """
    if (keep_days is None) == (before is None):
        raise CommandError(Exit.usage, "say what to archive: with either --keep-days or --before")
    parameters: dict[str, Any] = {"vhost": vhost, "keep_days": keep_days, "before": before}
    summary = run_job(client, "/itc_db/archive", wait, json, **parameters)
    if json:
        return as_json(summary)
    files, size = number_of(summary["files"], "file"), number_of(summary["bytes"], "byte")
    return say(
        f"{number_of(summary['events'], 'event')} archived in {files}, {size}; all up to event"
        f" {summary['through']} are archived"
    )


def prune(
    client: ServiceClient,
    vhost: Vhost,
    keep_events: Annotated[
        int | None, typer.Option(min=1, help="Keep this many of the newest events.")
    ] = None,
    keep_days: Annotated[
        float | None, typer.Option(help="Keep events younger than this many days.")
    ] = None,
    archived: Annotated[
        bool, typer.Option("--archived", help="Only remove what is archived.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be removed.")
    ] = False,
    json: Json = False,
) -> None:
    """Remove a virtual host's oldest events; without options, as its retention would."""
    parameters = {"vhost": vhost, "archived": archived, "dry_run": dry_run}
    bounds = {"keep_events": keep_events, "keep_days": keep_days}
    parameters |= {name: value for name, value in bounds.items() if value is not None}
    answer = client.send("DELETE", "/itc_db", params=parameters).json()
    if json:
        as_json(answer)
    else:
        verb = "would be removed" if dry_run else "removed"
        participants = number_of(answer["participants"], "participant")
        say(f"{number_of(answer['events'], 'event')} and {participants} {verb}")
