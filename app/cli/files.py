"""``chain``, and files that the service writes: ``export`` of chains, ``period`` for others."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import httpx2
import typer

from app.cli.client import PAGE, ServiceClient, segment
from app.cli.commands import family
from app.cli.events import SHOWN_COLUMNS
from app.cli.exits import CommandError, Exit
from app.cli.following import run_job
from app.cli.options import (
    FileName,
    JoinVia,
    Json,
    Limit,
    Output,
    Requirements,
    TimeRange,
    Vhost,
    Wait,
    say_caveats,
)
from app.cli.output import as_json, columns, complain, printable, say, show_list, table
from model.exports import DEFAULT, FORMATS, format_of
from model.words import Via, number_of

FromId = Annotated[int, typer.Argument(metavar="FROM", min=1, help="One event's id.")]
ToId = Annotated[int, typer.Argument(metavar="TO", min=1, help="The other event's id.")]

STDOUT = Path("-")


def export_path(start: int, end: int, file: str) -> str:
    return f"/itc_db/undefined/{start}/{end}/{segment(file)}"


def chain(
    client: ServiceClient,
    requirements: Requirements,
    from_: FromId,
    to: ToId,
    file: Annotated[
        str | None,
        typer.Option(
            help="Name of the export (.jsonl, .csv, …); by default its extension is --output's."
        ),
    ] = None,
    via: Annotated[
        Via,
        typer.Option(
            help="Follow links (messages, and the causes they name), conversation (shared keys "
            "too), or any (all that may have had a part)."
        ),
    ] = Via.any,
    limit: Limit = 200,
    wait: Wait = True,
    output: Output = None,
    json: Json = False,
) -> None:
    """Show the chain between two events; with --file or -o, have the service export it.

    Exits with 0 if there is one, with 3 if there is none (nothing is written then), with 9 if there
    may be one that was not recorded.
    """
    if file is None and output is None and wait:
        answer = _at_once(client, from_, to, via, limit, json)
        requirements.check_relation(answer)
        if not answer["count"] and not answer["events"] and not answer["truncated"]:
            raise typer.Exit(Exit.concurrent)
        return
    path = export_path(from_, to, file or f"chain{_extension(output)}")
    via_parameter = None if via is Via.any else via.value
    summary = run_job(client, path, wait, json, via=via_parameter)
    if output == STDOUT:  # the file alone: whatever reads it expects nothing else
        _say_summary(summary, complain)
    else:
        as_json(summary) if json else _say_summary(summary, say)
    if output is not None and summary["file"]:
        download(client, path, output)
    requirements.check_relation(summary)
    if not summary["file"]:
        raise typer.Exit(Exit.concurrent)


def _at_once(
    client: ServiceClient, start: int, end: int, via: Via, limit: int, json: bool
) -> dict[str, Any]:
    parameters = {"via": via.value, "payload": None if json else "none"}
    path = f"/itc_db/chain/{start}/{end}"
    answer: dict[str, Any] = client.get(path, limit=min(limit, PAGE), **parameters)
    while answer["next"] is not None and (remaining := limit - len(answer["events"])) > 0:
        page = client.get(path, limit=min(remaining, PAGE), after=answer["next"], **parameters)
        page["events"] = answer["events"] + page["events"]
        page["steps"] = answer["steps"] + page["steps"]
        answer = page
    if json:
        as_json(answer)
        return answer
    say(printable(answer["sentence"]))
    if answer["events"]:
        if answer["count"] is not None:
            say(_counts_text(answer, answer["count"]))
        table(SHOWN_COLUMNS, answer["events"])
    elif answer["truncated"]:
        complain("it is too long to show: -o FILE writes it")
    say_caveats(answer)
    if answer["next"] is not None:
        complain("there are more: -n shows more of them, -o FILE writes them all")
    return answer


def _extension(output: Path | None) -> str:
    """The format's extension by this file's name; the default's if the name says nothing."""
    if output is None or not output.suffix:
        return FORMATS[DEFAULT].extension
    if (output_format := format_of(output.name.lower())) is None:
        extensions = ", ".join(chain_format.extension for chain_format in FORMATS.values())
        raise CommandError(
            Exit.usage, f"{output}: no format has this extension; the extensions are {extensions}"
        )
    return output_format.extension


