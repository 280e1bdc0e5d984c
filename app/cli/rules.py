"""What ties messages together: ``links``, ``hidden``, ``correlate``, ``proposals``."""

from __future__ import annotations

import contextlib
import json as json_
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer
import yaml

from app.cli.client import ServiceClient, segment
from app.cli.commands import family
from app.cli.exits import CommandError, Exit
from app.cli.following import followed, report, submit
from app.cli.options import Input, Json, Name, TimeRange, Vhost, content_of
from app.cli.output import as_json, columns, gaps_of, listed, period_of, printable, say, table
from model.words import number_of

_LINKS, _PROPOSALS = "/itc_db/links", "/itc_db/proposals"
_MOST_EXAMPLES = 3


def show_links(
    client: ServiceClient,
    vhost: Vhost,
    own: Annotated[bool, typer.Option("--own", help="Only the virtual host's own.")] = False,
    json: Json = False,
) -> None:
    """The rules of a virtual host in their order, and from which event on each holds."""
    found = client.get(_LINKS, vhost=vhost)
    found = [each for each in found if not own or each["origin"] == "own"]
    listed(found, json, _RULES)


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
    add=add_link,
    remove=remove_link,
)


def hidden(client: ServiceClient, vhost: Vhost, json: Json = False) -> None:
    """Ways by which causes came to messages, and not through the broker: outboxes, HTTP calls."""
    found = client.get("/itc_db/hidden", vhost=vhost)
    found["items"] = found.pop("ways")
    listed(found, json, columns("RULE, FROM: from.name, TO: to.name, LINKS, LAST: last_at"))


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
_RULES = columns(
    "RULE: name, KIND: rule.kind, ORIGIN, FROM: from_event_id or -, CHILD, PARENT, REMARK",
    CHILD=lambda each: " + ".join(each["rule"]["child"]),
    PARENT=lambda each: " + ".join(each["rule"].get("parent", ())),
    REMARK=lambda each: _REMARKS.get(each["state"], each["state"]),
)


_PROPOSAL = ("N", "KIND", "DELIVERY", "PUBLISH", "SUPPORT", "AMBIGUITY", "CHANCE", "AGREEMENT")


def correlate(
    client: ServiceClient,
    period: TimeRange,
    vhost: Vhost,
    adopt: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Make the Nth proposal of the newest report on this virtual host its own rule.",
        ),
    ] = None,
    past: Annotated[
        bool, typer.Option("--past", help="With --adopt: read what is stored by it, too.")
    ] = False,
    json: Json = False,
) -> None:
    """Find which fields tie messages together; by default in the last day.

    With --adopt, nothing is looked for: a proposal is taken over as it was last shown.
    """
    if adopt is not None:
        return _adopt(client, vhost, adopt, past=past)
    if past:
        raise CommandError(Exit.usage, "--past goes with --adopt")
    found = report(client, "/itc_db/correlations", vhost=vhost, **asdict(period))
    return as_json(found) if json else _show_keys(found)


def _show_keys(found: dict[str, Any]) -> None:
    part = "" if found["looked_at_all"] else f" of {found['events']}"
    say(
        f"{period_of(found)}: {found['looked_at']}{part} events, {found['reactions']} publishes"
        f" that may have a cause, {gaps_of(found)}"
    )
    for doubt in found["doubts"]:
        say(f"UNSOUND: {printable(doubt)}")
    table(_PROPOSAL, map(_proposal, found["proposals"]))
    if not found["proposals"]:
        say("No field ties messages together.")
    for line in _others(found):
        say(printable(line))


def _proposal(one: dict[str, Any]) -> tuple[object, ...]:
    child = " + ".join(dict.fromkeys(_places(one, "child")))
    shares = (_part(one["support"]), f"{one['ambiguity']:.2f}", _part(one["chance"]))
    where = ("", child) if one["kind"] == "conversation" else (one["parent"], one["child"])
    return (one["number"], one["kind"], *where, *shares, _part(one["agreement"]))


def _places(one: dict[str, Any], side: str) -> Iterator[str]:
    for rule in one["rules"]:
        places = rule[side]
        yield from [places] if isinstance(places, str) else places


def _part(share: float | None) -> str:
    return "?" if share is None else f"{100 * share:.1f} %"


