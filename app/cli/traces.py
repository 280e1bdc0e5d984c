"""``trace start``, ``trace stop``, ``trace reset``, ``trace list``."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from app.cli.client import Client, trace_path
from app.cli.exits import CommandError, Exit
from app.cli.options import Json, Quiet, Url, User, Vhost, rules
from app.cli.output import as_json, printable, say, table

trace = typer.Typer(
    help="Start, stop and look at the capture of virtual hosts.", no_args_is_help=True
)

START_SECONDS = 20.0
LOOK_SECONDS = 0.2


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(trace, name="trace")


@trace.command()
def start(
    vhost: Vhost,
    participant: Annotated[
        str | None,
        typer.Option(
            help="Who counts as a participant: client (the default), host, user, connection or "
            "channel."
        ),
    ] = None,
    quiet: Quiet = None,
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
        bool, typer.Option(help="Exchanges and queues may be named that there are not yet.")
    ] = False,
    everything: Annotated[bool, typer.Option(help="Take all exchanges and queues again.")] = False,
    url: Url = None,
    user: User = None,
) -> None:
    """Start capturing a virtual host, and wait until it runs, or say what it waits for.

    Exits with 6 if it waits: it will run once that is over, and captures nothing until then.
    """
    client = Client.from_environment(url, user)
    wish = rules(participant, quiet) or {}
    if bodies is not None:
        wish["bodies"] = bodies
    wish |= _taking(exchange, queue, later=later, everything=everything)
    answer = client.send("PUT", trace_path(vhost), json=wish or None)
    begun = "started" if answer.status_code == 201 else "runs already"
    one = _settled(client, vhost)
    state = one["state"]
    if state == "failed":
        raise CommandError(Exit.failure, f"{vhost}: {begun}, and failed: {one['last_error']}")
    if state == "waiting":
        raise CommandError(Exit.unavailable, f"{vhost}: {begun}, and waits: {one['waiting_for']}")
    say(f"{printable(vhost)}: {begun}, {state}")


def _taking(
    exchanges: list[str] | None, queues: list[str] | None, *, later: bool, everything: bool
) -> dict[str, Any]:
    """What a request says of exchanges and queues."""
    if everything:
        if exchanges or queues:
            raise CommandError(Exit.usage, "--everything goes with no --exchange and no --queue")
        return {"exchanges": ["#"], "queues": ["#"]}
    found: dict[str, Any] = {}
    if exchanges:
        found["exchanges"] = exchanges
    if queues:
        found["queues"] = queues
    return {**found, "later": True} if later else found


def _settled(client: Client, vhost: str) -> dict[str, Any]:
    """A trace once it is no longer starting, or when that has taken long."""
    until = time.monotonic() + START_SECONDS
    while True:
        one: dict[str, Any] = client.get(trace_path(vhost))
        if one["state"] != "starting" or time.monotonic() > until:
            return one
        time.sleep(LOOK_SECONDS)


@trace.command()
def stop(vhost: Vhost, url: Url = None, user: User = None) -> None:
    """Stop capturing a virtual host; its events stay."""
    Client.from_environment(url, user).send("DELETE", trace_path(vhost))
    say(f"{printable(vhost)}: stopped")


@trace.command()
def reset(vhost: Vhost, url: Url = None, user: User = None) -> None:
    """Make a checkpoint that cannot be read anew; a gap says what is lost. Its events stay."""
    Client.from_environment(url, user).send("PUT", trace_path(vhost), json={"reset": True})
    say(f"{printable(vhost)}: reset")


@trace.command("list")
def list_(url: Url = None, user: User = None, json: Json = False) -> None:
    """Every trace with its state. Exits with 1 if one has failed."""
    traces = Client.from_environment(url, user).get("/itc_db/traces")
    if json:
        as_json(traces)
    else:
        _show(traces)
    if any(one["state"] == "failed" for one in traces):
        raise typer.Exit(Exit.failure)


def _remark(one: dict[str, Any]) -> str:
    if one["state"] == "failed":
        return "; ".join(filter(None, (one["last_error"], one["waiting_for"])))
    doubtful = "" if one["sound"] else "not sound: see rabbitmq-itc doctor"
    return str(one["waiting_for"] or next(iter(one["remarks"]), doubtful))


def _missing(one: dict[str, Any]) -> str:
    """What the audit found missing, or suspects; a dash while nobody knows."""
    audit = one["audit"]
    if audit and audit["suspected"]:
        return f"{audit['missing']} ({audit['suspected']}?)"
    if audit is None or None in (audit["publishes"]["counted"], audit["deliveries"]["counted"]):
        return "-"
    return str(audit["missing"])


def _show(traces: list[dict[str, Any]]) -> None:
    table(
        (
            *("VHOST", "STATE", "SERVICE", "EVENTS", "RATE/S", "LAG"),
            *("UNMATCHED", "MISSING", "GAPS", "REMARK"),
        ),
        (
            (
                one["vhost"],
                one["state"],
                one["holder"] or "",
                one["events"],
                f"{one['rate']:.1f}",
                "?" if one["lag"] is None else one["lag"],
                one["counters"]["unmatched"],
                _missing(one),
                sum(not gap["declared"] for gap in one["gaps"]),
                _remark(one),
            )
            for one in traces
        ),
    )
