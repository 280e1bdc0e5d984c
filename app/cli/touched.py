"""``touched``: what came since some events, and what these had to do with it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.chains import download
from app.cli.client import ServiceClient, segment
from app.cli.events import show_events
from app.cli.exits import CommandError, Exit
from app.cli.following import followed, submit
from app.cli.options import Json, Listed, Output, Requirements, say_caveats
from app.cli.output import as_json, complain, printable, say
from model.answers import Verdict
from model.exports import MANIFEST, manifest_of
from model.words import number_of

Events = Annotated[list[int], typer.Argument(metavar="EVENT…", min=1, help="Events' ids.")]
Chosen = Annotated[
    Verdict | None,
    typer.Option("--verdict", help="List these: caused, may_have, cannot_have, unknown."),
]


def touched(
    client: ServiceClient,
    requirements: Requirements,
    events: Events,
    verdict: Chosen = None,
    limit: Listed = 100,
    to: Annotated[
        int | None, typer.Option(min=1, help="Only of what came up to this event.")
    ] = None,
    output: Output = None,
    json: Json = False,
) -> None:
    """List what came since some events: what they caused, may have, cannot have, or nobody knows.

    With -o (.jsonl or .parquet) all that came since one, with the evidence, and its manifest.
    """
    if output is not None:
        answer = _written(client, events, output)
    else:
        asked = {"verdict": None if verdict is None else verdict.value, "limit": limit}
        ids = ",".join(map(str, events))
        payload = None if json else "none"
        answer = client.get("/itc_db/touched", events=ids, payload=payload, to=to, **asked)
    if json:
        as_json(answer)
    else:
        say(printable(answer["sentence"]))
        _show_services(answer.get("services", ()))
        if answer.get("items"):
            show_events(answer["items"])
        say_caveats(answer)
        if answer.get("next"):
            complain("there are more: -n says how many to list, -o FILE writes them all")
    requirements.check(answer)


def _show_services(services: Sequence[dict[str, Any]]) -> None:
    """The services by what is known of them, what was touched first."""
    for verdict, those in groupby(services, key=itemgetter("verdict")):
        names = [each["name"] for each in those]
        said = number_of(len(names), "service")
        say(printable(f"{verdict.replace('_', ' ')}, {said}: {', '.join(names)}"))


def _written(client: ServiceClient, events: list[int], output: Path) -> dict[str, Any]:
    if len(events) != 1:
        raise CommandError(Exit.usage, "-o writes what one event touched: name one")
    path = f"/itc_db/touched/{events[0]}/{segment(output.name)}"
    summary = followed(client, submit(client, path))
    download(client, f"{path}{MANIFEST}", manifest_of(output))
    download(client, path, output)
    return summary
