"""Applications whose end is known, and a judge of what the service says of their conversations.

Programs receive, work for a while and publish; each application differs in what its messages carry
and in who begins what. The simulation knows what led to each message, so of each conversation it
knows at any moment whether something is still to come. Times are µs.

`python -m tests.contract.endings [COUNT [APPLICATION …]]` prints how many that have ended are done,
at rest and in the middle of runs; lies are those that are called done and go on.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import pytest

from app.store import Store, migrate
from app.store.conversations import conversing
from app.stored.capture import Batch
from app.tracker import Bounds, Channel, Deliver, Policy, Publish, Tracker
from app.tracker.links import BUILT_IN, Rules
from app.tracker.quiet import Quiet
from model.conversations.messages import Outcome
from model.words import Via

BEGINNING = 1_700_000_000_000_000
MILLISECOND = 1_000
WAIT, WORK = (3, 40), (10, 200)  # ms until a message is handed over, and until it is handled
LONG = 120_000 * MILLISECOND  # until a run is at rest
EVERY, APART = 150, 1_000  # ms from one beginning to the next, in tests and in the table
GATHERED = 120  # messages of a batch

Carries: TypeAlias = Literal["its cause's", "its own", "none"]
"""The key of a message: that of what led to it, a new one, or none."""


class Reaction(NamedTuple):
    """What a program publishes for a message of a type."""

    kind: str
    share: float = 1.0  # of the messages that it publishes for
    names: bool = True  # the message that led to it
    key: Carries = "its cause's"
    work: tuple[int, int] = WORK
    waits_for: str | None = None  # a message of another type, one for each
    gathers: int = 1  # messages, and names the last
    of_one: bool = False  # conversation


@dataclass(frozen=True)
class Program:
    name: str
    receives: tuple[str, ...] = ()
    reacts: Mapping[str, Sequence[Reaction]] = field(default_factory=dict)
    begins: str | None = None  # a type, again and again
    begins_with_key: bool = True
    begins_after: int = 0  # ms
    stops: tuple[int, int] | None = None  # every so many ms, for so many: what is due comes then


class Record(NamedTuple):
    at: int
    number: int
    roots: frozenset[int]  # the messages that began it
    message: int
    record: Publish | Deliver


def run(
    programs: Sequence[Program],
    beginnings: int,
    seed: int,
    *,
    one_way: bool = False,
    every: int = EVERY,
) -> list[Record]:
    """All that the broker tells of a run, in order; messages of all types may go ``one_way``.

    Conversations begin ``every`` so many ms.
    """
    dice, records = random.Random(seed), list[Record]()
    todo: list[tuple[int, int, Program, str, dict[str, Any] | None, frozenset[int], Any]] = []
    waiting: defaultdict[tuple[str, Reaction, str], list[Any]] = defaultdict(list)
    number = 0

    def later(at: int, program: Program, *what: Any) -> None:
        nonlocal number
        number += 1
        if program.stops and what[0] == "publish":
            every, length = (each * MILLISECOND for each in program.stops)
            into = (at - BEGINNING) % every
            at += max(0, length - into) if at - BEGINNING > every else 0
        heapq.heappush(todo, (at, number, program, *what))

    def span(bounds: tuple[int, int]) -> int:
        return dice.randint(*bounds) * MILLISECOND

    for program in programs:
        for turn in range(beginnings if program.begins else 0):
            at = BEGINNING + (program.begins_after + turn * every) * MILLISECOND
            own = {"correlation_id": f"{program.name}-{turn}"} if program.begins_with_key else {}
            nothing = frozenset[int]()
            later(at + span((0, every)), program, "publish", own, nothing, program.begins)
    messages = 0
    while todo:
        at, turn, program, step, properties, roots, what = heapq.heappop(todo)
        channel = _channel(program, programs)
        if step == "publish":
            messages += 1
            roots = roots or frozenset([messages])
            given = {
                "type": what,
                "headers": {},
                **(properties or {}),
                "message_id": f"m{messages}",
            }
            queues = tuple(each.name for each in programs if what in each.receives)
            keys = ("task",) if one_way else (what,)
            sent = Publish(channel, "x", keys, queues, given, b"")
            records.append(Record(at, turn, roots, messages, sent))
            for each in programs:
                if what in each.receives:
                    got = Deliver(_channel(each, programs), "x", keys, each.name, False, given, b"")
                    later(at + span(WAIT), each, "deliver", None, roots, (messages, got))
            continue
        message, got = what
        records.append(Record(at, turn, roots, message, got))
        kind = got.properties["type"]
        for reaction in _reactions(program, kind):
            own_roots = roots
            if reaction.waits_for is not None:
                # The message that it is published for stays with those that wait.
                here, there = (
                    waiting[program.name, reaction, each] for each in _sides(reaction, kind)
                )
                if not there:
                    here.append((roots, message, got))
                    continue
                other = there.pop(0)
                own_roots = roots | other[0]
                if kind == reaction.waits_for:
                    _, message, got = other
            if reaction.gathers > 1:
                here = waiting[program.name, reaction, str({*roots} if reaction.of_one else "all")]
                here.append((roots, message, got))
                if len(here) < reaction.gathers:
                    continue
                own_roots = roots.union(*(each[0] for each in here))
                here.clear()
            if dice.random() < reaction.share:
                headers = {"causation_id": f"m{message}"} if reaction.names else {}
                key = got.properties.get("correlation_id")
                if reaction.key == "its own":
                    key = f"k{dice.getrandbits(60)}"
                carried = {} if key is None or reaction.key == "none" else {"correlation_id": key}
                parts = {"headers": headers, **carried}
                later(at + span(reaction.work), program, "publish", parts, own_roots, reaction.kind)
    return records


def _reactions(program: Program, kind: str) -> list[Reaction]:
    """What it publishes for a message of a type, or for another that waited for that one."""
    waited_for = (
        reaction
        for each, reactions in program.reacts.items()
        for reaction in reactions
        if each != kind and reaction.waits_for == kind
    )
    return [*program.reacts.get(kind, ()), *waited_for]


def _sides(reaction: Reaction, kind: str) -> tuple[str, str]:
    """Of two types that come together the one that is there, and the other."""
    sides = ("waited for", "waiting")
    return sides if kind == reaction.waits_for else sides[::-1]


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
    store: Store,
    vhost: str,
    records: Sequence[Record],
    share: float,
    via: Via = Via.links,
    newest: int = 0,
    later: int = 0,
) -> Verdict:
    """What is said of each conversation, or the newest, once this share of a run has happened.

    It is said ``later``, in µs after that, when nothing more has.
    """
    trace = await store.traces.create(vhost, Policy.client)
    tracker = Tracker(Policy.client, Bounds(), quiet=Quiet(), rules=Rules(BUILT_IN))
    past = records[: round(len(records) * share)]
    with_time = pytest.MonkeyPatch()
    with_time.setattr(conversing, "present", lambda: past[-1].at + (later or LONG * (share == 1)))
    still = frozenset[int]().union(*(record.roots for record in records[len(past) :]))
    events, roots = [], {}
    for record in past:
        stamped = [*tracker.apply(record.record, record.at)]
        events += stamped
        if record.roots == {record.message} and isinstance(record.record, Publish):
            roots[record.message] = stamped[0].reference
    await store.batches.append(trace.id, Batch(events, tracker.checkpoint(), b"window"))
    outcomes, lies, sentences, decided = Counter[str](), [], [], 0
    roots = dict([*roots.items()][-newest:])
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
_TELLS_TWO = Program("orders", ("placed",), {"placed": [Reaction("noted"), Reaction("accepted")]})

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
    "orders that tell two": Application(
        [*_changed(shop(), orders=_TELLS_TWO), Program("notes", ("noted",))], _NAMED
    ),
    # As Celery's: a worker has tasks that lead on, and others that do not.
    "a worker that answers one type of two": Application(
        _changed(
            shop(),
            orders=_TELLS_TWO,
            stock=Program("stock", ("accepted", "noted"), {"accepted": [Reaction("reserved")]}),
        ),
        _NAMED,
    ),
    "a worker that is slow with one type of two": Application(
        _changed(
            shop(),
            orders=_TELLS_TWO,
            stock=Program(
                *("stock", ("accepted", "noted")),
                {
                    "accepted": [Reaction("reserved")],
                    "noted": [Reaction("filed", work=(900, 4_000))],
                },
            ),
            loyalty=Program("loyalty", ("paid", "filed")),
        ),
        _NAMED,
    ),
    # As Celery's: what leads on and what does not come in conversations of their own.
    "a worker that answers others": Application(
        [
            Program("packers", begins="packed"),
            Program("shop", begins="placed", begins_after=600),
            Program("orders", ("placed",), {"placed": [Reaction("noted")]}),
            Program("stock", ("noted", "packed"), {"packed": [Reaction("settled")]}),
            Program("desk", ("settled",)),
        ],
        _NAMED,
    ),
    "lines that are picked one by one, and packed together": Application(
        [
            Program("shop", begins="placed"),
            Program("orders", ("placed",), {"placed": [Reaction("line", names=False)] * 3}),
            Program("stock", ("line",), {"line": [Reaction("picked", names=False)]}),
            Program(
                *("packing", ("picked",)),
                {"picked": [Reaction("packed", names=False, gathers=3, of_one=True)]},
            ),
            Program("desk", ("packed",)),
        ],
        (Via.conversation,),
    ),
    "an audit that publishes now and then": Application(
        [
            *shop(),
            Program("audit", ("placed", "paid"), {"paid": [Reaction("noted", 0.3)]}),
            Program("notes", ("noted",)),
        ]
    ),
}
_CREDITS = Program("bank", begins="credited")


def _matching(**matched: Any) -> Program:
    return Program(
        "matching",
        ("sent", "credited"),
        {
            "sent": [
                Reaction("matched", waits_for="credited", **matched),
                Reaction("noted", **matched),
            ]
        },
    )


JOINS: Mapping[str, Application] = {
    name: Application(
        [
            *shop(names=names),
            _CREDITS,
            _matching(**matched),
            Program("ledger", ("matched", "noted")),
        ]
    )
    for name, names, matched in (
        ("who waits for two keys, and goes on by one", False, {"names": False}),
        (
            "who waits for two keys, and goes on by a new one",
            False,
            {"names": False, "key": "its own"},
        ),
        ("who waits for two, and names one", True, {}),
        ("who waits for two, and names one, with a new key", True, {"key": "its own"}),
    )
}

# Of a batch the last message alone is named, or gives its key.
BATCHES: Mapping[str, Application] = {
    f"who gathers many, and goes on by {'names' if names else 'keys'}": Application(
        [
            Program("shop", begins="placed"),
            Program(
                "statistics",
                ("placed",),
                {"placed": [Reaction("counted", names=names, gathers=GATHERED)]},
            ),
            Program("board", ("counted",)),
        ]
    )
    for names in (True, False)
}

# Programs that do not work evenly: one that stands still now and then, one that is slow with some,
# and one whose second message for another comes late.
UNEVEN: Mapping[str, Application] = {
    "orders that stop": Application(
        [
            *_changed(shop(), orders=replace(_TELLS_TWO, stops=(6_000, 2_500))),
            Program("notes", ("noted",)),
        ]
    ),
    "a slow second": Application(
        [
            *_changed(
                shop(),
                orders=replace(
                    _TELLS_TWO,
                    reacts={"placed": [Reaction("accepted"), Reaction("noted", work=(10, 3_000))]},
                ),
            ),
            Program("notes", ("noted",)),
        ]
    ),
    "a slow second for some": Application(
        [
            *_changed(
                shop(),
                orders=replace(
                    _TELLS_TWO,
                    reacts={
                        "placed": [Reaction("accepted"), Reaction("noted", 0.2, work=(900, 3_000))]
                    },
                ),
            ),
            Program("notes", ("noted",)),
        ]
    ),
    "a worker that answers few of a type, and late": Application(
        _changed(
            shop(),
            orders=_TELLS_TWO,
            stock=Program(
                *("stock", ("accepted", "noted")),
                {
                    "accepted": [Reaction("reserved")],
                    "noted": [Reaction("filed", 0.2, work=(200, 2_000))],
                },
            ),
            loyalty=Program("loyalty", ("paid", "filed")),
        ),
    ),
}
MOMENTS = (0.1, 0.3, 0.6, 0.8, 1.0)
"""The shares of a run after which is asked."""


async def rows(beginnings: int, names: Sequence[str]) -> None:
    """Print a line for each application and bound, and for what tells and is asked at any time."""
    total: Counter[str] = Counter()
    applications = {**APPLICATIONS, **JOINS, **BATCHES, **UNEVEN}
    for name in names or applications:
        application = applications[name]
        for via in (Via.links, Via.conversation):
            with tempfile.TemporaryDirectory() as folder:
                await migrate(url := f"sqlite:///{folder}/itc.db")
                store = await Store.open(url)
                records = run(application.programs, beginnings, 3, every=APART)
                verdicts = [await verdict(store, f"{at}", records, at, via) for at in MOMENTS]
                until = [f"{each.decided}/{each.ended}" for each in verdicts[:-1]]
                await store.close()
            lies = sum(len(each.lies) for each in verdicts)
            total["lies"] += lies
            if via in application.tells:
                total["decided"] += sum(each.decided for each in verdicts)
                total["ended"] += sum(each.ended for each in verdicts)
            decided = f"{' '.join(until)} | {verdicts[-1].decided} of {verdicts[-1].ended} at rest"
            sys.stdout.write(f"| {name} | {via.name} | {decided} | {lies} lies |\n")
            sys.stdout.flush()
    sys.stdout.write(f"where messages tell: {total['decided']} of {total['ended']}\n")
    sys.stdout.write(f"in all: {total['lies']} lies\n")


if __name__ == "__main__":
    asyncio.run(rows(int((sys.argv[1:] or ["24"])[0]), sys.argv[2:]))
