"""``conversation``, ``conversations``: what happened because of a message, and lists of that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from app.cli.client import Client
from app.cli.events import end_by_certainty, headers_asked, say_caveats
from app.cli.options import Json, RequireComplete, RequireSound, Url, User, Vhost
from app.cli.output import as_json, complain, printable, say, table

# What a line of the tree is cut to, and how far it is indented at the most.
WIDTH, DEEPEST = 80, 12

EventId = Annotated[
    int, typer.Argument(metavar="EVENT", min=1, help="The id of any event that belongs to it.")
]
Via = Annotated[
    str,
    typer.Option(
        help="What leads on: links (messages, and what they name as their cause), conversation "
        "(these, and shared keys) or any."
    ),
]
Limit = Annotated[int, typer.Option("-n", "--limit", min=1, help="How many, the newest first.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(conversation)
    app.command()(conversations)


def conversation(
    event: EventId,
    via: Via = "links",
    limit: Annotated[
        int, typer.Option("-n", "--limit", min=1, max=5_000, help="Most events to walk to.")
    ] = 1_000,
    require_complete: RequireComplete = False,
    require_sound: RequireSound = False,
    json: Json = False,
    url: Url = None,
    user: User = None,
) -> None:
    """What happened because of a message: queues, deliveries, what they led to, and the times."""
    client = Client.from_environment(url, user)
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
    end_by_certainty(found, require_complete, require_sound)


def conversations(
    vhost: Vhost,
    via: Annotated[
        str, typer.Option(help="links, or conversation: what shares a key is one.")
    ] = "links",
    limit: Limit = 50,
    since: Annotated[str | None, typer.Option(help="Begun from this time on (ISO 8601).")] = None,
    until: Annotated[str | None, typer.Option(help="Begun before this time (ISO 8601).")] = None,
    min_seconds: Annotated[float | None, typer.Option(help="Of this duration or longer.")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Of this duration or shorter.")] = None,
    outcome: Annotated[str | None, typer.Option(help="done, waiting or failed.")] = None,
    participant: Annotated[
        str | None, typer.Option(help="With this participant: its number, or its name.")
    ] = None,
    type_: Annotated[
        str | None, typer.Option("--type", help="With a message of this type.")
    ] = None,
    q: Annotated[str | None, typer.Option("-q", help="With this text in a message.")] = None,
    message_id: Annotated[str | None, typer.Option(help="With a message of this id.")] = None,
    correlation_id: Annotated[str | None, typer.Option(help="With this correlation id.")] = None,
    key: Annotated[str | None, typer.Option(help="With this conversation's value.")] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="NAME=VALUE", help="With this header; may be repeated."),
    ] = None,
    json: Json = False,
    url: Url = None,
    user: User = None,
) -> None:
    """The conversations of a virtual host, those that began last first."""
    who = "participant" if (participant or "").isdigit() else "participant_name"
    asked = {
        "vhost": vhost,
        "via": via,
        "since": since,
        "until": until,
        "min_seconds": min_seconds,
        "max_seconds": max_seconds,
        "outcome": outcome,
        who: participant,
        "type": type_,
        "q": q,
        "message_id": message_id,
        "correlation_id": correlation_id,
        "conversation": key,
        **headers_asked(header or []),
    }
    client = Client.from_environment(url, user)
    rows, is_cut = [], False
    for page in _pages(client, limit, asked):
        is_cut = page["truncated"]
        for each in page["items"]:
            if json:
                as_json(each)
            else:
                rows.append(_row(each))
    if not json:
        table(("ROOT", "BEGAN", "TYPE", "TIME", "MESSAGES", "OUTCOME"), rows)
    if is_cut:
        complain("there may be more: -n says how many to show, --until where to go on")


def _pages(client: Client, limit: int, asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One answer after the other, until there are as many as were asked for.

    An answer that found nothing took long: the search ends there.
    """
    before = None
    while limit > 0:
        page = client.get("/itc_db/conversations", limit=min(limit, 200), before=before, **asked)
        yield page
        limit -= len(page["items"])
        before = page["next"]
        if before is None or not page["items"]:
            return


def _row(each: dict[str, Any]) -> tuple[object, ...]:
    return (
        each["root"],
        each["began_at"],
        each["type"],
        _duration(each["seconds"]),
        f"{each['counts']['messages']}{'+' * each['truncated']}",
        each["outcome"],
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
            if copy["state"] == "waiting":
                yield printable(f"{'':11}{pad}  {copy['queue']}: {copy['remark']}")
            for delivery in copy["deliveries"]:
                yield _delivery_line(delivery, pad, names)
                led_to = led_to + under.get(delivery["event"], [])
        waiting += [(each, depth + 2) for each in reversed(led_to)]


def _delivery_line(delivery: dict[str, Any], pad: str, names: dict[int, str]) -> str:
    mark = "*" if delivery["critical"] else " "
    how = {"redelivered": ", again", "dead_lettered": ", after it died"}.get(delivery["match"], "")
    took = f", queued {_duration(delivery['queued'])}"
    if delivery["handled"] is not None:
        until = "handled" if delivery["handled_until"] == "span" else "published after"
        took += f", {until} {_duration(delivery['handled'])}"
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
