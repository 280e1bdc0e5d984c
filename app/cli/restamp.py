"""``restamp``: other rules of who acts, for the events that are stored."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.client import Client
from app.cli.following import followed, say_job, submit
from app.cli.options import Json, Quiet, Url, User, Vhost, Wait, rules
from app.cli.output import as_json, printable, say


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(restamp)


def restamp(
    vhost: Vhost,
    participant: Annotated[
        str | None,
        typer.Option(
            help="Who counts as a participant: client, host, user, connection or channel; as "
            "it is if left out."
        ),
    ] = None,
    quiet: Quiet = None,
    links: Annotated[
        bool,
        typer.Option(
            "--links", help="Read the messages again, too, by the rules of links that hold now."
        ),
    ] = False,
    wait: Wait = True,
    json: Json = False,
    url: Url = None,
    user: User = None,
) -> None:
    """Stamp the stored events of a virtual host anew, by other rules or by those it has.

    The trace goes on, and pauses at the end. Events keep their ids and causes, and their links
    unless the messages are read again.
    """
    client = Client.from_environment(url, user)
    wish = rules(participant, quiet)
    if links:
        wish = {**(wish or {}), "links": True}
    job = submit(client, "/itc_db/restamp", wish, vhost=vhost)
    if not wait:
        return say_job(job, json)
    summary = followed(client, job)
    if json:
        return as_json(summary)
    assumed = f", {summary['assumed']} of them assumed" if summary["assumed"] else ""
    say(
        f"{printable(vhost)}: {summary['events']} events restamped, with"
        f" {summary['participants']} participants by {summary['participant']}{assumed}"
    )
    if summary["edges"] is not None:
        say(f"  {summary['edges']} links")
    if summary["cut"]:
        say(
            f"  {summary['cut']} messages are not stored whole (ITC_PAYLOAD_MAX_BYTES): rules that"
            " look into bodies did not read them"
        )
    return None
