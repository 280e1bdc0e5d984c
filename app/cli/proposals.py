"""What the service found by itself: ``proposals show`` and ``proposals adopt``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from app.cli.client import ServiceClient, segment
from app.cli.commands import family
from app.cli.learning import read_past
from app.cli.options import Json, Vhost
from app.cli.output import as_json, printable, say

_PATH = "/itc_db/proposals"
_EXAMPLES = 3


def show_proposals(client: ServiceClient, vhost: Vhost, json: Json = False) -> None:
    """Show what would tie messages together and is not adopted, the best first."""
    found = client.get(_PATH, vhost=vhost)
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
    for each in one["examples"][:_EXAMPLES]:
        yield f"  event {each['publish']} because of {each['delivery']}: {each['value']}"


def adopt_proposal(
    client: ServiceClient,
    vhost: Vhost,
    proposal: Annotated[str, typer.Argument(help="Its id.")],
    past: Annotated[bool, typer.Option("--past", help="Read what is stored by it, too.")] = False,
) -> None:
    """Make a proposal's rules the virtual host's own; links remove takes one back."""
    found = client.get(_PATH, vhost=vhost)["items"]
    client.send("POST", f"{_PATH}/{segment(proposal)}/adopt", params={"vhost": vhost})
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
