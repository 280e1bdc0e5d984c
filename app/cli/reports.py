"""Reports of what was traced: ``failures``, ``report`` on order, ``topology``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any, TypeAlias

import typer

from app.cli.client import ServiceClient
from app.cli.commands import Command, family, named
from app.cli.following import followed, submit
from app.cli.following import report as made
from app.cli.options import Json, Listed, TimeRange, Vhost
from app.cli.output import as_json, gaps_of, listed, period_of, say, table


def failures(
    client: ServiceClient,
    period: TimeRange,
    vhost: Vhost,
    kind: Annotated[
        str | None, typer.Option(help="died, error_queue, unroutable, came_back, overdue or gone.")
    ] = None,
    queue: Annotated[str | None, typer.Option(help="Failed in this queue.")] = None,
    reason: Annotated[str | None, typer.Option(help="Died for this reason.")] = None,
    type_: Annotated[str | None, typer.Option("--type", help="Messages of this type.")] = None,
    exception: Annotated[str | None, typer.Option(help="With this exception, or type.")] = None,
    groups: Annotated[
        bool, typer.Option("--groups", help="By queue, reason, type and exception.")
    ] = False,
    limit: Listed = 100,
    json: Json = False,
) -> None:
    """Messages that died, came back, reached nobody, or were put into an error queue."""
    asked: dict[str, Any] = {
        "vhost": vhost,
        "kind": kind,
        "queue": queue,
        "reason": reason,
        "type": type_,
    }
    asked |= {"exception": exception, "limit": limit, **asdict(period)}
    found = client.get("/itc_db/failures", **asked)
    if groups and not json:
        columns = ("COUNT", "KIND", "QUEUE", "REASON", "TYPE", "EXCEPTION", "BY", "LAST")
        table(columns, map(_group, found["groups"]))
    else:
        columns = ("EVENT", "MESSAGE", "KIND", "QUEUE", "REASON", "TYPE", "BY", "AT")
        listed(found, json, columns, _failure)
    if json:
        return
    if not found["complete"]:
        say(gaps_of(found))
    if not found["counted_all"]:
        say(f"{found['counted']} were counted; there may be older ones")


def _failure(one: dict[str, Any]) -> tuple[object, ...]:
    why = one["exception"] or one["reason"] or ""
    who = "" if one["by"] is None else one["by"]["name"]
    message = one["message"] or ("?" if one["candidate"] is None else f"{one['candidate']}?")
    at = (one["event"], message, one["kind"], one["queue"] or "")
    return (*at, why, one["type"], who, one["at"])


def _group(one: dict[str, Any]) -> tuple[object, ...]:
    why = (one["queue"] or "", one["reason"] or "", one["type"], one["exception"] or "")
    return (one["count"], one["kind"], *why, ", ".join(one["by"]), one["last_at"])


Row: TypeAlias = Callable[[dict[str, Any]], tuple[object, ...]]
Key = Annotated[
    str | None,
    typer.Option(
        help="Compare only messages that share this: message_id, correlation_id, routing_key, "
        "header.NAME or body.NAME."
    ),
]


def _order(name: str, meaning: str, columns: tuple[str, ...], row: Row) -> Command:
    def report(
        client: ServiceClient, period: TimeRange, vhost: Vhost, key: Key = None, json: Json = False
    ) -> None:
        found = made(client, f"/itc_db/reports/{name}", vhost=vhost, key=key, **asdict(period))
        if not json:
            counted = "" if found["counted_all"] else " at least"
            what = f"{counted} {found['count']} {found['report']}"
            say(f"{period_of(found)}:{what}, {gaps_of(found)}")
        listed(found, json, columns, row)

    return named(report, name, meaning)


def _race(one: dict[str, Any]) -> tuple[object, ...]:
    who = (one["a_by"]["name"], one["b_by"]["name"])
    return (one["queue"], one["key"] or "", one["a"], one["b"], *who, one["at"])


def _inversion(one: dict[str, Any]) -> tuple[object, ...]:
    handed = (one["handed_a"], one["handed_b"], ", ".join(one["participants"]))
    return (one["queue"], one["key"] or "", one["a"], one["b"], *handed, one["at"])


report = family(
    "report",
    "Where the order of messages matters.",
    races=_order(
        "races",
        "Messages in one queue that nothing puts into an order; by default of the last hour.",
        ("QUEUE", "KEY", "A", "B", "PUBLISHED BY", "AND BY", "AT"),
        _race,
    ),
    inversions=_order(
        "inversions",
        "Messages that led to others in a queue and were handed over after them.",
        ("QUEUE", "KEY", "A", "B", "HANDED A", "HANDED B", "TO", "AT"),
        _inversion,
    ),
)


_COUNTED = "/itc_db/topology"
_FLOW = (
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
        counted = followed(client, submit(client, _COUNTED, vhost=vhost, **asked))
        asked = {name: counted[name] for name in asked}
    found = client.get(_COUNTED, vhost=vhost, **asked)
    as_json(found) if json else show_topology(found)


def show_topology(found: dict[str, Any]) -> None:
    say(f"{period_of(found)}, {gaps_of(found)}")
    table(_FLOW, map(_flow, found["deliveries"]))
    if found["deaths"]:
        say("\nDead letters")
        table(_DEATHS, map(_death, found["deaths"]))
    if found["programs"]:
        say("\nIn programs, from a delivery to the publishes that name it")
        table(_PROGRAMS, map(_program, found["programs"]))


def _flow(flow: dict[str, Any]) -> tuple[object, ...]:
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
