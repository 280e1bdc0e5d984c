"""Rules of links: ``links``, ``hidden``, ``correlate``, ``proposals``."""

from __future__ import annotations

import contextlib
import json as json_
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer
import yaml

from app.cli.client import ServiceClient, segment
from app.cli.commands import family, remover
from app.cli.exits import CommandError, Exit
from app.cli.following import follow, report, submit
from app.cli.options import Input, Json, TimeRange, Vhost, content_of, say_caveats
from app.cli.output import as_json, columns, period_of, printable, say, show_list, table
from model.words import number_of

_LINKS, _PROPOSALS = "/itc_db/links", "/itc_db/proposals"
_MOST_EXAMPLES = 3


def show_links(
    client: ServiceClient,
    vhost: Vhost,
    own_alone: Annotated[bool, typer.Option("--own", help="Only the virtual host's own.")] = False,
    json: Json = False,
) -> None:
    """List a virtual host's rules in order, and the event from which each holds."""
    rows = client.get(_LINKS, vhost=vhost)
    rows = [row for row in rows if not own_alone or row["origin"] == "own"]
    show_list(rows, json, _RULES)


def add_link(client: ServiceClient, vhost: Vhost, file: Input) -> None:
    """Add a rule (YAML or JSON) to a virtual host's own; it replaces one of the same name."""
    rule = _read(file)
    if not isinstance(rule, Mapping) or not isinstance(rule.get("name"), str):
        raise CommandError(Exit.usage, f"{file}: one rule is expected, an object with a name")
    path = f"{_LINKS}/{segment(vhost)}/{segment(rule['name'])}"
    outcome = "added" if client.send("PUT", path, json=rule).status_code == 201 else "replaced"
    say(f"{printable(vhost)}: rule {printable(rule['name'])} {outcome}")


links = family(
    "links",
    "Manage the rules by which messages name their causes.",
    show=show_links,
    add=add_link,
    remove=remover(_LINKS, "rule", "Remove one of a virtual host's own rules; stored links stay."),
)


def hidden(client: ServiceClient, vhost: Vhost, json: Json = False) -> None:
    """List connections between programs outside the broker, such as outboxes and HTTP calls."""
    answer = client.get("/itc_db/hidden", vhost=vhost)
    answer["items"] = answer.pop("ways")
    show_list(answer, json, columns("RULE, FROM: from.name, TO: to.name, LINKS, LAST: last_at"))


def _read(file: str) -> Any:
    try:
        read = _parse(content_of(file))
        # Raises where JSON has no such value: NaN, dates, halves of characters.
        json_.dumps(read, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())  # YAML's has lines
        raise CommandError(Exit.usage, f"{file}: expected YAML or JSON: {reason}") from error
    return read


def _parse(text: str | bytes) -> Any:
    with contextlib.suppress(ValueError):  # YAML has no tabs between values, and reads 1e3 as text
        return json_.loads(text)
    load: Any = yaml.safe_load
    return load(text)


_REMARKS = {"holds": "", "set": "holds soon", "removed": "removed; holds a moment longer"}
_RULES = columns(
    "RULE: name, KIND: rule.kind, ORIGIN, FROM: from_event_id or -, CHILD, PARENT, REMARK",
    CHILD=lambda row: " + ".join(row["rule"]["child"]),
    PARENT=lambda row: " + ".join(row["rule"].get("parent", ())),
    REMARK=lambda row: _REMARKS.get(row["state"], row["state"]),
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
            help="Adopt the Nth proposal of the newest report as the virtual host's own rule.",
        ),
    ] = None,
    past: Annotated[
        bool, typer.Option("--past", help="With --adopt: apply it to stored messages, too.")
    ] = False,
    json: Json = False,
) -> None:
    """Find which fields tie messages together; by default in the last day.

    With --adopt it does not search: it adopts a proposal as it was last shown.
    """
    if adopt is not None:
        return _adopt(client, vhost, adopt, past=past)
    if past:
        raise CommandError(Exit.usage, "--past goes with --adopt")
    answer = report(client, "/itc_db/correlations", vhost=vhost, **asdict(period))
    return as_json(answer) if json else _show_keys(answer)


def _show_keys(answer: dict[str, Any]) -> None:
    part = "" if answer["looked_at_all"] else f" of {answer['events']}"
    say(
        f"{period_of(answer)}: {answer['looked_at']}{part} events, {answer['reactions']} publishes"
        " that may have a cause"
    )
    say_caveats(answer)
    table(_PROPOSAL, map(_proposal, answer["proposals"]))
    if not answer["proposals"]:
        say("No field ties messages together.")
    for line in _other_findings(answer):
        say(printable(line))


