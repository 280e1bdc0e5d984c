"""``causes``, ``effects``: what may have led to an event, and what it may have led to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from app.cli.client import Client
from app.cli.events import end_by_certainty, headers_asked, say_caveats, show_events
from app.cli.options import Json, RequireComplete, RequireSound, Url, User
from app.cli.output import as_json, complain

_PAGE = 500  # events in an answer, of which the next begins where the one before ended

EventId = Annotated[int, typer.Argument(metavar="EVENT", min=1, help="The event's id.")]
Via = Annotated[
    str,
    typer.Option(
        help="What leads from one event to the next: links (messages, and what they name as their "
        "cause), conversation (these, and conversations) or any."
    ),
]
Limit = Annotated[int, typer.Option("-n", "--limit", min=1, help="How many, the nearest first.")]
Type = Annotated[str | None, typer.Option("--type", help="published or received.")]
Exchange = Annotated[str | None, typer.Option(help="Through this exchange.")]
Queue = Annotated[str | None, typer.Option(help="Received from this queue.")]
Participant = Annotated[
    str | None, typer.Option(help="Of this participant: its number, or its name.")
]
Since = Annotated[str | None, typer.Option(help="From this time on (ISO 8601).")]
Until = Annotated[str | None, typer.Option(help="Before this time (ISO 8601).")]
Text = Annotated[str | None, typer.Option("-q", help="With this text anywhere.")]
Headers = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="NAME=VALUE", help="With this header; may be repeated."),
]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(
        "causes",
        help="What happened before an event, and may have led to it; the nearest first.",
    )(_walking("causes", "before"))
    app.command(
        "effects",
        help="What happened after an event, and it may have led to; the nearest first.",
    )(_walking("effects", "after"))


def _walking(where: str, cursor: str) -> Callable[..., None]:
    """The command that walks one way from an event; ``cursor`` says where a page begins."""

    def command(
        event: EventId,
        via: Via = "any",
        limit: Limit = 100,
        type_: Type = None,
        exchange: Exchange = None,
        queue: Queue = None,
        participant: Participant = None,
        since: Since = None,
        until: Until = None,
        q: Text = None,
        header: Headers = None,
        require_complete: RequireComplete = False,
        require_sound: RequireSound = False,
        json: Json = False,
        url: Url = None,
        user: User = None,
    ) -> None:
        client = Client.from_environment(url, user)
        asked = _asked(via, type_, exchange, queue, participant, since, until, q, header)
        path = f"/itc_db/events/{event}/{where}"
        answers = _answers(client, path, cursor, limit, asked, json)
        _show(answers, require_complete, require_sound, json)

    return command


def _asked(
    via: str,
    type_: str | None,
    exchange: str | None,
    queue: str | None,
    participant: str | None,
    since: str | None,
    until: str | None,
    q: str | None,
    header: list[str] | None,
) -> dict[str, Any]:
    who = "participant" if (participant or "").isdigit() else "participant_name"
    return {
        "via": via,
        "type": type_,
        "exchange": exchange,
        "queue": queue,
        who: participant,
        "since": since,
        "until": until,
        "q": q,
        **headers_asked(header or []),
    }


def _answers(
    client: Client, path: str, cursor: str, limit: int, asked: dict[str, Any], json: bool
) -> Iterator[dict[str, Any]]:
    """One answer after the other, until there are as many events as were asked for."""
    payload, beyond = None if json else "none", None
    while True:
        page = {"limit": min(limit, _PAGE), "payload": payload, cursor: beyond}
        answer = client.get(path, **page, **asked)
        yield answer
        limit -= len(answer["items"])
        beyond = answer["next"]
        if beyond is None or limit <= 0:
            return


def _show(
    answers: Iterator[dict[str, Any]], require_complete: bool, require_sound: bool, json: bool
) -> None:
    events, answer = [], {}
    for answer in answers:
        if json:
            for event in answer["items"]:
                as_json(event)
        else:
            events += answer["items"]
    if not json:
        show_events(events)
    say_caveats(answer, complain)
    if answer["next"] is not None:
        complain("there are more: -n says how many to show")
    end_by_certainty(answer, require_complete, require_sound)
