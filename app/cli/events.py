"""``events``, ``deliveries``, ``compare``, ``causes``, ``effects``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

import typer

from app.cli.client import PAGE, ServiceClient, trace_path
from app.cli.commands import Command
from app.cli.options import (
    AnyVhost,
    EventId,
    Filters,
    Json,
    Limit,
    MessageFilters,
    Requirements,
    WalkVia,
    say_caveats,
)
from app.cli.output import as_json, complain, console, printable, say, show_list, table
from model.event import EVENT_FIELDS
from model.words import Disposition, Match

Exchange = Annotated[str | None, typer.Option(help="Through this exchange.")]
Received = Annotated[str | None, typer.Option("--queue", help="Received from this queue.")]

# The fields that have a width in a terminal; the longest come last.
_LAST = "participant_name"
_FIELDS = sorted(
    (field for field in EVENT_FIELDS.values() if field.display.width),
    key=lambda field: field.name == _LAST,
)
_WAIT_SECONDS = 20


def events(
    client: ServiceClient,
    filters: Filters,
    messages: MessageFilters,
    vhost: AnyVhost = None,
    exchange: Exchange = None,
    queue: Annotated[str | None, typer.Option(help="From or to this queue.")] = None,
    connection: Annotated[str | None, typer.Option(help="On this connection.")] = None,
    by: Annotated[str | None, typer.Option(help="By this user of the broker.")] = None,
    routing_key: Annotated[str | None, typer.Option(help="With this routing key.")] = None,
    match: Annotated[
        str | None, typer.Option(help=f"{', '.join(word.name for word in Match)}.")
    ] = None,
    settlement: Annotated[
        str | None, typer.Option(help=f"{', '.join(word.name for word in Disposition)}.")
    ] = None,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, max=500, help="How many.")] = 50,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Keep showing new ones.")] = False,
    json: Json = False,
) -> None:
    """Show the newest events, oldest first."""
    parameters: dict[str, Any] = {
        "vhost": vhost,
        "exchange": exchange,
        "queue": queue,
        "connection": connection,
        "user": by,
        "routing_key": routing_key,
        "match": match,
        "settlement": settlement,
        "payload": None if json else "none",
        **asdict(messages),
        **filters.parameters(),
    }
    rows = client.get("/itc_db", page_size=limit, **parameters)
    if vhost is not None and not rows:
        client.get(trace_path(vhost))  # or there is none, which is an error
    rows.reverse()
    if follow and not json:
        _print_lines(rows)
    else:
        show_list(rows, json, SHOWN_COLUMNS, limit=limit)
    if follow:
        for batch in _new_events(client, rows[-1]["id"] if rows else None, parameters):
            show_list(batch, json, SHOWN_COLUMNS) if json else _print_lines(batch)


def _new_events(
    client: ServiceClient, last: int | None, parameters: dict[str, Any]
) -> Iterator[list[dict[str, Any]]]:
    """Long polling: each answer has the new events, or is empty after a while."""
    if last is None:
        newest = client.get("/itc_db", page_size=1, columns="id")
        last = newest[0]["id"] if newest else 0
    while True:
        batch = client.get("/itc_db", after=last, wait=_WAIT_SECONDS, **parameters)
        if batch:
            last = batch[-1]["id"]
            yield batch


# Cells that say more than the field's own value.
_CELLS: dict[str, Callable[[dict[str, Any]], str]] = {
    "exchange": lambda event: event["exchange"] or "(default)",
    "queue": lambda event: event["queue"] or ",".join(event["routed_queues"] or ()),
    "match": lambda event: event["match"] + (" (quiet)" if event["quiet"] else ""),
}


def _cell(name: str, event: dict[str, Any]) -> str:
    if name in _CELLS:
        return _CELLS[name](event)
    value = event[name]
    if isinstance(value, list):
        return ",".join(value)
    return "" if value is None else str(value)


SHOWN_COLUMNS = {field.display.label.upper(): partial(_cell, field.name) for field in _FIELDS}


def _print_lines(events: list[dict[str, Any]]) -> None:
    """Rows with fixed columns: a table that never ends cannot be fitted to the window."""
    for event in events:
        cells = (
            printable(_cell(field.name, event)).ljust(field.display.width) for field in _FIELDS
        )
        console.print(" ".join(cells).rstrip(), markup=False, soft_wrap=True)


def deliveries(client: ServiceClient, event: EventId, json: Json = False) -> None:
    """Show what became of a publish in each queue, and who handled, rejected or holds it."""
    answer = client.get(f"/itc_db/events/{event}/deliveries", payload=None if json else "none")
    rows = [
        (queue["queue"], queue["state"], delivery)
        for queue in answer["queues"]
        for delivery in queue["deliveries"] + queue["dead_letters"] or [dict.fromkeys(_OF_DELIVERY)]
    ]
    columns = ("QUEUE", "STATE", *(EVENT_FIELDS[name].label.upper() for name in _OF_DELIVERY))
    if json:
        as_json(answer)
    else:
        say(printable(answer["sentence"]))
        table(
            columns,
            (
                (*queue_cells, *(_cell(n, delivery) for n in _OF_DELIVERY))
                for *queue_cells, delivery in rows
            ),
        )


_OF_DELIVERY = ("id", "recorded_at", "settlement", "settled_at", "participant_name")


def compare(
    client: ServiceClient,
    requirements: Requirements,
    a: Annotated[int, typer.Argument(min=1, help="An event's id.")],
    b: Annotated[int, typer.Argument(min=1, help="Another event's id.")],
    json: Json = False,
) -> None:
    """Compare two events. Exits with 0 if ordered, 3 if concurrent, 9 if unknown."""
    answer = client.get(f"/itc_db/compare/{a}/{b}")
    if json:
        as_json(answer)
    else:
        say(printable(answer["sentence"]))
        for step in answer["path"] or ():
            say(f"  {step['cause']} -> {step['effect']}  {step_text(step)}")
        say_caveats(answer)
    requirements.check_relation(answer)


def step_text(step: dict[str, Any]) -> str:
    if step["how"] == "link":
        return printable(f"{step['kind']}, named by {step['rule']}")
    return "received" if step["how"] == "message" else printable(step["how"])


def _walk(name: str, cursor: str, summary: str) -> Command:
    def walk(
        client: ServiceClient,
        filters: Filters,
        requirements: Requirements,
        event: EventId,
        via: WalkVia = "any",
        limit: Limit = 100,
        exchange: Exchange = None,
        queue: Received = None,
        json: Json = False,
    ) -> None:
        parameters = {"via": via, "exchange": exchange, "queue": queue, **filters.parameters()}
        path, payload = f"/itc_db/events/{event}/{name}", None if json else "none"
        answer = client.pages(path, cursor, limit, PAGE, payload=payload, **parameters)
        show_list(answer, json, SHOWN_COLUMNS)
        say_caveats(answer, complain)
        if answer["next"] is not None:
            complain("there are more: -n says how many to show")
        requirements.check(answer)

    walk.__name__, walk.__doc__ = name, summary
    return walk


causes = _walk(
    "causes", "before", "List what happened before an event and may have led to it, nearest first."
)
effects = _walk(
    "effects", "after", "List what happened after an event and may have come of it, nearest first."
)
