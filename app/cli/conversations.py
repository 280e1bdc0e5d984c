"""``conversation``, ``conversations``: what happened because of a message, and lists of that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

import typer

from app.cli.client import ServiceClient
from app.cli.options import (
    Along,
    EventId,
    Filters,
    Joined,
    Json,
    Limit,
    MessageFilters,
    Requirements,
    Vhost,
    say_caveats,
)
from app.cli.output import as_json, columns, complain, listed, printable, say
from model.conversations import Outcome

# What a line of the tree is cut to, and how far it is indented at the most.
WIDTH, DEEPEST = 80, 12
_PAGE = 200  # conversations in an answer


def conversation(
    client: ServiceClient,
    requirements: Requirements,
    event: EventId,
    via: Along = "links",
    limit: Annotated[
        int, typer.Option("-n", "--limit", min=1, max=5_000, help="Most events to walk to.")
    ] = 1_000,
    json: Json = False,
) -> None:
    """Show what a message led to: queues, deliveries, what came of them, and the times."""
    found = client.get(f"/itc_db/conversations/{event}", via=via, limit=limit)
    if json:
        as_json(found)
    else:
        say(printable(found["sentence"]))
        for line in tree(found):
            say(line)
        if found["other_roots"]:
            say(f"led to as well by: {', '.join(map(str, found['other_roots']))}")
    say_caveats(found, complain)
    if found["truncated"]:
        complain("there is more: -n says how many events to walk to")
    requirements.check(found)


def conversations(
    client: ServiceClient,
    filters: Filters,
    messages: MessageFilters,
    vhost: Vhost,
    via: Joined = "links",
    limit: Limit = 50,
    min_seconds: Annotated[float | None, typer.Option(help="Of this duration or longer.")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Of this duration or shorter.")] = None,
    outcome: Annotated[str | None, typer.Option(help=f"{', '.join(Outcome)}.")] = None,
    json: Json = False,
) -> None:
    """The conversations of a virtual host, those that began last first."""
    asked = {
        "vhost": vhost,
        "via": via,
        "min_seconds": min_seconds,
        "max_seconds": max_seconds,
        "outcome": outcome,
        **asdict(messages),
        **filters.parameters(),
    }
    found = client.pages("/itc_db/conversations", "before", limit, _PAGE, **asked)
    listed(found, json, _LISTED)
    if found["truncated"]:
        complain("there may be more: -n says how many to show, --until where to go on")


_LISTED = columns(
    "ROOT, BEGAN: began_at, TYPE, TIME, MESSAGES, OUTCOME",
    TIME=lambda each: _duration(each["seconds"]),
    MESSAGES=lambda each: f"{each['counts']['messages']}{'+' * each['truncated']}",
)


def tree(found: dict[str, Any]) -> Iterator[str]:
    """The lines of a conversation, each cut to `WIDTH`; see `_tree`."""
    for line in _tree(found):
        yield line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


def _tree(found: dict[str, Any]) -> Iterator[str]:
    """Each message under the delivery that led to it, with the seconds since the beginning."""
    names = {each["number"]: each["name"] for each in found["participants"]}
    messages = {each["event"]: each for each in found["messages"]}
    under: dict[int | None, list[dict[str, Any]]] = {}
    shown = {each["event"] for each in found["messages"]} | {
        delivery["event"]
        for each in found["messages"]
        for copy in each["copies"]
        for delivery in copy["deliveries"]
    }
    for each in messages.values():
        cause = each["cause"] if each["cause"] in shown else None
        under.setdefault(cause, []).append(each)
    waiting = [(each, 0) for each in reversed(under.get(None, []))]
    while waiting:
        message, depth = waiting.pop()
        pad = "  " * min(depth, DEEPEST)
        who = "publish not seen" if message["unseen"] else names.get(message["participant"], "")
        mark = "*" if message["critical"] else " "
        yield printable(
            f"{_offset(message['offset'])}{mark}{pad}{message['type']} ← {who} ({message['event']})"
        )
        if message["failure"] is not None:
            yield printable(f"{'':11}{pad}  failed: {_failure(message['failure'])}")
        led_to = under.get(message["event"], [])
        for copy in message["copies"]:
            if copy["remark"]:
                yield printable(f"{'':11}{pad}  {copy['queue']}: {copy['remark']}")
            for delivery in copy["deliveries"]:
                yield _delivery_line(delivery, pad, names)
                led_to = led_to + under.get(delivery["event"], [])
        waiting += [(each, depth + 2) for each in reversed(led_to)]


_ACTS = {"returned": "given back at", "rejected": "rejected at", "overflow": "pushed out by"}


def _delivery_line(delivery: dict[str, Any], pad: str, names: dict[int, str]) -> str:
    mark = "*" if delivery["critical"] else " "
    how = {"redelivered": ", again", "dead_lettered": ", after it died"}.get(delivery["match"], "")
    how += "".join(f", {_ACTS[act['kind']]} {act['cause']}" for act in delivery["acts"])
    took = f", queued {_duration(delivery['queued'])}"
    if delivery["handled"] is not None:
        until = "handled" if delivery["handled_until"] == "span" else "published after"
        took += f", {until} {_duration(delivery['handled'])}"
    if delivery["settlement"] is not None:
        took += f", {delivery['settlement'].replace('_', ' ')}"
        after = delivery["settled_after"]
        took += "" if after is None else f" after {_duration(after)}"
    who = names.get(delivery["participant"], "")
    line = f"{pad}  {delivery['queue']} → {who}{took}{how} ({delivery['event']})"
    return printable(f"{_offset(delivery['offset'])}{mark}{line}")


def _failure(failure: dict[str, Any]) -> str:
    words = [failure["kind"].replace("_", " "), failure["reason"], failure["exception"]]
    queue = f" in {failure['queue']}" if failure["queue"] else ""
    return ", ".join(filter(None, words)) + queue


def _offset(seconds: float) -> str:
    return f"{seconds:9.3f}s"


def _duration(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if abs(seconds) < 1 else f"{seconds:.1f} s"
