"""``assert``, for CI; ``assertions``, which are held as events come; ``violations``."""

from __future__ import annotations

import re
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated, Any
from xml.etree import ElementTree

import typer

from app.cli.client import ServiceClient, segment
from app.cli.commands import family, remover
from app.cli.conversations import tree
from app.cli.exits import CommandError, Exit
from app.cli.following import report
from app.cli.options import (
    AnyVhost,
    Input,
    JoinVia,
    Json,
    PageLimit,
    TimeRange,
    Vhost,
    content_of,
)
from app.cli.output import as_json, columns, complain, period_of, printable, say, show_list
from model.words import number_of

_PATH = "/itc_db/assertions"
# The newest cases of each assertion are printed.
_CASES = 5
# Events to walk to, and lines to print, of the newest counter-example's conversation.
_WALKED, _LINES = 1_000, 30
_INDENT = " " * 10
_NOT_XML = re.compile("[^\t\n -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_EXITS = {"holds": Exit.ok, "violated": Exit.failure, "unknown": Exit.undecided}


def assert_(
    client: ServiceClient,
    period: TimeRange,
    vhost: Vhost,
    file: Input,
    via: JoinVia = "links",
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the results as JUnit XML, too.")
    ] = None,
    json: Json = False,
) -> None:
    """Say whether assertions held; by default over the last day.

    Exits with 0 if all hold, 1 if one is violated, 9 if none is violated but one is unknown.
    """
    parameters = {"vhost": vhost, "via": via, **asdict(period)}
    results = report(client, "/itc_db/reports/assertions", content=content_of(file), **parameters)
    if junit is not None:
        try:
            junit.write_bytes(junit_of(results, Path(file).name))
        except OSError as error:
            raise CommandError(Exit.failure, f"{junit}: {error.strerror}") from None
    as_json(results) if json else _show(client, results, via)
    raise typer.Exit(_EXITS[results["verdict"]])


def _show(client: ServiceClient, report_answer: dict[str, Any], via: str) -> None:
    say(f"{period_of(report_answer)}: {report_answer['verdict']}")
    for result in report_answer["results"]:
        name = printable(result["assertion"]["name"])
        counts = ", ".join(f"{result[word]} {word}" for word in ("holds", "violated", "unknown"))
        reason = "" if result["why"] is None else f" ({result['why']})"
        say(f"{result['verdict'].upper():9} {name}: {counts}{reason}")
        for case in result["items"][:_CASES]:
            say(f"{_INDENT}event {case['event']}: {printable(case['sentence'])}")
        violated = [case for case in result["items"] if case["verdict"] == "violated"]
        if violated:
            _show_conversation(client, violated[0]["event"], via)


def _show_conversation(client: ServiceClient, event: int, via: str) -> None:
    """The conversation of a counter-example; its events may be gone, or archived, by now."""
    say(f"{_INDENT}see it: rabbitmq-itc conversation {event} --via {via}")
    try:
        answer = client.get(f"/itc_db/conversations/{event}", via=via, limit=_WALKED)
    except CommandError as error:
        complain(f"the conversation of event {event} cannot be shown: {error}")
        return
    for line in islice(tree(answer), _LINES):
        say(f"{_INDENT}{line}")


def junit_of(report: dict[str, Any], name: str) -> bytes:
    """The results as JUnit XML: a violated assertion is a failure, an unknown one is skipped."""
    outcomes = report["results"]
    suite = ElementTree.Element(
        "testsuite",
        name=_xml_text(f"{name} on {report['vhost']}"),
        tests=str(len(outcomes)),
        failures=str(report["violated"]),
        skipped=str(report["unknown"]),
        errors="0",
        timestamp=report["made_at"],
    )
    for result in outcomes:
        case = ElementTree.SubElement(
            suite, "testcase", name=result["assertion"]["name"], classname="rabbitmq-itc"
        )
        lines = [f"event {item['event']}: {item['sentence']}" for item in result["items"]]
        if result["why"]:
            lines.insert(0, result["why"])
        if result["verdict"] != "holds":
            tag = "failure" if result["verdict"] == "violated" else "skipped"
            message = f"{result['violated']} violated, {result['unknown']} unknown"
            outcome = ElementTree.SubElement(case, tag, message=message)
            outcome.text = _xml_text("\n".join(lines))
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    xml: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return xml


def _xml_text(text: str) -> str:
    """Text without the characters that XML cannot hold: message types may have any."""
    return _NOT_XML.sub("\ufffd", text)


def show_assertions(client: ServiceClient, vhost: AnyVhost = None, json: Json = False) -> None:
    """List assertions, and for how many events each held, did not, or is unknown."""
    headings = "VHOST, ASSERTION: name, HELD, VIOLATED, UNKNOWN, WAITING, SAYS"
    show_list(client.get(_PATH, vhost=vhost), json, columns(headings, SAYS=_says))


def _says(row: dict[str, Any]) -> str:
    says = ", ".join(f"{key} {value}" for key, value in row["assertion"].items() if key != "name")
    return f"{says} (not watched: {row['unwatched']})" if row["unwatched"] else says


def set_assertions(client: ServiceClient, vhost: Vhost, file: Input) -> None:
    """Watch a virtual host by the assertions of a file from now on, and by no others."""
    client.send("PUT", f"{_PATH}/{segment(vhost)}", content=content_of(file))
    assertions = client.get(_PATH, vhost=vhost)
    say(f"{printable(vhost)}: {number_of(len(assertions), 'assertion')}")


assertions = family(
    "assertions",
    "Manage the assertions that a virtual host's events are checked by as they come.",
    show=show_assertions,
    set=set_assertions,
    remove=remover(_PATH, "assertion", "Remove one assertion; its violations stay."),
)


def violations(
    client: ServiceClient,
    period: TimeRange,
    vhost: AnyVhost = None,
    assertion: Annotated[str | None, typer.Option(help="Of this assertion.")] = None,
    kind: Annotated[str | None, typer.Option(help="Of this kind.")] = None,
    limit: PageLimit = 100,
    json: Json = False,
) -> None:
    """List violations of assertions, newest first."""
    parameters = {
        "vhost": vhost,
        "assertion": assertion,
        "kind": kind,
        "limit": limit,
        **asdict(period),
    }
    answer = client.get("/itc_db/violations", **parameters)
    show_list(answer, json, _VIOLATIONS)
    if answer["truncated"] and not json:
        say(f"there are more: --until {answer['items'][-1]['found_at']} shows earlier ones")


_VIOLATIONS = columns(
    "FOUND: found_at, VHOST, ASSERTION, EVENT, COMPLETE, WEBHOOK, SAYS: sentence",
    COMPLETE=lambda row: "yes" if row["complete"] else "no",
    WEBHOOK=lambda row: "-" if row["delivery"] == "none" else row["delivery"],
)
