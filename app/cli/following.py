"""Having the service run a job, and showing its progress until it ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from app.cli.client import ServiceClient
from app.cli.exits import CommandError, Exit
from app.cli.output import as_json, complain, err, printable, say

_FIRST_LOOK, _LAST_LOOK = 0.2, 2.0  # seconds between two looks at a job, as it takes longer
_END_STATES = ("succeeded", "failed", "cancelled")


def submit(
    client: ServiceClient,
    path: str,
    body: dict[str, Any] | None = None,
    content: bytes | None = None,
    **parameters: Any,
) -> dict[str, Any]:
    """Ask for a job; returns it as it stands. Parameters that are None are left out.

    Either ``body`` is sent, as JSON, or ``content`` as it is.
    """
    query = {name: value for name, value in parameters.items() if value is not None}
    headers = {"prefer": "respond-async"}
    payload: dict[str, Any] = {"json": body} if content is None else {"content": content}
    job: dict[str, Any] = client.send("PUT", path, params=query, headers=headers, **payload).json()
    return job


def report(client: ServiceClient, path: str, **parameters: Any) -> dict[str, Any]:
    """A report, made anew by a job whose result names it."""
    result = follow(client, submit(client, path, **parameters))
    answer: dict[str, Any] = client.get(f"/itc_db/reports/{result['id']}")
    return answer


def run_job(
    client: ServiceClient,
    path: str,
    wait: bool,
    json: bool,
    body: dict[str, Any] | None = None,
    **parameters: Any,
) -> dict[str, Any]:
    """The result of a job; whoever does not wait gets its number, or all of it, and no more.

    Arguments are as for `submit`.
    """
    job = submit(client, path, body, **parameters)
    if wait:
        return follow(client, job)
    as_json(job) if json else say(str(job["id"]))
    raise typer.Exit


def follow(client: ServiceClient, job: dict[str, Any]) -> dict[str, Any]:
    """Wait for a job's end and show its progress; returns its result."""
    job = _with_progress(client, job["id"])
    if job["state"] == "succeeded":
        result: dict[str, Any] = job["result"]
        return result
    raise CommandError(
        Exit.failure, f"job {job['id']} {job['state']}: {job['error'] or 'no reason'}"
    )


def _with_progress(client: ServiceClient, job_id: int) -> dict[str, Any]:
    if not err.is_terminal:
        stages: list[str] = []

        def say_stage(job: dict[str, Any]) -> None:
            """One line on stderr for each stage: what a log of a pipe can hold."""
            stage = job["stage"] or job["state"]
            if [stage] != stages:
                stages[:] = [stage]
                complain(f"job {job['id']}: {stage}, {job['percent']:.0f} %")

        return _watch(client, job_id, say_stage)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f} %"))
    with Progress(*columns, TimeElapsedColumn(), console=err, transient=True) as progress:
        bar = progress.add_task("waiting", total=100)

        def move(job: dict[str, Any]) -> None:
            stage = printable(job["stage"] or job["state"])
            progress.update(bar, completed=job["percent"], description=stage)

        return _watch(client, job_id, move)


def _watch(
    client: ServiceClient, job_id: int, show: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    pause = _FIRST_LOOK
    while True:
        job: dict[str, Any] = client.get(f"/itc_db/jobs/{job_id}")
        show(job)
        if job["state"] in _END_STATES:
            return job
        time.sleep(pause)
        pause = min(_LAST_LOOK, 1.2 * pause)
