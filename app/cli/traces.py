"""``trace start``, ``stop``, ``reset``, ``list``."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from app.cli.client import ServiceClient, trace_path
from app.cli.commands import family
from app.cli.exits import CommandError, Exit
from app.cli.options import ActingRules, Json, Vhost
from app.cli.output import columns, listed, printable, say

START_SECONDS = 20.0
LOOK_SECONDS = 0.2


def start(
    client: ServiceClient,
    rules: ActingRules,
    vhost: Vhost,
    bodies: Annotated[
        bool | None,
        typer.Option(
            "--bodies/--no-bodies",
            help="Whether messages' bodies are stored, and read for links; as it is if left out, "
            "and yes for a new trace.",
            show_default=False,
        ),
    ] = None,
    exchange: Annotated[
        list[str] | None,
        typer.Option(
            help="Take only what is published to this exchange, or to those that this pattern "
            "covers (* for one word, # for any number, parted by dots; '' for the default "
            "exchange); several times for several."
        ),
    ] = None,
    queue: Annotated[
        list[str] | None,
        typer.Option(
            help="Take only deliveries of this queue, or of those that this pattern covers; "
            "several times for several."
        ),
    ] = None,
    later: Annotated[
        bool,
        typer.Option("--later", help="Exchanges and queues may be named that there are not yet."),
    ] = False,
) -> None:
    """Start capturing a virtual host, and wait until it runs, or say what it waits for.

    Exits with 6 if it waits: it will run once that is over, and captures nothing until then.
    """
    taken: dict[str, Any] = {"bodies": bodies, "exchanges": exchange or None}
    taken |= {"queues": queue or None, "later": later or None}
    wish = rules.wish() | {name: each for name, each in taken.items() if each is not None}
    answer = client.send("PUT", trace_path(vhost), json=wish or None)
    begun = "started" if answer.status_code == 201 else "runs already"
    one = _settled(client, vhost)
    state = one["state"]
    if state == "failed":
        raise CommandError(Exit.failure, f"{vhost}: {begun}, and failed: {one['last_error']}")
    if state == "waiting":
        raise CommandError(Exit.unavailable, f"{vhost}: {begun}, and waits: {one['waiting_for']}")
    say(f"{printable(vhost)}: {begun}, {state}")


def _settled(client: ServiceClient, vhost: str) -> dict[str, Any]:
    """A trace once it is no longer starting, or when that has taken long."""
    until = time.monotonic() + START_SECONDS
    while True:
        one: dict[str, Any] = client.get(trace_path(vhost))
        if one["state"] != "starting" or time.monotonic() > until:
            return one
        time.sleep(LOOK_SECONDS)


def stop(client: ServiceClient, vhost: Vhost) -> None:
    """Stop capturing a virtual host; its events stay."""
    client.send("DELETE", trace_path(vhost))
    say(f"{printable(vhost)}: stopped")


def reset(client: ServiceClient, vhost: Vhost) -> None:
    """Make the checkpoint of a trace that fails anew; a gap says what is lost. Its events stay."""
    client.send("PUT", trace_path(vhost), json={"reset": True})
    say(f"{printable(vhost)}: reset")


def traces(client: ServiceClient, json: Json = False) -> None:
    """Every trace with its state. Exits with 1 if one has failed."""
    found = client.get("/itc_db/traces")
    listed(found, json, _LISTED)
    if any(one["state"] == "failed" for one in found):
        raise typer.Exit(Exit.failure)


trace = family(
    "trace",
    "Start, stop and look at the capture of virtual hosts.",
    start=start,
    stop=stop,
    reset=reset,
    list=traces,
)


def _remark(one: dict[str, Any]) -> str:
    if one["state"] == "failed":
        return "; ".join(filter(None, (one["last_error"], one["waiting_for"])))
    doubtful = "" if one["sound"] else "not sound: see rabbitmq-itc doctor"
    return str(one["waiting_for"] or next(iter(one["remarks"]), doubtful))


def _missing(one: dict[str, Any]) -> str:
    """The number that the audit found missing, or suspects; a dash while nobody knows."""
    audit = one["audit"]
    if audit and audit["suspected"]:
        return f"{audit['missing']} ({audit['suspected']}?)"
    if audit is None or None in (audit["publishes"]["counted"], audit["deliveries"]["counted"]):
        return "-"
    return str(audit["missing"])


_LISTED = columns(
    "VHOST, STATE, SERVICE: holder, EVENTS, RATE/S: rate .1f, LAG: lag or ?, "
    "UNMATCHED: counters.unmatched, MISSING, GAPS, REMARK",
    MISSING=_missing,
    GAPS=lambda one: sum(gap["quarantined"] or not gap["declared"] for gap in one["gaps"]),
    REMARK=_remark,
)
