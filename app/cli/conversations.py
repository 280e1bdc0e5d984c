"""``conversation``, ``conversations``: what happened because of a message, and lists of that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer

from app.cli.client import ServiceClient
from app.cli.options import (
    EventId,
    Filters,
    JoinVia,
    Json,
    Limit,
    MessageFilters,
    Requirements,
    Vhost,
    WalkVia,
    say_caveats,
)
from app.cli.output import as_json, columns, complain, printable, say, show_list
from model.conversations.messages import Outcome
from model.conversations.states import State

# Longest line of the tree, and its deepest indentation.
WIDTH, DEEPEST = 80, 12
_PAGE = 200  # conversations in an answer


def conversation(
    client: ServiceClient,
    requirements: Requirements,
    event: EventId,
    via: WalkVia = "links",
    limit: Annotated[
        int, typer.Option("-n", "--limit", min=1, max=5_000, help="Most events to walk to.")
    ] = 1_000,
    json: Json = False,
) -> None:
    """Show what a message led to: queues, deliveries, outcomes and times."""
    answer = client.get(f"/itc_db/conversations/{event}", via=via, limit=limit)
    if json:
        as_json(answer)
    else:
        say(printable(answer["sentence"]))
        say(": ".join(filter(None, (answer["state"].replace("_", " "), answer["reason"]))))
        if answer["remaining"] is not None:
            say(printable(answer["remaining"]["sentence"]))
        for line in violation_lines(answer):
            say(line)
        for line in tree(answer):
            say(line)
        for crossing in answer["crossings"]:
            say(printable(crossing["sentence"]))
        if answer["other_roots"]:
            say(f"led to as well by: {', '.join(map(str, answer['other_roots']))}")
    say_caveats(answer, complain)
    if answer["truncated"]:
        complain("there is more: -n says how many events to walk to")
    requirements.check(answer)


def violation_lines(answer: Mapping[str, Any]) -> list[str]:
    """A line for each assertion that did not hold for an event of a conversation."""
    return [
        printable(f"assertion {one['assertion']} did not hold: {one['sentence']}")
        for one in answer["violations"]
    ]


def conversations(
    client: ServiceClient,
    filters: Filters,
    messages: MessageFilters,
    vhost: Vhost,
    via: JoinVia = "links",
    limit: Limit = 50,
    min_seconds: Annotated[float | None, typer.Option(help="Lasting this long or longer.")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Lasting at most this long.")] = None,
    outcome: Annotated[str | None, typer.Option(help=f"{', '.join(Outcome)}.")] = None,
    state: Annotated[str | None, typer.Option(help=f"{', '.join(State)}.")] = None,
    json: Json = False,
) -> None:
    """List the conversations of a virtual host, newest first; with --state waiting oldest first."""
    parameters = {
        "vhost": vhost,
        "via": via,
        "min_seconds": min_seconds,
        "max_seconds": max_seconds,
        "outcome": outcome,
        "state": state,
        **asdict(messages),
        **filters.parameters(),
    }
    page = client.pages("/itc_db/conversations", "before", limit, _PAGE, **parameters)
    show_list(page, json, _LISTED)
    if page["truncated"]:
        complain("there may be more: -n says how many to show, --until where to go on")


_LISTED = columns(
    "ROOT, BEGAN: began_at, TYPE, TIME, MESSAGES, OUTCOME, STATE",
    TIME=lambda row: _duration(row["seconds"]),
    MESSAGES=lambda row: f"{row['counts']['messages']}{'+' * row['truncated']}",
)


def tree(conversation: dict[str, Any], width: int = WIDTH) -> Iterator[str]:
    """The lines of a conversation, each cut to a width before its event; see `_tree`.

    What became of a message is not cut.
    """
    for line, is_sentence in _tree(conversation):
        text, space, event = line.rpartition(" (")
        room = width - len(space + event)
        is_fit = is_sentence or len(line) <= width
        yield line if is_fit else f"{text[: room - 1]}…{space}{event}"


def _tree(conversation: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """Each message under the delivery that led to it, with the seconds since the beginning."""
    names = {
        participant["number"]: participant["name"] for participant in conversation["participants"]
    }
    messages = {message["event"]: message for message in conversation["messages"]}
    by_cause: dict[int | None, list[dict[str, Any]]] = {}
    events = {message["event"] for message in conversation["messages"]} | {
        delivery["event"]
        for each in conversation["messages"]
        for copy in each["copies"]
        for delivery in copy["deliveries"]
    }
    for child in messages.values():
        cause = child["cause"] if child["cause"] in events else None
        by_cause.setdefault(cause, []).append(child)
    stack = [(root, 0) for root in reversed(by_cause.get(None, []))]
    while stack:
        message, depth = stack.pop()
        pad = "  " * min(depth, DEEPEST)
        publisher = (
            "publish not seen" if message["unseen"] else names.get(message["participant"], "")
        )
        mark = "*" if message["critical"] else " "
        line = f"{pad}{message['type']} ← {publisher} ({message['event']})"
        yield printable(f"{_offset(message['offset'])}{mark}{line}"), False
        if message["failure"] is not None:
            yield printable(f"{'':11}{pad}  failed: {message['failure_sentence']}"), True
        effects = by_cause.get(message["event"], [])
        for copy in message["copies"]:
            if copy["remark"]:
                yield printable(f"{'':11}{pad}  {copy['queue']}: {copy['remark']}"), True
            for delivery in copy["deliveries"]:
                yield _delivery_line(delivery, pad, names), False
                effects = effects + by_cause.get(delivery["event"], [])
        stack += [(effect, depth + 2) for effect in reversed(effects)]


_ACTS = {"returned": "back from", "rejected": "rejected at", "overflow": "pushed out by"}


def _delivery_line(delivery: dict[str, Any], pad: str, names: dict[int, str]) -> str:
    mark = "*" if delivery["critical"] else " "
    remarks = {"redelivered": ", again", "dead_lettered": ", after it died"}.get(
        delivery["match"], ""
    )
    times = f", {_duration(delivery['queued'])} {'held or ' if remarks else ''}waiting"
    remarks += "".join(f", {_ACTS[act['kind']]} {act['cause']}" for act in delivery["acts"])
    if delivery["handled"] is not None:
        until = "" if delivery["handled_until"] == "span" else " until it published"
        times += f", {_duration(delivery['handled'])} handling{until}"
    if delivery["settlement"] is not None:
        times += f", {delivery['settlement'].replace('_', ' ')}"
        seconds = delivery["settled_after"]
        times += "" if seconds is None else f" after {_duration(seconds)}"
    consumer = names.get(delivery["participant"], "")
    line = f"{pad}  {delivery['queue']} → {consumer}{times}{remarks} ({delivery['event']})"
    return printable(f"{_offset(delivery['offset'])}{mark}{line}")


def _offset(seconds: float) -> str:
    return f"{seconds:9.3f}s"


def _duration(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if abs(seconds) < 1 else f"{seconds:.1f} s"
