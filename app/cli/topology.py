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
_DEATHS = ("QUEUE", "REASON", "EXCHANGE", "TO", "MESSAGES")
_PROGRAMS = ("RECEIVER", "QUEUE", "EXCHANGE", "MESSAGES", "P50 S", "P95 S", "P99 S")


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
    return show(found)


def show(found: dict[str, Any]) -> None:
    """Deliveries, and what died and how long programs took where that is known."""
    gaps = "complete" if found["complete"] else "INCOMPLETE: it spans a gap"
    say(f"{printable(found['vhost'])} from {found['since']} to {found['until']}, {gaps}")
    table(_COLUMNS, map(_row, found["deliveries"]))
    if found["deaths"]:
        say("\nDead letters")
        table(_DEATHS, map(_death, found["deaths"]))
    if found["programs"]:
        say("\nIn programs, from a delivery to the publishes that name it")
        table(_PROGRAMS, map(_program, found["programs"]))


def _row(flow: dict[str, Any]) -> tuple[object, ...]:
    return (
        flow["publisher"] or "?",
        flow["exchange"] or "(default)",
        flow["queue"],
        flow["receiver"],
        flow["messages"],
        flow["redelivered"],
        flow["dead_lettered"],
        flow["unmatched"],
        *_seconds(flow),
    )


def _death(flow: dict[str, Any]) -> tuple[object, ...]:
    return (
        flow["queue"] or "?",
        flow["reason"] or "?",
        flow["exchange"] or "(default)",
        flow["to"],
        flow["messages"],
    )


def _program(flow: dict[str, Any]) -> tuple[object, ...]:
    exchange = flow["exchange"] or "(default)"
    return (flow["receiver"], flow["queue"], exchange, flow["messages"], *_seconds(flow))


def _seconds(flow: dict[str, Any]) -> tuple[str, ...]:
    seconds = flow["seconds"] or {}
    return tuple(
        f"{seconds[name]:.3f}" if name in seconds else "" for name in ("p50", "p95", "p99")
    )
