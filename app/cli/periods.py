"""``period``: a period of a virtual host for other tools, as files or sent to a collector."""

from __future__ import annotations

import enum
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.chains import STDOUT, Output, download
from app.cli.client import Client, segment
from app.cli.events import end_by_certainty, say_caveats
from app.cli.exits import CommandError, Exit
from app.cli.following import followed, say_job, submit
from app.cli.options import Json, RequireComplete, RequireSound, Url, User, Vhost, Wait
from app.cli.output import as_json, complain, printable, say, table
from model.interchange import PERIOD_FORMATS, period_format_of

period = typer.Typer(
    help="A period for other tools: an event log, spans, AsyncAPI.", no_args_is_help=True
)


class As(enum.StrEnum):
    """What to write."""

    ocel = "ocel"
    otlp = "otlp"
    asyncapi = "asyncapi"


class Along(enum.StrEnum):
    """What belongs together."""

    links = "links"
    conversation = "conversation"


Target = Annotated[
    Path, typer.Argument(metavar="FILE", help="Where to save it; - for stdout, with --as.")
]
Form = Annotated[
    As | None, typer.Option("--as", help="What to write, where the file's name does not say.")
]
Since = Annotated[str | None, typer.Option(help="What began from this time on (ISO 8601).")]
Until = Annotated[str | None, typer.Option(help="What began before this time (ISO 8601).")]
Via = Annotated[Along, typer.Option(help="By messages and links, or by shared keys too.")]
Name = Annotated[str, typer.Argument(metavar="FILE", help="Its name.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(period, name="period")


def period_path(vhost: str, file: str) -> str:
    """Where a period's file is."""
    return f"/itc_db/periods/{segment(vhost)}/{segment(file)}"


@period.command()
def export(
    vhost: Vhost,
    file: Target,
    form: Form = None,
    since: Since = None,
    until: Until = None,
    via: Via = Along.links,
    wait: Wait = True,
    require_complete: RequireComplete = False,
    require_sound: RequireSound = False,
    json: Json = False,
    url: Url = None,
    user: User = None,
) -> None:
    """Write what began in a period for other tools, and save it; by default the last hour.

    As FILE ends: .ocel.json, .otlp.json (spans), .asyncapi.json, .asyncapi.yaml.
    """
    client = Client.from_environment(url, user)
    path = period_path(vhost, _name(file, form))
    job = submit(client, path, since=since, until=until, via=via.value)
    if not wait:
        return say_job(job, json)
    summary = followed(client, job)
    if file == STDOUT:
        _say(summary, complain)
    else:
        as_json(summary) if json else _say(summary, say)
    download(client, path, file)
    return end_by_certainty(summary, require_complete, require_sound)


@period.command()
def send(
    vhost: Vhost,
    since: Since = None,
    until: Until = None,
    via: Via = Along.links,
    wait: Wait = True,
    require_complete: RequireComplete = False,
    require_sound: RequireSound = False,
    json: Json = False,
    url: Url = None,
    user: User = None,
) -> None:
    """Send a period's spans to the collector that the service knows (ITC_OTLP_EXPORT_URL)."""
    client = Client.from_environment(url, user)
    asked: dict[str, Any] = {"vhost": vhost, "since": since, "until": until, "via": via.value}
    job = submit(client, "/itc_db/spans", **asked)
    if not wait:
        return say_job(job, json)
    summary = followed(client, job)
    as_json(summary) if json else _say(summary, say)
    if summary["refused"]:
        reason = printable(f"{summary['refused']} spans were refused: {summary['refusal']}")
        raise CommandError(Exit.failure, reason)
    return end_by_certainty(summary, require_complete, require_sound)


@period.command("list")
def list_(url: Url = None, user: User = None, json: Json = False) -> None:
    """Every file of a period that the service keeps."""
    found = Client.from_environment(url, user).get("/itc_db/periods")
    if json:
        return as_json(found)
    keys = ("vhost", "file", "since", "until", "via", "events", "bytes")
    return table([key.upper() for key in keys], (tuple(one[key] for key in keys) for one in found))


@period.command()
def get(
    vhost: Vhost, file: Name, output: Output = None, url: Url = None, user: User = None
) -> None:
    """Download such a file."""
    download(Client.from_environment(url, user), period_path(vhost, file), output or Path(file))


@period.command()
def delete(vhost: Vhost, file: Name, url: Url = None, user: User = None) -> None:
    """Remove such a file from the service."""
    Client.from_environment(url, user).send("DELETE", period_path(vhost, file))
    say(f"{file}: removed")


def _name(file: Path, form: As | None) -> str:
    """What the file is called at the service."""
    found = period_format_of(file.name)
    if form is None and found is not None:
        return file.name
    if form is None:
        known = ", ".join(each.extension for each in PERIOD_FORMATS.values())
        reason = "say with --as what to write, or end the file's name in one of"
        raise CommandError(Exit.usage, f"{file}: {reason} {known}")
    if found is not None and found.name.startswith(form.value):
        return file.name
    stem = "period" if file == STDOUT else file.stem or "period"
    is_yaml = form is As.asyncapi and file.suffix in (".yaml", ".yml")
    return f"{stem}.{form.value}.{'yaml' if is_yaml else 'json'}"


_COUNTS = ("conversations", "spans", "channels", "operations", "messages")


def _say(summary: dict[str, Any], say: Callable[[str], None]) -> None:
    counts = [f"{summary[name]} {name}" for name in _COUNTS if summary.get(name) is not None]
    complete = ", complete" if summary["complete"] else ""
    say(f"{summary['events']} events, {', '.join(counts)}{complete}")
    if summary["file"]:
        say(f"{summary['bytes']} bytes in {printable(summary['location'])}")
    if summary.get("cut"):
        say(f"CUT: of {summary['cut']} conversations only their first 10,000 events")
    if summary.get("left_out"):
        say(f"LEFT OUT: {summary['left_out']} events, because there are too many ways or types")
    say_caveats(summary, say)
