"""``assert``: whether what a file says held over a period, for runbooks and CI."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from typing import Any

import typer

from app.cli.client import ServiceClient
from app.cli.conversations import tree
from app.cli.exits import CommandError, Exit
from app.cli.following import report
from app.cli.options import Input, Joined, Json, TimeRange, Vhost, content_of
from app.cli.output import as_json, complain, period_of, printable, say

# How many cases of each assertion are printed, the newest.
_SHOWN = 5
# Of the newest counter-example's conversation, so many events are walked to, and lines printed.
_WALKED, _LINES = 1_000, 30
_INDENT = " " * 10
_EXITS = {"holds": Exit.ok, "violated": Exit.failure, "unknown": Exit.undecided}


def assert_(
    client: ServiceClient,
    period: TimeRange,
    vhost: Vhost,
    file: Input,
    via: Joined = "links",
    json: Json = False,
) -> None:
    """Say whether assertions held; by default over the last day.

    Ends with 0 if all hold, 1 if one is violated, and 9 if none is, but of one it is not known.
    """
    asked = {"vhost": vhost, "via": via, **asdict(period)}
    found = report(client, "/itc_db/reports/assertions", content=content_of(file), **asked)
    if json:
        as_json(found)
    else:
        _show(client, found, via)
    raise typer.Exit(_EXITS[found["verdict"]])


def _show(client: ServiceClient, found: dict[str, Any], via: str) -> None:
    say(f"{period_of(found)}: {found['verdict']}")
    for result in found["results"]:
        name = printable(result["assertion"]["name"])
        counts = ", ".join(f"{result[word]} {word}" for word in ("holds", "violated", "unknown"))
        why = "" if result["why"] is None else f" ({result['why']})"
        say(f"{result['verdict'].upper():9} {name}: {counts}{why}")
        for case in result["items"][:_SHOWN]:
            say(f"{_INDENT}event {case['event']}: {printable(case['sentence'])}")
        violated = [case for case in result["items"] if case["verdict"] == "violated"]
        if violated:
            _show_conversation(client, violated[0]["event"], via)


def _show_conversation(client: ServiceClient, event: int, via: str) -> None:
    """The conversation of a counter-example; its events may be gone, or archived, by now."""
    say(f"{_INDENT}see it: rabbitmq-itc conversation {event} --via {via}")
    try:
        told = client.get(f"/itc_db/conversations/{event}", via=via, limit=_WALKED)
    except CommandError as error:
        complain(f"the conversation of event {event} cannot be shown: {error}")
        return
    for line in islice(tree(told), _LINES):
        say(f"{_INDENT}{line}")
