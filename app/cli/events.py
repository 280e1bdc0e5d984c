"""``events``, ``compare``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any

import typer

from app.cli.client import Client, trace_path
from app.cli.exits import CommandError, Exit
from app.cli.options import Json, RequireComplete, RequireSound, Url, User
from app.cli.output import as_json, out, printable, say, table
from model.event import SHOWN
from model.sound import MOST_QUIET
from model.words import Match

# The fields that have a width in a terminal; what is longest comes last.
_LAST = "participant_name"
_FIELDS = sorted(
    (field for field in SHOWN.values() if field.shown.width), key=lambda field: field.name == _LAST
)
_WAIT_SECONDS = 20


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(events)
    app.command()(compare)


def events(
    vhost: Annotated[str | None, typer.Option(help="Of this virtual host.")] = None,
    type_: Annotated[str | None, typer.Option("--type", help="published or received.")] = None,
    exchange: Annotated[str | None, typer.Option(help="Through this exchange.")] = None,
    queue: Annotated[str | None, typer.Option(help="From or to this queue.")] = None,
    connection: Annotated[str | None, typer.Option(help="On this connection.")] = None,
    participant: Annotated[
        str | None,
        typer.Option(
            help="Of this participant: its number, or its name. A number is always taken for the "
            "participant's number."
        ),
    ] = None,
    broker_user: Annotated[
        str | None, typer.Option("--by", help="By this user of the broker.")
    ] = None,
    routing_key: Annotated[str | None, typer.Option(help="With this routing key.")] = None,
    match: Annotated[
        str | None, typer.Option(help=f"{', '.join(word.name for word in Match)}.")
    ] = None,
    since: Annotated[str | None, typer.Option(help="From this time on (ISO 8601).")] = None,
    until: Annotated[str | None, typer.Option(help="Before this time (ISO 8601).")] = None,
    q: Annotated[str | None, typer.Option("-q", help="With this text anywhere.")] = None,
    message_id: Annotated[str | None, typer.Option(help="With this message id.")] = None,
    correlation_id: Annotated[str | None, typer.Option(help="With this correlation id.")] = None,
    conversation: Annotated[
        str | None, typer.Option(help="Of this conversation: a trace id, or whatever it shares.")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="With this header; may be repeated."),
    ] = None,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, max=500, help="How many.")] = 50,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Keep following new ones.")
    ] = False,
    json: Json = False,
    url: Url = None,
    user: User = None,
) -> None:
    """The newest events, oldest first."""
    client = Client.from_environment(url, user)
    filters = {
        "vhost": vhost,
        "type": type_,
        "exchange": exchange,
        "queue": queue,
        "connection": connection,
        "participant" if (participant or "").isdigit() else "participant_name": participant,
        "user": broker_user,
        "routing_key": routing_key,
        "match": match,
        "since": since,
        "until": until,
        "q": q,
        "message_id": message_id,
        "correlation_id": correlation_id,
        "conversation": conversation,
        **headers_asked(header or []),
    }
    found = client.get("/itc_db", page_size=limit, payload=None if json else "none", **filters)
    if vhost is not None and not found:
        client.get(trace_path(vhost))  # or there is none, which is an error
    found.reverse()
    if json:
        for event in found:
            as_json(event)
    elif follow:
        _print_lines(found)
    else:
        show_events(found)
    if follow:
        for batch in _new_events(client, found[-1]["id"] if found else None, json, filters):
            for event in batch:
                as_json(event) if json else _print_lines([event])


def show_events(found: Iterable[dict[str, Any]]) -> None:
    """A table of events."""
    table([field.shown.label.upper() for field in _FIELDS], map(_row, found))


def headers_asked(asked: list[str]) -> dict[str, str]:
    """Headers as parameters of a query."""
    found = {}
    for each in asked:
        name, equals, value = each.partition("=")
        if not name or not equals:
            raise CommandError(Exit.usage, f"--header {each}: expected NAME=VALUE")
        if f"header.{name}" in found:
            raise CommandError(Exit.usage, f"--header {name} comes more than once")
        found[f"header.{name}"] = value
    return found


def _new_events(
    client: Client, last: int | None, json: bool, filters: dict[str, Any]
) -> Iterator[list[dict[str, Any]]]:
    """Long polling: each answer is what is new, or empty after a while."""
    if last is None:
        newest = client.get("/itc_db", page_size=1, columns="id")
        last = newest[0]["id"] if newest else 0
    payload = None if json else "none"
    while True:
        batch = client.get("/itc_db", after=last, wait=_WAIT_SECONDS, payload=payload, **filters)
        if batch:
            last = batch[-1]["id"]
            yield batch


# Cells that say more than the field's own value.
_CELLS: dict[str, Callable[[dict[str, Any]], str]] = {
    "exchange": lambda event: event["exchange"] or "(default)",
    "queue": lambda event: event["queue"] or ",".join(event["routed_queues"] or ()),
    "match": lambda event: event["match"] + (" (quiet)" if event["quiet"] else ""),
}


def _row(event: dict[str, Any]) -> list[str]:
    return [_cell(field.name, event) for field in _FIELDS]


def _cell(name: str, event: dict[str, Any]) -> str:
    if name in _CELLS:
        return _CELLS[name](event)
    value = event[name]
    if isinstance(value, list):
        return ",".join(value)
    return "" if value is None else str(value)


def _print_lines(events: list[dict[str, Any]]) -> None:
    """Rows with fixed columns: a table that never ends cannot be fitted to the window."""
    for event in events:
        cells = zip(_row(event), _FIELDS, strict=True)
        line = " ".join(printable(cell).ljust(field.shown.width) for cell, field in cells)
        out.print(line.rstrip(), markup=False, soft_wrap=True)


def compare(
    a: Annotated[int, typer.Argument(min=1, help="An event's id.")],
    b: Annotated[int, typer.Argument(min=1, help="Another's.")],
    require_complete: RequireComplete = False,
    require_sound: RequireSound = False,
    json: Json = False,
    url: Url = None,
    user: User = None,
) -> None:
    """How two events are related. Exits with 0 if one is before the other, 3 if concurrent."""
    answer = Client.from_environment(url, user).get(f"/itc_db/compare/{a}/{b}")
    if json:
        as_json(answer)
    else:
        say(printable(answer["sentence"]))
        for step in answer["path"] or ():
            say(f"  {step['cause']} -> {step['effect']}  {_by(step)}")
        say_caveats(answer)
    end_by_relation(answer, require_complete, require_sound)


def _by(step: dict[str, Any]) -> str:
    if step["how"] == "message":
        return "received"
    return printable(f"{step['kind']}, named by {step['rule']}")


def say_caveats(answer: dict[str, Any], say: Callable[[str], None] = say) -> None:
    """Why an answer is not complete or not sound, a line each, and what quiet it leaves out."""
    if not answer["complete"]:
        say("NOT COMPLETE: it spans a gap")
    for doubt in answer["doubts"]:
        say(f"NOT SOUND: {printable(doubt)}")
    if quiet := answer["quiet"]:
        least = "at least " if quiet == MOST_QUIET else ""
        say(f"quiet traffic in between, which is not followed: {least}{quiet} event(s)")


def end_by_relation(answer: dict[str, Any], require_complete: bool, require_sound: bool) -> None:
    """The exit code of an answer about two events."""
    end_by_certainty(answer, require_complete, require_sound)
    if answer["relation"] == "concurrent":
        raise typer.Exit(Exit.concurrent)


def end_by_certainty(answer: dict[str, Any], require_complete: bool, require_sound: bool) -> None:
    """The exit code of an answer that has to be complete, or sound."""
    if require_complete and not answer["complete"]:
        raise CommandError(
            Exit.incomplete,
            f"the answer spans {len(answer['gaps'])} gap(s): messages may be missing",
        )
    if require_sound and not answer["sound"]:
        raise CommandError(
            Exit.unsound,
            f"{len(answer['doubts'])} doubt(s): some participants may be parts of one program",
        )
