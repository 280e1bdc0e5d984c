"""``trace start``, ``stop``, ``reset``, ``list``."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from app.cli.client import ServiceClient, trace_path
from app.cli.commands import family
from app.cli.exits import CommandError, Exit
from app.cli.options import ActingOptions, Json, Vhost
from app.cli.output import columns, printable, say, show_list

START_SECONDS = 20.0
LOOK_SECONDS = 0.2


def start(
    client: ServiceClient,
    rules: ActingOptions,
    vhost: Vhost,
    bodies: Annotated[
        bool | None,
        typer.Option(
            "--bodies/--no-bodies",
            help="Whether to store messages' bodies and read them for links: yes for a new trace. "
            "Unchanged if left out.",
            show_default=False,
        ),
    ] = None,
    exchange: Annotated[
        list[str] | None,
        typer.Option(
            help="Capture only what is published to this exchange, or to those that match this "
            "topic pattern (* is one word, # any number; '' is the default exchange). May be "
            "repeated."
        ),
    ] = None,
    queue: Annotated[
        list[str] | None,
        typer.Option(
            help="Capture only deliveries from this queue, or from those that match this pattern. "
            "May be repeated."
        ),
    ] = None,
    later: Annotated[
        bool,
        typer.Option("--later", help="Allow exchanges and queues that do not exist yet."),
    ] = False,
) -> None:
    """Start capturing a virtual host, and wait until the trace runs or say what it waits for.

    Exits with 6 if it waits: it runs once that is over, and captures nothing until then.
    """
    selection: dict[str, Any] = {"bodies": bodies, "exchanges": exchange or None}
    selection |= {"queues": queue or None, "later": later or None}
    wish = rules.wish() | {name: value for name, value in selection.items() if value is not None}
    answer = client.send("PUT", trace_path(vhost), json=wish or None)
    verb = "started" if answer.status_code == 201 else "runs already"
    status = _wait_for_start(client, vhost)
    state = status["state"]
    if state == "failed":
        raise CommandError(Exit.failure, f"{vhost}: {verb}, and failed: {status['last_error']}")
    if state == "waiting":
        raise CommandError(Exit.unavailable, f"{vhost}: {verb}, and waits: {status['waiting_for']}")
    say(f"{printable(vhost)}: {verb}, {state}")


def _wait_for_start(client: ServiceClient, vhost: str) -> dict[str, Any]:
    """A trace once it is no longer starting, or when that has taken long."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        status: dict[str, Any] = client.get(trace_path(vhost))
        if status["state"] != "starting" or time.monotonic() > deadline:
            return status
        time.sleep(LOOK_SECONDS)


def stop(client: ServiceClient, vhost: Vhost) -> None:
    """Stop capturing a virtual host; its events stay."""
    client.send("DELETE", trace_path(vhost))
    say(f"{printable(vhost)}: stopped")


def reset(client: ServiceClient, vhost: Vhost) -> None:
    """Rebuild a failed trace's checkpoint; a gap shows what is lost. Its events stay."""
    client.send("PUT", trace_path(vhost), json={"reset": True})
    say(f"{printable(vhost)}: reset")


def traces(client: ServiceClient, json: Json = False) -> None:
    """List traces and their states. Exits with 1 if one has failed."""
    statuses = client.get("/itc_db/traces")
    show_list(statuses, json, _LISTED)
    if any(status["state"] == "failed" for status in statuses):
        raise typer.Exit(Exit.failure)


trace = family(
    "trace",
    "Start, stop and list the capture of virtual hosts.",
    start=start,
    stop=stop,
    reset=reset,
    list=traces,
)


def _remark(status: dict[str, Any]) -> str:
    if status["state"] == "failed":
        return "; ".join(filter(None, (status["last_error"], status["waiting_for"])))
    doubtful = "" if status["sound"] else "not sound: see rabbitmq-itc doctor"
    return str(status["waiting_for"] or next(iter(status["remarks"]), doubtful))


def _audit_cell(status: dict[str, Any]) -> str:
    """The number that the audit found missing, or suspects; a dash while nobody knows."""
    audit = status["audit"]
    if audit and audit["suspected"]:
        return f"{audit['missing']} ({audit['suspected']}?)"
    if audit is None or None in (audit["publishes"]["counted"], audit["deliveries"]["counted"]):
        return "-"
    return str(audit["missing"])


_LISTED = columns(
    "VHOST, STATE, SERVICE: holder, EVENTS, RATE/S: rate .1f, LAG: lag or ?, "
    "UNMATCHED: counters.unmatched, MISSING, GAPS, REMARK",
    MISSING=_audit_cell,
    GAPS=lambda status: sum(gap["quarantined"] or not gap["declared"] for gap in status["gaps"]),
    REMARK=_remark,
)
