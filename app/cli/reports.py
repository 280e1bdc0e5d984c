"""``failures`` and ``report``: what failed, and where order matters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from app.cli.client import Client
from app.cli.following import followed, submit
from app.cli.options import Json, Url, User, Vhost
from app.cli.output import as_json, printable, say, table

_FAILURES = "/itc_db/failures"
_REPORTS = "/itc_db/reports"

Since = Annotated[str | None, typer.Option(help="From this time on (ISO 8601).")]
Until = Annotated[str | None, typer.Option(help="Before this time (ISO 8601).")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(failures)
    report = typer.Typer(no_args_is_help=True, help="Where the order of messages matters.")
    report.command("races")(races)
    report.command("inversions")(inversions)
    app.add_typer(report, name="report")


def failures(
    vhost: Vhost,
    since: Since = None,
    until: Until = None,
    kind: Annotated[
        str | None, typer.Option(help="died, error_queue, unroutable or came_back.")
    ] = None,
    queue: Annotated[str | None, typer.Option(help="Failed in this queue.")] = None,
    reason: Annotated[str | None, typer.Option(help="Died for this reason.")] = None,
    type_: Annotated[str | None, typer.Option("--type", help="Messages of this type.")] = None,
    exception: Annotated[str | None, typer.Option(help="With this exception, or type.")] = None,
    groups: Annotated[
        bool, typer.Option("--groups", help="By queue, reason, type and exception.")
    ] = False,
    limit: Annotated[
        int, typer.Option("-n", "--limit", min=1, max=1_000, help="How many, the newest.")
    ] = 100,
    json: Json = False,
    url: Url = None,
    user: User = None,
) -> None:
    """Messages that died, came back, reached nobody, or were put into an error queue."""
    client = Client.from_environment(url, user)
    found = client.get(
        _FAILURES,
        vhost=vhost,
        since=since,
        until=until,
        kind=kind,
        queue=queue,
        reason=reason,
        type=type_,
        exception=exception,
        limit=limit,
    )
    if json:
        return as_json(found)
    if groups:
        columns = ("COUNT", "KIND", "QUEUE", "REASON", "TYPE", "EXCEPTION", "BY", "LAST")
        table(columns, map(_group, found["groups"]))
    else:
        columns = ("EVENT", "MESSAGE", "KIND", "QUEUE", "REASON", "TYPE", "BY", "AT")
        table(columns, map(_failure, found["items"]))
    if not found["complete"]:
        say("INCOMPLETE: it spans a gap")
    if not found["counted_all"]:
        say(f"{found['counted']} were counted; there may be older ones")
    return None


def _failure(one: dict[str, Any]) -> tuple[object, ...]:
    why = one["exception"] or one["reason"] or ""
    who = "" if one["by"] is None else one["by"]["name"]
    at = (one["event"], one["message"] or "?", one["kind"], one["queue"] or "")
    return (*at, why, one["type"], who, one["at"])


def _group(one: dict[str, Any]) -> tuple[object, ...]:
    why = (one["queue"] or "", one["reason"] or "", one["type"], one["exception"] or "")
    return (one["count"], one["kind"], *why, ", ".join(one["by"]), one["last_at"])


Key = Annotated[
    str | None,
    typer.Option(
        help="Compare only messages that share this: message_id, correlation_id, routing_key, "
        "header.NAME or body.NAME."
    ),
]


def races(
    vhost: Vhost,
    since: Since = None,
    until: Until = None,
    key: Key = None,
    json: Json = False,
    url: Url = None,
    user: User = None,
) -> None:
    """Messages in one queue that nothing puts into an order; by default of the last hour."""
    asked: dict[str, Any] = {"vhost": vhost, "since": since, "until": until, "key": key}
    columns = ("QUEUE", "KEY", "A", "B", "PUBLISHED BY", "AND BY", "AT")
    _report(Client.from_environment(url, user), "races", asked, columns, _race, json)


def inversions(
    vhost: Vhost,
    since: Since = None,
    until: Until = None,
    key: Key = None,
    json: Json = False,
    url: Url = None,
    user: User = None,
) -> None:
    """Messages that led to others in a queue and were handed over after them."""
    asked: dict[str, Any] = {"vhost": vhost, "since": since, "until": until, "key": key}
    columns = ("QUEUE", "KEY", "A", "B", "HANDED A", "HANDED B", "TO", "AT")
    _report(Client.from_environment(url, user), "inversions", asked, columns, _inversion, json)


def _report(
    client: Client,
    name: str,
    asked: dict[str, Any],
    columns: tuple[str, ...],
    row: Callable[[dict[str, Any]], tuple[object, ...]],
    json: bool,
) -> None:
    facts = followed(client, submit(client, f"{_REPORTS}/{name}", **asked))
    found = client.get(f"{_REPORTS}/{facts['id']}")
    if json:
        return as_json(found)
    counted = "" if found["counted_all"] else " at least"
    gaps = "complete" if found["complete"] else "INCOMPLETE: it spans a gap"
    period = f"from {found['since']} to {found['until']}"
    say(f"{printable(found['vhost'])} {period}:{counted} {found['count']} {name}, {gaps}")
    table(columns, map(row, found["items"]))
    return None


def _race(one: dict[str, Any]) -> tuple[object, ...]:
    who = (one["a_by"]["name"], one["b_by"]["name"])
    return (one["queue"], one["key"] or "", one["a"], one["b"], *who, one["at"])


def _inversion(one: dict[str, Any]) -> tuple[object, ...]:
    handed = (one["handed_a"], one["handed_b"], ", ".join(one["participants"]))
    return (one["queue"], one["key"] or "", one["a"], one["b"], *handed, one["at"])
