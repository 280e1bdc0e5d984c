"""Reports of what was traced: ``failures``, ``report`` on order, ``topology``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from app.cli.client import ServiceClient
from app.cli.commands import Command, family, named
from app.cli.following import followed, submit
from app.cli.following import report as made
from app.cli.options import Json, Listed, TimeRange, Vhost
from app.cli.output import as_json, columns, gaps_of, listed, period_of, say, table


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
        table(_GROUPS, found["groups"])
    else:
        listed(found, json, _FAILURES)
    if json:
        return
    if not found["complete"]:
        say(gaps_of(found))
    if not found["counted_all"]:
        say(f"{found['counted']} were counted; there may be older ones")


_GROUPS = columns("COUNT, KIND, QUEUE, REASON, TYPE, EXCEPTION, BY, LAST: last_at")
_FAILURES = columns(
    "EVENT, MESSAGE, KIND, QUEUE, REASON, TYPE, BY: by.name, AT",
    MESSAGE=lambda one: one["message"] or f"{one['candidate'] or ''}?",
    REASON=lambda one: one["exception"] or one["reason"],
)
Key = Annotated[
    str | None,
    typer.Option(
        help="Compare only messages that share this: message_id, correlation_id, routing_key, "
        "header.NAME or body.NAME."
    ),
]


def _order(name: str, meaning: str, said: str) -> Command:
    def report(
        client: ServiceClient, period: TimeRange, vhost: Vhost, key: Key = None, json: Json = False
    ) -> None:
        found = made(client, f"/itc_db/reports/{name}", vhost=vhost, key=key, **asdict(period))
        if not json:
            counted = "" if found["counted_all"] else " at least"
            what = f"{counted} {found['count']} {found['report']}"
            say(f"{period_of(found)}:{what}, {gaps_of(found)}")
        listed(found, json, columns(said))

    return named(report, name, meaning)


report = family(
    "report",
    "Where the order of messages matters.",
    races=_order(
        "races",
        "Messages in one queue that nothing puts into an order; by default of the last hour.",
        "QUEUE, KEY, A, B, PUBLISHED BY: a_by.name, AND BY: b_by.name, AT",
    ),
    inversions=_order(
        "inversions",
        "Messages that led to others in a queue and were handed over after them.",
        "QUEUE, KEY, A, B, HANDED A, HANDED B, TO: participants, AT",
    ),
)


_COUNTED = "/itc_db/topology"
_EXCHANGE = "EXCHANGE: exchange or (default)"
_SECONDS = "P50 S: seconds.p50 .3f, P95 S: seconds.p95 .3f, P99 S: seconds.p99 .3f"
_FLOWS = columns(
    f"PUBLISHER: publisher or ?, {_EXCHANGE}, QUEUE, RECEIVER, MESSAGES, REDELIVERED, "
    f"DEAD LETTERS: dead_lettered, UNMATCHED, {_SECONDS}"
)
_DEATHS = columns(f"QUEUE: queue or ?, REASON: reason or ?, {_EXCHANGE}, TO, MESSAGES")
_PROGRAMS = columns(f"RECEIVER, QUEUE, {_EXCHANGE}, MESSAGES, {_SECONDS}")


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
    table(_FLOWS, found["deliveries"])
    if found["deaths"]:
        say("\nDead letters")
        table(_DEATHS, found["deaths"])
    if found["programs"]:
        say("\nIn programs, from a delivery to the publishes that name it")
        table(_PROGRAMS, found["programs"])
