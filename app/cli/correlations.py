"""``correlate``: which fields tie messages together, and adopting one as a rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

import typer

from app.cli.client import ServiceClient, segment
from app.cli.exits import CommandError, Exit
from app.cli.following import followed, report, submit
from app.cli.options import Json, TimeRange, Vhost
from app.cli.output import as_json, gaps_of, period_of, printable, say, table

_COLUMNS = ("N", "KIND", "DELIVERY", "PUBLISH", "SUPPORT", "AMBIGUITY", "CHANCE", "AGREEMENT")


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
    refused: Annotated[
        bool, typer.Option("--refused", help="Show what is no key as well, and why.")
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
    return as_json(found) if json else _show(found, with_refused=refused)


def _show(found: dict[str, Any], *, with_refused: bool) -> None:
    part = "" if found["looked_at_all"] else f" of {found['events']}"
    say(
        f"{period_of(found)}: {found['looked_at']}{part} events, {found['reactions']} publishes"
        f" that may have a cause, {gaps_of(found)}"
    )
    for doubt in found["doubts"]:
        say(f"UNSOUND: {printable(doubt)}")
    table(_COLUMNS, map(_proposal, found["proposals"]))
    if not found["proposals"]:
        say("No field ties messages together.")
    for line in _others(found):
        say(printable(line))
    if with_refused:
        table(("DELIVERY", "PUBLISH", "PUBLISHES", "NO KEY BECAUSE"), _refused(found))


def _proposal(one: dict[str, Any]) -> tuple[object, ...]:
    child = " + ".join(dict.fromkeys(_places(one, "child")))
    shares = (_share(one["support"]), f"{one['ambiguity']:.2f}", _share(one["chance"]))
    where = ("", child) if one["kind"] == "conversation" else (one["parent"], one["child"])
    return (one["number"], one["kind"], *where, *shares, _share(one["agreement"]))


def _places(one: dict[str, Any], side: str) -> Iterator[str]:
    for rule in one["rules"]:
        places = rule[side]
        yield from [places] if isinstance(places, str) else places


def _share(share: float | None) -> str:
    return "?" if share is None else f"{100 * share:.1f} %"


def _others(found: dict[str, Any]) -> Iterator[str]:
    for one in found["programs"]:
        who = f"{one['receiver']['name']} and {one['publisher']['name']}"
        yield f"One program: {who}: {one['advice']} (--participant {one['policy']})"
    for one in found["in_turn"]:
        who = one["participant"]["name"]
        yield f"One message at a time: {who}: each publish answers the delivery of its place"
    for why, count in found["left_out"].items():
        yield f"Left out: {why}: {count}"


def _refused(found: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    for one in found["refused"]:
        yield (one["parent"], one["child"], one["publishes"], one["why"])
    for one in found["places"]:
        yield (one["place"], one["place"], "", one["why"])


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
        summary = followed(client, submit(client, "/itc_db/restamp", {"links": True}, vhost=vhost))
        say(f"{printable(vhost)}: {summary['events']} events restamped, {summary['edges']} links")
