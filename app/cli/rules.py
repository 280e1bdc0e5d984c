"""The rules of a virtual host: ``links``, ``assertions``, and ``violations`` of these."""

from __future__ import annotations

import contextlib
import json as json_
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer
import yaml

from app.cli.client import ServiceClient, segment
from app.cli.commands import family
from app.cli.exits import CommandError, Exit
from app.cli.options import AnyVhost, Input, Json, Listed, TimeRange, Vhost, content_of
from app.cli.output import listed, printable, say
from model.words import number_of

_LINKS, _ASSERTIONS = "/itc_db/links", "/itc_db/assertions"

Name = Annotated[str, typer.Argument(help="Its name.")]


def show_links(
    client: ServiceClient,
    vhost: Vhost,
    own: Annotated[bool, typer.Option("--own", help="Only the virtual host's own.")] = False,
    json: Json = False,
) -> None:
    """The rules of a virtual host in their order, and from which event on each holds."""
    found = client.get(_LINKS, vhost=vhost)
    found = [each for each in found if not own or each["origin"] == "own"]
    columns = ("RULE", "KIND", "ORIGIN", "FROM", "CHILD", "PARENT", "REMARK")
    listed(found, json, columns, _rule_row)


def set_links(client: ServiceClient, vhost: Vhost, file: Input) -> None:
    """Have a virtual host have the rules of a file (YAML or JSON), and no others of its own."""
    rules = _read(file)
    if not isinstance(rules, list):
        raise CommandError(Exit.usage, f"{file}: a list of rules is expected; links add takes one")
    client.send("PUT", _LINKS, params={"vhost": vhost}, json=rules)
    say(f"{printable(vhost)}: {number_of(len(rules), 'rule')} of its own")


def add_link(client: ServiceClient, vhost: Vhost, file: Input) -> None:
    """Add one rule, in YAML or JSON, to a virtual host's own, or in its namesake's place."""
    rule = _read(file)
    if not isinstance(rule, Mapping) or not isinstance(rule.get("name"), str):
        raise CommandError(Exit.usage, f"{file}: one rule is expected, an object with a name")
    path = f"{_LINKS}/{segment(vhost)}/{segment(rule['name'])}"
    done = "added" if client.send("PUT", path, json=rule).status_code == 201 else "replaced"
    say(f"{printable(vhost)}: rule {printable(rule['name'])} {done}")


def remove_link(client: ServiceClient, vhost: Vhost, name: Name) -> None:
    """Remove one of a virtual host's own rules; links that are stored stay."""
    client.send("DELETE", f"{_LINKS}/{segment(vhost)}/{segment(name)}")
    say(f"{printable(vhost)}: rule {printable(name)} removed")


links = family(
    "links",
    "Look at and change the rules by which messages name their causes.",
    show=show_links,
    set=set_links,
    add=add_link,
    remove=remove_link,
)


def show_assertions(client: ServiceClient, vhost: AnyVhost = None, json: Json = False) -> None:
    """Show what must hold, and for how many events it did, did not, or nobody knows."""
    columns = ("VHOST", "ASSERTION", "HELD", "VIOLATED", "UNKNOWN", "WAITING", "SAYS")
    listed(client.get(_ASSERTIONS, vhost=vhost), json, columns, _assertion_row)


def set_assertions(client: ServiceClient, vhost: Vhost, file: Input) -> None:
    """Hold the assertions of a file against a virtual host from now on, and no others."""
    client.send("PUT", f"{_ASSERTIONS}/{segment(vhost)}", content=content_of(file))
    held = client.get(_ASSERTIONS, vhost=vhost)
    say(f"{printable(vhost)}: {number_of(len(held), 'assertion')}")


def remove_assertion(client: ServiceClient, vhost: Vhost, name: Name) -> None:
    """Remove one assertion; what it found stays."""
    client.send("DELETE", f"{_ASSERTIONS}/{segment(vhost)}/{segment(name)}")
    say(f"{printable(vhost)}: assertion {printable(name)} removed")


assertions = family(
    "assertions",
    "Look at and change what must hold in a virtual host while its events come.",
    show=show_assertions,
    set=set_assertions,
    remove=remove_assertion,
)


def violations(
    client: ServiceClient,
    period: TimeRange,
    vhost: AnyVhost = None,
    assertion: Annotated[str | None, typer.Option(help="Of this assertion.")] = None,
    kind: Annotated[str | None, typer.Option(help="Of this kind.")] = None,
    limit: Listed = 100,
    json: Json = False,
) -> None:
    """List what did not hold, newest first."""
    asked = {"vhost": vhost, "assertion": assertion, "kind": kind, "limit": limit, **asdict(period)}
    found = client.get("/itc_db/violations", **asked)
    columns = ("FOUND", "VHOST", "ASSERTION", "EVENT", "COMPLETE", "WEBHOOK", "SAYS")
    listed(found, json, columns, _violation_row)
    if found["truncated"] and not json:
        say(f"there are more: --until {found['items'][-1]['found_at']} shows those before")


def _read(file: str) -> Any:
    try:
        read = _plain(content_of(file))
        # What cannot be sent: NaN, dates, halves of characters.
        json_.dumps(read, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError, yaml.YAMLError) as error:
        why = " ".join(str(error).split())  # YAML's has lines
        raise CommandError(Exit.usage, f"{file}: expected YAML or JSON: {why}") from error
    return read


def _plain(text: str | bytes) -> Any:
    with contextlib.suppress(ValueError):  # YAML has no tabs between values, and reads 1e3 as text
        return json_.loads(text)
    load: Any = yaml.safe_load
    return load(text)


_REMARKS = {"holds": "", "set": "holds soon", "removed": "removed; holds a moment longer"}


def _rule_row(each: dict[str, Any]) -> tuple[object, ...]:
    rule = each["rule"]
    since = "-" if each["from_event_id"] is None else each["from_event_id"]
    places = (" + ".join(rule["child"]), " + ".join(rule.get("parent", ())))
    remark = _REMARKS.get(each["state"], each["state"])
    return (each["name"], rule["kind"], each["origin"], since, *places, remark)


def _assertion_row(each: Mapping[str, Any]) -> tuple[object, ...]:
    said = (f"{key} {value}" for key, value in each["assertion"].items() if key != "name")
    says = ", ".join(said)
    if each["unwatched"]:
        says += f" (not watched: {each['unwatched']})"
    counts = (each["held"], each["violated"], each["unknown"], each["waiting"])
    return (each["vhost"], each["name"], *counts, says)


def _violation_row(each: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        each["found_at"],
        each["vhost"],
        each["assertion"],
        each["event"],
        "yes" if each["complete"] else "no",
        "-" if each["delivery"] == "none" else each["delivery"],
        each["sentence"],
    )