def _others(found: dict[str, Any]) -> Iterator[str]:
    for one in found["programs"]:
        who = f"{one['receiver']['name']} and {one['publisher']['name']}"
        yield f"One program: {who}: {one['advice']} (--participant {one['policy']})"
    for one in found.get("in_hand", ()):
        who, share = one["participant"]["name"], _part(one["agreement"])
        said = f"at {one['publishes']:,} publishes, their cause in {share} of {one['linked']:,}"
        yield f"One message in hand: {who}: {said}"
    for why, count in found["left_out"].items():
        yield f"Left out: {why}: {count}"


def _adopt(client: ServiceClient, vhost: str, number: int, *, past: bool) -> None:
    reports = client.get("/itc_db/reports")
    mine = (each for each in reports if (each["report"], each["vhost"]) == ("correlations", vhost))
    newest = next(mine, None)
    if newest is None:
        raise CommandError(Exit.not_found, f"no report: run rabbitmq-itc correlate {vhost} first")
    proposals = client.get(f"/itc_db/reports/{newest['id']}")["proposals"]
    if number > len(proposals):
        raise CommandError(
            Exit.not_found, f"the report of {newest['made_at']} has {len(proposals)} proposals"
        )
    for rule in proposals[number - 1]["rules"]:
        path = f"/itc_db/links/{segment(vhost)}/{segment(rule['name'])}"
        client.send("PUT", path, json=rule)
        say(f"{printable(vhost)}: rule {printable(rule['name'])} adopted")
    if past:
        read_past(client, vhost)


def read_past(client: ServiceClient, vhost: str) -> None:
    """Have what is stored be read by the rules that hold now."""
    summary = followed(client, submit(client, "/itc_db/restamp", {"links": True}, vhost=vhost))
    say(
        f"{printable(vhost)}: {number_of(summary['events'], 'event')} restamped, "
        f"{number_of(summary['edges'], 'link')}"
    )


def show_proposals(client: ServiceClient, vhost: Vhost, json: Json = False) -> None:
    """Show what would tie messages together and is not adopted, the best first."""
    found = client.get(_PROPOSALS, vhost=vhost)
    if json or found["looked_at"] is None:
        return as_json(found) if json else say(f"{printable(vhost)}: nothing was looked for yet")
    known = "?" if found["coverage"] is None else f"{100 * found['coverage']:.4g} %"
    say(f"{printable(vhost)}: looked at {found['looked_at']}; {known} of causes are known")
    for one in found["items"]:
        for line in _lines(one):
            say(printable(line))
    if not found["items"]:
        say("Nothing waits to be adopted.")
    return None


def _lines(one: dict[str, Any]) -> Iterator[str]:
    yield f"{one['id']}  {one['says']}: joins {one['joins']:,} of {one['of']:,} publishes"
    yield f"  {one['certainty']}"
    if one["alone"] is not None:
        yield f"  only in messages of user {one['alone']}: adopt it with --of"
    for each in one["examples"][:_MOST_EXAMPLES]:
        yield f"  event {each['publish']} because of {each['delivery']}: {each['value']}"


def adopt_proposal(
    client: ServiceClient,
    vhost: Vhost,
    proposal: Annotated[str, typer.Argument(help="Its id.")],
    past: Annotated[bool, typer.Option("--past", help="Read what is stored by it, too.")] = False,
    of_user: Annotated[
        str | None, typer.Option("--of", help="The user whose messages alone carry it.")
    ] = None,
) -> None:
    """Make a proposal's rules the virtual host's own; links remove takes one back."""
    found = client.get(_PROPOSALS, vhost=vhost)["items"]
    asked = {"vhost": vhost} | ({} if of_user is None else {"of_user": of_user})
    client.send("POST", f"{_PROPOSALS}/{segment(proposal)}/adopt", params=asked)
    for rule in (rule for each in found if each["id"] == proposal for rule in each["rules"]):
        say(f"{printable(vhost)}: rule {printable(rule['name'])} adopted")
    if past:
        read_past(client, vhost)


proposals = family(
    "proposals",
    "Look at and adopt what would tie messages together, as the service found it by itself.",
    show=show_proposals,
    adopt=adopt_proposal,
)
