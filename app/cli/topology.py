"""``topology``: who sends what where."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from app.cli.client import ServiceClient
from app.cli.following import followed, submit
from app.cli.options import Json, TimeRange, Vhost
from app.cli.output import as_json, gaps_of, period_of, say, table

_TOPOLOGY = "/itc_db/topology"
_COLUMNS = (
    *("PUBLISHER", "EXCHANGE", "QUEUE", "RECEIVER", "MESSAGES", "REDELIVERED", "DEAD LETTERS"),
    *("UNMATCHED", "P50 S", "P95 S", "P99 S"),
)
_DEATHS = ("QUEUE", "REASON", "EXCHANGE", "TO", "MESSAGES")
_PROGRAMS = ("RECEIVER", "QUEUE", "EXCHANGE", "MESSAGES", "P50 S", "P95 S", "P99 S")


def topology(
    client: ServiceClient,
    period: TimeRange,
    vhost: Vhost,
    count: Annotated[
        bool, typer.Option("--count", help="Count now; by default the last hour.")
    ] = False,
    json: Json = False,
) -> None:
    """Who sends what where: what was counted last, or for that period."""
    asked = asdict(period)
    if count:
        counted = followed(client, submit(client, _TOPOLOGY, vhost=vhost, **asked))
        asked = {name: counted[name] for name in asked}
    found = client.get(_TOPOLOGY, vhost=vhost, **asked)
    as_json(found) if json else show(found)


def show(found: dict[str, Any]) -> None:
    say(f"{period_of(found)}, {gaps_of(found)}")
    table(_COLUMNS, map(_row, found["deliveries"]))
    if found["deaths"]:
        say("\nDead letters")
        table(_DEATHS, map(_death, found["deaths"]))
    if found["programs"]:
        say("\nIn programs, from a delivery to the publishes that name it")
        table(_PROGRAMS, map(_program, found["programs"]))


def _row(flow: dict[str, Any]) -> tuple[object, ...]:
    where = (flow["publisher"] or "?", flow["exchange"] or "(default)", flow["queue"])
    counts = (flow[name] for name in ("messages", "redelivered", "dead_lettered", "unmatched"))
    return (*where, flow["receiver"], *counts, *_seconds(flow))


def _death(flow: dict[str, Any]) -> tuple[object, ...]:
    where = (flow["queue"] or "?", flow["reason"] or "?", flow["exchange"] or "(default)")
    return (*where, flow["to"], flow["messages"])


def _program(flow: dict[str, Any]) -> tuple[object, ...]:
    exchange = flow["exchange"] or "(default)"
    return (flow["receiver"], flow["queue"], exchange, flow["messages"], *_seconds(flow))


def _seconds(flow: dict[str, Any]) -> tuple[str, ...]:
    seconds = flow["seconds"] or {}
    return tuple(
        f"{seconds[name]:.3f}" if name in seconds else "" for name in ("p50", "p95", "p99")
    )
