"""``period``: a period of a virtual host for other tools, as files or sent to a collector."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.chains import STDOUT, download
from app.cli.client import ServiceClient, segment
from app.cli.commands import family
from app.cli.exits import CommandError, Exit
from app.cli.following import finished
from app.cli.options import (
    FileName,
    Joined,
    Json,
    Output,
    Requirements,
    TimeRange,
    Vhost,
    Wait,
    say_caveats,
)
from app.cli.output import as_json, complain, listed, printable, say
from model.interchange import PERIOD_FORMATS, period_format_of
from model.words import number_of


class As(enum.StrEnum):
    """The form to write."""

    ocel = "ocel"
    otlp = "otlp"
    asyncapi = "asyncapi"


Target = Annotated[
    Path, typer.Argument(metavar="FILE", help="Where to save it; - for stdout, with --as.")
]
Form = Annotated[
    As | None, typer.Option("--as", help="What to write, where the file's name does not say.")
]


def period_path(vhost: str, file: str) -> str:
    return f"/itc_db/periods/{segment(vhost)}/{segment(file)}"


def export(
    client: ServiceClient,
    period: TimeRange,
    requirements: Requirements,
    vhost: Vhost,
    file: Target,
    form: Form = None,
    via: Joined = "links",
    wait: Wait = True,
    json: Json = False,
) -> None:
    """Write what began in a period for other tools, and save it; by default the last hour.

    As FILE ends: .ocel.json, .otlp.json (spans), .asyncapi.json, .asyncapi.yaml.
    """
    path = period_path(vhost, _name(file, form))
    summary = finished(client, path, wait, json, via=via, **asdict(period))
    if summary is None:
        return
    if file == STDOUT:
        _say(summary, complain)
    else:
        as_json(summary) if json else _say(summary, say)
    download(client, path, file)
    requirements.check(summary)


def send(
    client: ServiceClient,
    period: TimeRange,
    requirements: Requirements,
    vhost: Vhost,
    via: Joined = "links",
    wait: Wait = True,
    json: Json = False,
) -> None:
    """Send a period's spans to the collector that the service knows (ITC_OTLP_EXPORT_URL)."""
    summary = finished(client, "/itc_db/spans", wait, json, vhost=vhost, via=via, **asdict(period))
    if summary is None:
        return
    as_json(summary) if json else _say(summary, say)
    if summary["refused"]:
        reason = printable(f"{summary['refused']} spans were refused: {summary['refusal']}")
        raise CommandError(Exit.failure, reason)
    requirements.check(summary)


def periods(client: ServiceClient, json: Json = False) -> None:
    """Every file of a period that the service keeps."""
    columns = ("vhost", "file", "since", "until", "via", "events", "bytes")
    listed(client.get("/itc_db/periods"), json, columns)


def get(client: ServiceClient, vhost: Vhost, file: FileName, output: Output = None) -> None:
    """Download such a file."""
    download(client, period_path(vhost, file), output or Path(file))


def delete(client: ServiceClient, vhost: Vhost, file: FileName) -> None:
    """Remove such a file from the service."""
    client.send("DELETE", period_path(vhost, file))
    say(f"{file}: removed")


period = family(
    "period",
    "A period for other tools: an event log, spans, AsyncAPI.",
    export=export,
    send=send,
    list=periods,
    get=get,
    delete=delete,
)


def _name(file: Path, form: As | None) -> str:
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
    counts = [
        number_of(summary[name], name.removesuffix("s"))
        for name in _COUNTS
        if summary.get(name) is not None
    ]
    complete = ", complete" if summary["complete"] else ""
    say(f"{number_of(summary['events'], 'event')}, {', '.join(counts)}{complete}")
    if summary["file"]:
        say(f"{number_of(summary['bytes'], 'byte')} in {printable(summary['location'])}")
    if summary.get("cut"):
        say(f"CUT: of {summary['cut']} conversations only their first 10,000 events")
    if summary.get("left_out"):
        say(f"LEFT OUT: {summary['left_out']} events, because there are too many ways or types")
    say_caveats(summary, say)
