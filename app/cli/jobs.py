"""``jobs``: list, show, cancel."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.client import Client
from app.cli.options import Json, Url, User
from app.cli.output import as_json, say, table

jobs = typer.Typer(help="Jobs of the service.", no_args_is_help=True)

JobId = Annotated[int, typer.Argument(min=1, help="The job's number.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(jobs, name="jobs")


@jobs.command("list")
def list_(url: Url = None, user: User = None, json: Json = False) -> None:
    """Every job that is kept, newest first."""
    found = Client.from_environment(url, user).get("/itc_db/jobs")
    if json:
        return as_json(found)
    keys = ("id", "kind", "state", "percent", "stage", "vhost", "created_at", "error")
    return table([key.upper() for key in keys], (tuple(job[key] for key in keys) for job in found))


@jobs.command()
def show(number: JobId, url: Url = None, user: User = None) -> None:
    """One job, as JSON."""
    as_json(Client.from_environment(url, user).get(f"/itc_db/jobs/{number}"))


@jobs.command()
def cancel(number: JobId, url: Url = None, user: User = None) -> None:
    """Cancel a job that has not ended."""
    Client.from_environment(url, user).send("DELETE", f"/itc_db/jobs/{number}")
    say(f"job {number}: cancelled")
