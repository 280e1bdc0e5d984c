"""Applications whose end is known, and a judge of what the service says of their conversations.

Programs receive, work for a while and publish; each application differs in what its messages carry
and in who begins what. The simulation knows what led to each message, so of each conversation it
knows at any moment whether something is still to come. Times are µs.

`python -m tests.contract.endings [COUNT]` prints how many that have ended are done, at rest and
in the middle of runs; lies are those that are called done and go on.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import pytest

from app.store import Store, migrate
from app.store.conversations import conversing
from app.stored.capture import Batch
from app.tracker import Bounds, Channel, Deliver, Policy, Publish, Tracker
from app.tracker.links import BUILT_IN, Rules
from model.conversations import Outcome
from model.words import Via

BEGINNING = 1_700_000_000_000_000
MILLISECOND = 1_000
WAIT, WORK = (3, 40), (10, 200)  # ms until a message is handed over, and until it is handled
LONG = 60_000 * MILLISECOND  # until a run is at rest
EVERY = 150  # ms from one beginning to the next

Carries: TypeAlias = Literal["its cause's", "its own", "none"]
"""The key of a message: that of what led to it, a new one, or none."""


class Reaction(NamedTuple):
    """What a program publishes for a message of a type."""

    kind: str
    share: float = 1.0  # of the messages that it publishes for
    names: bool = True  # the message that led to it
    key: Carries = "its cause's"


@dataclass(frozen=True)
class Program:
    name: str
    receives: tuple[str, ...] = ()
    reacts: Mapping[str, Sequence[Reaction]] = field(default_factory=dict)
    begins: str | None = None  # a type, again and again
    begins_with_key: bool = True
    begins_after: int = 0  # ms


class Record(NamedTuple):
    at: int
    number: int
    root: int  # the message that began it
    message: int
    record: Publish | Deliver


def run(programs: Sequence[Program], beginnings: int, seed: int) -> list[Record]:
    """All that the broker tells of a run, in order."""
    dice, records = random.Random(seed), list[Record]()
    todo: list[tuple[int, int, Program, str, dict[str, Any] | None, int, Any]] = []
    number = 0

    def later(at: int, *what: Any) -> None:
        nonlocal number
        number += 1
        heapq.heappush(todo, (at, number, *what))

    def span(bounds: tuple[int, int]) -> int:
        return dice.randint(*bounds) * MILLISECOND

    for program in programs:
        for turn in range(beginnings if program.begins else 0):
            at = BEGINNING + (program.begins_after + turn * EVERY) * MILLISECOND
            own = {"correlation_id": f"{program.name}-{turn}"} if program.begins_with_key else {}
            later(at + span((0, EVERY)), program, "publish", own, 0, program.begins)
    messages = 0
    while todo:
        at, turn, program, step, properties, root, what = heapq.heappop(todo)
        channel = _channel(program, programs)
        if step == "publish":
            messages += 1
            root = root or messages
            given = {
                "type": what,
                "headers": {},
                **(properties or {}),
                "message_id": f"m{messages}",
            }
            queues = tuple(each.name for each in programs if what in each.receives)
            sent = Publish(channel, "x", (what,), queues, given, b"")
            records.append(Record(at, turn, root, messages, sent))
            for each in programs:
                if what in each.receives:
                    got = Deliver(
                        _channel(each, programs), "x", (what,), each.name, False, given, b""
                    )
                    later(at + span(WAIT), each, "deliver", None, root, (messages, got))
            continue
        message, got = what
        records.append(Record(at, turn, root, message, got))
        for reaction in program.reacts.get(got.routing_keys[0], ()):
            if dice.random() < reaction.share:
                headers = {"causation_id": f"m{message}"} if reaction.names else {}
                key = got.properties.get("correlation_id")
                if reaction.key == "its own":
                    key = f"k{dice.getrandbits(60)}"
                carried = {} if key is None or reaction.key == "none" else {"correlation_id": key}
                parts = {"headers": headers, **carried}
                later(at + span(WORK), program, "publish", parts, root, reaction.kind)
    return records


def _channel(program: Program, programs: Sequence[Program]) -> Channel:
    place = f"10.0.0.{1 + [each.name for each in programs].index(program.name)}"
    return Channel("rabbit@a", f"{place}:4000 -> 10.0.9.1:5672", 1, "guest")


class Verdict(NamedTuple):
    """How many conversations had ended in truth, how many of these are decided, and lies."""

    ended: int
    decided: int
    outcomes: Counter[str]
    lies: list[str]
    sentences: list[str]


async def verdict(
    store: Store, vhost: str, records: Sequence[Record], share: float, via: Via = Via.links
) -> Verdict:
    """What is said of each conversation once this share of a run has happened."""
    trace = await store.traces.create(vhost, Policy.client)
    tracker = Tracker(Policy.client, Bounds(), rules=Rules(BUILT_IN))
    past = records[: round(len(records) * share)]
    with_time = pytest.MonkeyPatch()
    with_time.setattr(conversing, "present", lambda: past[-1].at + LONG * (share == 1))
    still = {record.root for record in records[len(past) :]}
    events, roots = [], {}
    for record in past:
        stamped = [*tracker.apply(record.record, record.at)]
        events += stamped
        if record.root == record.message and isinstance(record.record, Publish):
            roots[record.root] = stamped[0].reference
    await store.batches.append(trace.id, Batch(events, tracker.checkpoint(), b"window"))
    outcomes, lies, sentences, decided = Counter[str](), [], [], 0
    for root, reference in roots.items():
        assert reference.id is not None
        found = (await store.conversations.of_event(reference.id, via)).conversation
        has_ended, is_decided = root not in still, found.outcome in (Outcome.done, Outcome.failed)
        outcomes[f"{'ended' if has_ended else 'goes on'}: {found.outcome}"] += 1
        decided += has_ended and is_decided
        if found.outcome is Outcome.done and not has_ended:
            lies.append(f"{vhost} at {share}: {root}: {found.sentence}")
        if has_ended and not is_decided:
            sentences.append(found.sentence)
    with_time.undo()
    return Verdict(len({*roots} - still), decided, outcomes, lies, sentences)


def shop(
    *, names: bool = True, key: Carries = "its cause's", begins_with_key: bool = True
) -> list[Program]:
    """Eight services that hand orders on, and the shop, which is told at last."""

    def on(kind: str, *made: str) -> dict[str, Sequence[Reaction]]:
        return {kind: [Reaction(each, 1.0, names, key) for each in made]}

    return [
        Program("shop", ("mailed",), begins="placed", begins_with_key=begins_with_key),
        Program("orders", ("placed",), on("placed", "accepted")),
        Program("pricing", ("accepted",), on("accepted", "priced")),
        Program("stock", ("accepted",), on("accepted", "reserved")),
        Program("invoices", ("priced",)),
        Program("billing", ("reserved",), on("reserved", "paid")),
        Program("shipping", ("paid",), on("paid", "sent")),
        Program("loyalty", ("paid",)),
        Program("mailer", ("sent",), on("sent", "mailed")),
    ]


def _changed(programs: Sequence[Program], **others: Program) -> list[Program]:
    return [others.get(program.name, program) for program in programs]


class Application(NamedTuple):
    """Programs, and the ways in which their messages tell where a conversation has ended."""

    programs: list[Program]
    tells: tuple[Via, ...] = ()


_NAMED = Via.links, Via.conversation
_THANKED = Program("mailbox", ("thanks",))

APPLICATIONS: Mapping[str, Application] = {
    "names and keys": Application(shop(), _NAMED),
    "names alone": Application(shop(key="none", begins_with_key=False), _NAMED),
    "keys alone": Application(shop(names=False), (Via.conversation,)),
    "nothing": Application(shop(names=False, key="none", begins_with_key=False)),
    # A new key for each message, as of a library that loses what it was handed.
    "new keys": Application(shop(names=False, key="its own")),
    "new keys and names": Application(shop(key="its own"), _NAMED),
    "a service that asks by a key of each request": Application(
        _changed(
            shop(),
            billing=Program(
                "billing",
                ("reserved", "charged"),
                {
                    "reserved": [Reaction("charge", 1.0, names=False, key="its own")],
                    "charged": [Reaction("paid", 1.0, names=False, key="its own")],
                },
            ),
            loyalty=Program("loyalty", ("charge",), {"charge": [Reaction("charged")]}),
        )
    ),
    "a shop that sends something else for some": Application(
        [
            *_changed(
                shop(),
                shop=Program(
                    "shop",
                    ("mailed",),
                    {"mailed": [Reaction("thanks", 0.5, names=False, key="its own")]},
                    begins="placed",
                ),
            ),
            _THANKED,
        ]
    ),
    "a shop that answers some": Application(
        [
            *_changed(
                shop(),
                shop=Program("shop", ("mailed",), {"mailed": [Reaction("thanks", 0.5)]}, "placed"),
            ),
            _THANKED,
        ]
    ),
    "a stock that orders by itself as well": Application(
        _changed(
            shop(),
            stock=Program(
                "stock", ("accepted",), {"accepted": [Reaction("reserved")]}, begins="refill"
            ),
            loyalty=Program("loyalty", ("paid", "refill")),
        ),
        _NAMED,
    ),
    "a shop that starts late": Application(
        _changed(shop(), shop=Program("shop", ("mailed",), begins="placed", begins_after=900)),
        _NAMED,
    ),
    "an audit that publishes now and then": Application(
        [
            *shop(),
            Program("audit", ("placed", "paid"), {"paid": [Reaction("noted", 0.3)]}),
            Program("notes", ("noted",)),
        ]
    ),
}
MOMENTS = (0.1, 0.6, 1.0)
"""The shares of a run after which is asked."""


async def rows(beginnings: int) -> None:
    """Print a line for each application and bound."""
    for name, application in APPLICATIONS.items():
        for via in (Via.links, Via.conversation):
            with tempfile.TemporaryDirectory() as folder:
                await migrate(url := f"sqlite:///{folder}/itc.db")
                store = await Store.open(url)
                records = run(application.programs, beginnings, 3)
                told = [await verdict(store, f"{at}", records, at, via) for at in MOMENTS]
                await store.close()
            ended, lies = told[-1].ended, sum(len(each.lies) for each in told)
            decided = f"{told[-1].decided} of {ended} at rest"
            sys.stdout.write(f"| {name} | {via.name} | {decided} | {lies} lies |\n")


if __name__ == "__main__":
    asyncio.run(rows(int((sys.argv[1:] or ["24"])[0])))
