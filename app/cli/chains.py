"""``chain`` and ``export``."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from app.cli.client import Client, segment
from app.cli.events import end_by_relation
from app.cli.exits import CommandError, Exit
from app.cli.options import Json, RequireComplete, Url, User
from app.cli.output import as_json, complain, err, printable, say, table

export = typer.Typer(help="The files that chains were written to.", no_args_is_help=True)

From = Annotated[int, typer.Argument(metavar="FROM", min=1, help="One event's id.")]
To = Annotated[int, typer.Argument(metavar="TO", min=1, help="The other's.")]
FileName = Annotated[str, typer.Option("--file", help="Name of the export; .jsonl, .csv, …")]
Output = Annotated[
    Path | None, typer.Option("-o", "--output", help="Where to save it; - for stdout.")
]

STDOUT = Path("-")

_POLL_SECONDS = 1.0
_ENDED = ("succeeded", "failed", "cancelled")


def add_to(app: typer.Typer) -> None:
    """Put the commands in place."""
    app.command()(chain)
    app.add_typer(export, name="export")


def export_path(from_: int, to: int, file: str) -> str:
    """Where a chain's export is."""
    return f"/itc_db/undefined/{from_}/{to}/{segment(file)}"


def chain(
    from_: From,
    to: To,
    file: FileName = "chain.jsonl",
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait for the end, or print the job's number.")
    ] = True,
    output: Output = None,
    require_complete: RequireComplete = False,
    json: Json = False,
    url: Url = None,
    user: User = None,
) -> None:
    """Find the chain between two events and write the export.

    Ends with 0 where there is one, with 3 where the events are concurrent and nothing was written.
    """
    client = Client.from_environment(url, user)
    path = export_path(from_, to, file)
    answer = client.send("PUT", path, headers={"prefer": "respond-async"})
    if answer.status_code == httpx.codes.ACCEPTED:
        if not wait:
            _say_job(answer.json(), json)
            return
        summary = _followed(client, answer.json()["id"])
    else:
        summary = answer.json()
    if output == STDOUT:
        pass  # the export alone: whatever reads it expects nothing else
    elif json:
        as_json(summary)
    else:
        _say_summary(summary)
    if output is not None and summary["file"]:
        _download(client, path, output)
    end_by_relation(summary, require_complete)


def _say_job(job: dict[str, Any], json: bool) -> None:
    as_json(job) if json else say(str(job["id"]))


def _followed(client: Client, job_id: int) -> dict[str, Any]:
    """Wait for a job's end; gives its result."""
    job = _with_progress(client, job_id)
    if job["state"] == "succeeded":
        result: dict[str, Any] = job["result"]
        return result
    raise CommandError(Exit.failure, f"job {job_id} {job['state']}: {job['error'] or 'no reason'}")


def _with_progress(client: Client, job_id: int) -> dict[str, Any]:
    if not err.is_terminal:
        return _watch(client, job_id, _LineProgress())
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f} %"))
    with Progress(*columns, TimeElapsedColumn(), console=err, transient=True) as progress:
        return _watch(client, job_id, _BarProgress(progress))


class _LineProgress:
    """One line on stderr for each stage: what a log of a pipe can hold."""

    def __init__(self) -> None:
        self._stage: str | None = None

    def show(self, job: dict[str, Any]) -> None:
        stage = job["stage"] or job["state"]
        if stage != self._stage:
            self._stage = stage
            complain(f"job {job['id']}: {stage}, {job['percent']:.0f} %")


class _BarProgress:
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID = progress.add_task("waiting", total=100)

    def show(self, job: dict[str, Any]) -> None:
        stage = printable(job["stage"] or job["state"])
        self._progress.update(self._task, completed=job["percent"], description=stage)


def _watch(client: Client, job_id: int, progress: _LineProgress | _BarProgress) -> dict[str, Any]:
    while True:
        job: dict[str, Any] = client.get(f"/itc_db/jobs/{job_id}", wait=_POLL_SECONDS)
        progress.show(job)
        if job["state"] in _ENDED:
            return job


def _say_summary(summary: dict[str, Any]) -> None:
    if summary["relation"] == "concurrent":
        say(f"events {summary['from']} and {summary['to']} are concurrent: no chain")
        return
    say(
        f"{summary['events']} events of {summary['participants']} participants, "
        f"{'complete' if summary['complete'] else 'INCOMPLETE: it spans a gap'}, "
        f"{summary['bytes']} bytes in {summary['location']}"
    )


@export.command("list")
def list_(url: Url = None, user: User = None, json: Json = False) -> None:
    """Every export there is."""
    exports = Client.from_environment(url, user).get("/itc_db/exports")
    if json:
        return as_json(exports)
    columns = ("FROM", "TO", "FILE", "VHOST", "EVENTS", "BYTES", "MADE")
    keys = ("from", "to", "file", "vhost", "events", "bytes", "created_at")
    return table(columns, (tuple(one[key] for key in keys) for one in exports))


@export.command()
def get(
    from_: From,
    to: To,
    file: Annotated[str, typer.Argument(help="Its name.")],
    output: Output = None,
    url: Url = None,
    user: User = None,
) -> None:
    """Download an export."""
    client = Client.from_environment(url, user)
    _download(client, export_path(from_, to, file), output or Path(file))


@export.command()
def delete(
    from_: From,
    to: To,
    file: Annotated[str, typer.Argument(help="Its name.")],
    url: Url = None,
    user: User = None,
) -> None:
    """Remove an export."""
    Client.from_environment(url, user).send("DELETE", export_path(from_, to, file))
    say(f"{file}: removed")


def _download(client: Client, path: str, target: Path) -> None:
    """Save aside and rename, so that nobody reads half a file."""
    with client.stream(path) as response:
        if target == STDOUT:
            for part in response.iter_bytes():
                sys.stdout.buffer.write(part)
            return
        try:
            _save(response, target)
        except OSError as error:
            raise CommandError(Exit.failure, f"{target}: {error.strerror}") from error


def _save(response: httpx.Response, target: Path) -> None:
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as aside:
            for part in response.iter_bytes():
                aside.write(part)
        Path(name).chmod(0o644)
        shutil.move(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