def _say_summary(summary: dict[str, Any], say: Callable[[str], None]) -> None:
    """In lines that a window of 80 columns has room for."""
    is_concurrent = summary["relation"] == "concurrent"
    if is_concurrent and summary["answer"] != "unknown":
        say(f"events {summary['from']} and {summary['to']} are concurrent: no chain")
    elif is_concurrent or summary["via"] != Via.any:
        say(printable(summary["sentence"]))
    if summary["file"]:
        say(_counts_text(summary, summary["events"]))
        say(f"{number_of(summary['bytes'], 'byte')} in {summary['location']}")
    say_caveats(summary, say)


def exports(client: ServiceClient, json: Json = False) -> None:
    """List the exports."""
    headings = "FROM, TO, FILE, VHOST, EVENTS, BYTES, CREATED_AT"
    show_list(client.get("/itc_db/exports"), json, columns(headings))


def get(
    client: ServiceClient, from_: FromId, to: ToId, file: FileName, output: Output = None
) -> None:
    """Download an export."""
    download(client, export_path(from_, to, file), output or Path(file))


def delete(client: ServiceClient, from_: FromId, to: ToId, file: FileName) -> None:
    """Remove an export."""
    client.send("DELETE", export_path(from_, to, file))
    say(f"{file}: removed")


export = family(
    "export", "Manage the files that chains were written to.", list=exports, get=get, delete=delete
)


def download(client: ServiceClient, path: str, target: Path) -> None:
    """Save the content to a file, or write it to stdout."""
    with client.stream(path) as response:
        if target == STDOUT:
            return _write(response, sys.stdout.buffer)
        try:
            _save(response, target)
        except OSError as error:
            raise CommandError(Exit.failure, f"{target}: {error.strerror}") from error


def _save(response: httpx2.Response, target: Path) -> None:
    """Save under a temporary name and rename, so that nobody reads half a file."""
    if target.exists() and not target.is_file():
        with target.open("wb") as device:  # a pipe or a device, which a file must not replace
            return _write(response, device)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
    try:
        with temporary.open("xb") as file:
            _write(response, file)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _write(response: httpx2.Response, file: BinaryIO) -> None:
    for part in response.iter_bytes():
        file.write(part)


def _counts_text(answer: dict[str, Any], events: int) -> str:
    complete = ", complete" if answer["complete"] else ""
    participants = number_of(answer["participants"], "participant")
    return f"{number_of(events, 'event')} of {participants}{complete}"


Target = Annotated[Path, typer.Argument(metavar="FILE", help="Where to save it.")]


def export_period(
    client: ServiceClient,
    period: TimeRange,
    requirements: Requirements,
    vhost: Vhost,
    file: Target,
    via: JoinVia = "links",
    wait: Wait = True,
    json: Json = False,
) -> None:
    """Save what began in a period as a file for other tools; by default the last hour.

    FILE's extension is the format: .ocel.json, .otlp.json (spans), .asyncapi.json, .asyncapi.yaml.
    """
    if file == STDOUT:
        raise CommandError(Exit.usage, "name a file: its extension is the period's format")
    path = f"/itc_db/periods/{segment(vhost)}/{segment(file.name)}"
    summary = run_job(client, path, wait, json, via=via, **asdict(period))
    as_json(summary) if json else _say_period(summary)
    download(client, path, file)
    requirements.check(summary)


def send(
    client: ServiceClient,
    period: TimeRange,
    requirements: Requirements,
    vhost: Vhost,
    wait: Wait = True,
    json: Json = False,
) -> None:
    """Send a period's spans to the service's collector (ITC_OTLP_EXPORT_URL)."""
    summary = run_job(client, "/itc_db/spans", wait, json, vhost=vhost, **asdict(period))
    as_json(summary) if json else _say_period(summary)
    if summary["refused"]:
        reason = printable(f"{summary['refused']} spans were refused: {summary['refusal']}")
        raise CommandError(Exit.failure, reason)
    requirements.check(summary)


period = family(
    "period",
    "Export a period for other tools: as an event log, spans or AsyncAPI.",
    export=export_period,
    send=send,
)


_COUNTS = ("conversations", "spans", "channels", "operations", "messages")


def _say_period(summary: dict[str, Any]) -> None:
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
        say(f"CUT: {summary['cut']} conversations have only their first 10,000 events")
    if summary.get("left_out"):
        say(f"LEFT OUT: {summary['left_out']} events: there are too many paths or types")
    say_caveats(summary, say)
