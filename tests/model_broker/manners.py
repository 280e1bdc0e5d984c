"""What differs between versions of RabbitMQ, as far as the firehose shows it.

Measured on 3.10.8, 4.0.5 and 4.3.6 (`tests/integration/test_model_broker.py` holds the model to the
broker at hand); 4.2 has direct replies in the trace, and is otherwise taken to be as 4.0.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

Entry = dict[str, Any]


class Manners(NamedTuple):
    """The ways of a version.

    ``are_sorted``: entries of `x-death` are listed newest first; else those there were are reversed
    at each death. ``counts_on``: in entries that a client brought along. ``is_first_time``: an
    entry's time is that of its first death. ``has_last``: `x-last-death-…` is written. ``flag``:
    which dead letters are flagged as redelivered at once. ``limits``: what counts towards a limit
    of deliveries.
    """

    are_sorted: bool
    counts_on: bool
    is_first_time: bool
    has_last: bool
    flag: Literal["never", "as before", "handed over"]
    limits: frozenset[str]
    traces_replies: bool


_ANY = frozenset({"reject", "nack", "close"})
MANNERS = {
    "3.10": Manners(False, True, False, False, "never", _ANY, False),
    "4.0": Manners(True, False, True, True, "as before", _ANY, False),
    "4.2": Manners(True, False, True, True, "as before", _ANY, True),
    "4.3": Manners(True, False, True, True, "handed over", frozenset({"reject"}), True),
}


def manners_of(version: str) -> Manners:
    """The manners of the last version that is known, up to this one (``4.3.6``)."""
    numbers = [int(number) for number in version.split(".")[:2]]
    known = {tuple(map(int, name.split("."))): manners for name, manners in MANNERS.items()}
    return known[max(name for name in known if name <= tuple(numbers))]


def with_death(manners: Manners, headers: Entry, death: Entry, *, is_brought: bool) -> Entry:
    """The headers after one more death; ``is_brought``: their entries are a client's."""
    entries: list[Entry] = headers.get("x-death", [])
    headers = {name: value for name, value in headers.items() if name != "x-death"}
    if is_brought and not manners.counts_on:
        entries = []
        headers = {n: v for n, v in headers.items() if not n.startswith(("x-first-", "x-last-"))}
    same = [entry for entry in entries if _is_same(entry, death)]
    rest = [entry for entry in entries if not _is_same(entry, death)]
    if same:
        time = same[0]["time"] if manners.is_first_time else death["time"]
        death = {**same[0], "count": same[0]["count"] + 1, "time": time}
    headers["x-death"] = [death, *(rest if manners.are_sorted else rest[::-1])]
    last = {name: death[name] for name in ("exchange", "queue", "reason")}
    if "x-first-death-queue" not in headers:
        headers |= {f"x-first-death-{name}": value for name, value in last.items()}
    if manners.has_last:
        headers |= {f"x-last-death-{name}": value for name, value in last.items()}
    return headers


def is_cycle(entries: list[Entry], queue: str) -> bool:
    """Tell whether a dead letter comes to a queue again with nobody rejecting it on its way."""
    way: list[Entry] = []
    for entry in entries:
        way.append(entry)
        if entry["queue"] == queue:
            return all(entry["reason"] != "rejected" for entry in way)
    return False


def _is_same(entry: Entry, death: Entry) -> bool:
    return (entry["queue"], entry["reason"]) == (death["queue"], death["reason"])
