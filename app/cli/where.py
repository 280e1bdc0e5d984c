"""``where``: was a message ever here, and what became of it."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.client import ServiceClient
from app.cli.exits import CommandError, Exit
from app.cli.options import Json, Requirements, TimeRange, say_caveats
from app.cli.output import as_json, complain, printable, say, table
from model.where import WhereWord

# A runbook branches on these; they are of this command alone.
EXITS = {
    WhereWord.settled: 0,
    WhereWord.never_published: 3,
    WhereWord.waiting: 4,
    WhereWord.died: 5,
    WhereWord.handed_over: 9,
    WhereWord.unknown: 9,
}
_ERRORS = {Exit.not_found: Exit.usage, Exit.not_authorised: Exit.failure}


def where(
    client: ServiceClient,
    period: TimeRange,
    requirements: Requirements,
    id_: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="A message id, a correlation id, a conversation's key, or a text."
        ),
    ],
    vhost: Annotated[str | None, typer.Option(help="In this virtual host.")] = None,
    by: Annotated[
        str | None,
        typer.Option(help="As this alone: message_id, correlation_id, conversation or text."),
    ] = None,
    json: Json = False,
) -> None:
    """Was a message ever here, and where is it now?

    Exits with 0 if it is settled, 4 if it waits, 5 if it died, 3 if it was never published, 9 if
    that is not known.
    """
    try:
        answer = client.get(
            "/itc_db/where", id=id_, vhost=vhost, by=by, since=period.since, until=period.until
        )
    except CommandError as error:  # here 4 and 5 say what became of a message
        raise CommandError(_ERRORS.get(error.code, error.code), str(error)) from error
    if json:
        as_json(answer)
    else:
        say(printable(answer["sentence"]))
        if len(answer["messages"]) > 1:
            rows = ((each["event"], each["word"], each["sentence"]) for each in answer["messages"])
            table(("EVENT", "WORD", "SENTENCE"), rows)
        say_caveats(answer, complain)
    requirements.check(answer)
    raise typer.Exit(EXITS[WhereWord(answer["word"])])