def _proposal(proposal: dict[str, Any]) -> tuple[object, ...]:
    child = " + ".join(dict.fromkeys(_paths(proposal, "child")))
    shares = (_part(proposal["support"]), f"{proposal['ambiguity']:.2f}", _part(proposal["chance"]))
    fields = (
        ("", child)
        if proposal["kind"] == "conversation"
        else (proposal["parent"], proposal["child"])
    )
    return (proposal["number"], proposal["kind"], *fields, *shares, _part(proposal["agreement"]))


def _paths(proposal: dict[str, Any], side: str) -> Iterator[str]:
    for rule in proposal["rules"]:
        fields = rule[side]
        yield from [fields] if isinstance(fields, str) else fields


def _part(share: float | None) -> str:
    return "?" if share is None else f"{100 * share:.1f} %"


def _other_findings(answer: dict[str, Any]) -> Iterator[str]:
    for pair in answer["programs"]:
        names = f"{pair['receiver']['name']} and {pair['publisher']['name']}"
        yield f"One program: {names}: {pair['advice']} (--participant {pair['policy']})"
    for message in answer.get("in_hand", ()):
        name, share = message["participant"]["name"], _part(message["agreement"])
        counts = (
            f"at {message['publishes']:,} publishes; the cause in {share} of {message['linked']:,}"
        )
        yield f"One message in hand: {name}: {counts}"
    for reason, count in answer["left_out"].items():
        yield f"Left out: {reason}: {count}"


def _adopt(client: ServiceClient, vhost: str, number: int, *, past: bool) -> None:
    reports = client.get("/itc_db/reports")
    of_vhost = (
        report
        for report in reports
        if (report["report"], report["vhost"]) == ("correlations", vhost)
    )
    newest = next(of_vhost, None)
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
    """Have stored messages read by the present rules."""
    summary = follow(client, submit(client, "/itc_db/restamp", {"links": True}, vhost=vhost))
    say(
        f"{printable(vhost)}: {number_of(summary['events'], 'event')} restamped, "
        f"{number_of(summary['edges'], 'link')}"
    )


def show_proposals(client: ServiceClient, vhost: Vhost, json: Json = False) -> None:
    """List proposed rules that are not adopted yet, the best first."""
    answer = client.get(_PROPOSALS, vhost=vhost)
    if json or answer["looked_at"] is None:
        return as_json(answer) if json else say(f"{printable(vhost)}: nothing was looked for yet")
    say(f"{printable(vhost)}: looked at {answer['looked_at']}; {answer['sentence']}")
    for proposal in answer["items"]:
        for line in _lines(proposal):
            say(printable(line))
    if not answer["items"]:
        say("Nothing waits to be adopted.")
    return None


def _lines(proposal: dict[str, Any]) -> Iterator[str]:
    counts = f"{proposal['joins']:,} of {proposal['of']:,} publishes"
    yield f"{proposal['id']}  {proposal['says']}: joins {counts}"
    yield f"  {proposal['certainty']}"
    if proposal["alone"] is not None:
        yield f"  only in messages of user {proposal['alone']}: adopt it with --of"
    for example in proposal["examples"][:_MOST_EXAMPLES]:
        yield f"  event {example['publish']} because of {example['delivery']}: {example['value']}"


def adopt_proposal(
    client: ServiceClient,
    vhost: Vhost,
    proposal: Annotated[str, typer.Argument(help="Its id.")],
    past: Annotated[bool, typer.Option("--past", help="Apply it to stored messages, too.")] = False,
    of_user: Annotated[
        str | None, typer.Option("--of", help="The only user whose messages carry it.")
    ] = None,
) -> None:
    """Make a proposal's rules the virtual host's own; `links remove` removes one again."""
    proposals = client.get(_PROPOSALS, vhost=vhost)["items"]
    parameters = {"vhost": vhost} | ({} if of_user is None else {"of_user": of_user})
    client.send("POST", f"{_PROPOSALS}/{segment(proposal)}/adopt", params=parameters)
    for rule in (
        rule
        for candidate in proposals
        if candidate["id"] == proposal
        for rule in candidate["rules"]
    ):
        say(f"{printable(vhost)}: rule {printable(rule['name'])} adopted")
    if past:
        read_past(client, vhost)


proposals = family(
    "proposals",
    "List and adopt rules that would tie messages together, as the service found them itself.",
    show=show_proposals,
    adopt=adopt_proposal,
)
