"""The tracker's answers on what a model of the broker did, which knows the truth.

On a fault the fewest acts that show it are printed. ``MODEL_RUNS=5000`` plays so many of each
version, other ones than always.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest

from app.tracker import Deliver
from drills.acts.topology import DEAD, DIRECT, DeadLetters, Layout, QueueBinding, QueueRules
from model.words import Match
from tests.model_broker.judged import Answers, drawn, replayed, shortest
from tests.model_broker.manners import MANNERS
from tests.model_broker.script import Act, shortened

NEW = int(os.environ.get("MODEL_RUNS", "0"))
RUNS, ACTS = NEW or 75, 80
PAIRS = 200_000
# Of all pairs, as they were seen last.
MOST_UNKNOWN, MOST_MAY_HAVE = 0.0090, 0.573


def test_nothing_false_is_said_of_any_pair_and_little_is_left_open() -> None:
    total: Counter[str] = Counter()
    for version in MANNERS:
        for seed in range(10_000 if NEW else 0, (10_000 if NEW else 0) + RUNS):
            acts, run = drawn(version, seed, ACTS)
            answers = run.answers()
            assert not answers.faults, shortest(version, seed, acts, answers.faults[0])
            total += answers.counts
    print(dict(total))
    assert total.total() > PAIRS
    if not NEW:
        assert total["unknown"] < MOST_UNKNOWN * total.total(), total
        assert total["may have"] < MOST_MAY_HAVE * total.total(), total


@pytest.mark.parametrize("version", MANNERS)
def test_a_message_like_no_other_finds_its_publish_whatever_restarts(version: str) -> None:
    matches: Counter[Match] = Counter()
    for seed in range(10):
        acts, run = drawn(version, seed, ACTS, are_alike=False)
        whole = replayed(version, seed, [act for act in acts if act.what != "restart"])
        events = run.events()
        for number, (event, other) in enumerate(zip(events, whole.events(), strict=True)):
            matches[event.match] += 1
            assert (event.match, event.seq) == (other.match, other.seq)
            if isinstance(event.record, Deliver):
                assert event.cause is events[run.broker.publish_of[number]].reference
                assert event.cause.lamport < event.lamport
    assert {Match.routed, Match.redelivered, Match.dead_lettered} <= matches.keys()


def test_a_script_is_shortened_to_the_acts_that_matter() -> None:
    acts, _ = drawn("3.10", 2, 3 * ACTS)

    def dies_twice(some: list[Act]) -> bool:
        records = replayed("3.10", 2, some).broker.records
        headers = [record.properties.get("headers", {}) for record in records]
        return any(len(header.get("x-death", ())) > 1 for header in headers)

    assert dies_twice(acts)
    script = shortened(acts, dies_twice)
    assert 2 < len(script) < 8
    assert any("publish(" in repr(act) for act in script)
    assert all(not dies_twice([*script[:n], *script[n + 1 :]]) for n in range(len(script)))


def play(version: str, *acts: Act) -> Answers:
    layout = Layout()
    refuses = {"x-max-length": 1, "x-overflow": "reject-publish-dlx"}
    layout.add(QueueRules("refusing", DeadLetters("", "parked"), more=refuses))
    for name in ("parked", "audit", "stream"):
        more = {"x-queue-type": "stream"} if name == "stream" else {}
        layout.add(QueueRules(name, more=more))
    for rules in (
        QueueRules("dying", DeadLetters(DEAD)),
        QueueRules("work", DeadLetters("", "parked")),
        QueueRules("relayed", DeadLetters(DIRECT, "a")),
        QueueRules("one", DeadLetters(DEAD), longest=1),
        QueueRules("two", DeadLetters(DEAD), longest=2),
    ):
        layout.add(rules)
    layout.bindings += [QueueBinding(DEAD, "", "parked"), QueueBinding(DEAD, "", "audit")]
    layout.bindings += [QueueBinding(DIRECT, "a", name) for name in ("stream", "relayed")]
    return replayed(version, 0, [*acts], layout).answers()


def sends(who: str, queue: str, body: str = "m", exchange: str = "", **properties: Any) -> Act:
    return Act("publish", who, {"exchange": exchange, "key": queue, "body": body, **properties})


def gets(who: str, queue: str) -> Act:
    return Act("get", who, {"queue": queue})


def settles(who: str, outcome: str) -> Act:
    return Act("settle", who, {"place": 0, "outcome": outcome})


def reads(who: str, offset: int) -> Act:
    return Act("read", who, {"stream": "stream", "offset": offset})


def replays(who: str, key: str) -> Act:
    return Act("replay", who, {"place": 0, "key": key})


BRIEF = {"expiration": "2000"}
PAUSE = Act("wait", "dan", {"milliseconds": 3_000})
RESTART, LOOK = Act("restart", "the service"), Act("look", "the service")
# What was answered wrongly once.
SCRIPTS: dict[str, list[Act]] = {
    "the second dead letter of a death before a restart, and an equal message since": [
        *(sends("ann", "dying", **BRIEF), PAUSE, gets("dan", "audit")),
        *(sends("cid", "dying", **BRIEF), RESTART, gets("dan", "parked")),
    ],
    "the second dead letter of one of two deaths before a restart": [
        *(sends("bob", "dying", **BRIEF), PAUSE, sends("dan", "dying"), gets("ann", "parked")),
        *(RESTART, gets("bob", "audit")),
    ],
    "equal messages pushed out by several": [
        *(Act("consume", "cid", {"queue": "parked", "prefetch": 9}), sends("cid", "one")),
        *(sends("ann", "one"), sends("bob", "one", "n")),
    ],
    "a dead letter that waits where another is published with its deaths": [
        *(sends("bob", "dying"), gets("ann", "dying"), settles("ann", "discard")),
        *(gets("bob", "parked"), replays("bob", "audit"), gets("dan", "audit")),
    ],
    "a message published with its deaths, and one like it without": [
        *(sends("cid", "dying", **BRIEF), PAUSE, gets("bob", "audit"), replays("bob", "two")),
        *(sends("ann", "two"), sends("cid", "two", "n"), gets("dan", "audit")),
    ],
    "one that was given back pushed out before equal ones": [
        *(sends("dan", "two"), gets("cid", "two"), settles("cid", "nack"), sends("bob", "two")),
        *(sends("ann", "two"), gets("dan", "parked"), gets("ann", "two")),
    ],
    "one of two dead letters of equal messages given back": [
        *(sends("ann", "work"), sends("bob", "work"), gets("dan", "work"), gets("dan", "work")),
        *(settles("dan", "discard"), settles("dan", "discard"), gets("cid", "parked")),
        *(gets("ann", "parked"), Act("close", "cid"), gets("bob", "parked")),
    ],
    "a rejected message that two read from a stream": [
        *(sends("dan", "relayed"), gets("cid", "relayed"), settles("cid", "discard")),
        *(reads("ann", 0), reads("bob", 0)),
    ],
    "a rejected message in a stream that has it already": [
        *(sends("ann", "a", exchange=DIRECT), gets("cid", "relayed"), settles("cid", "discard")),
        reads("bob", 1),
    ],
    "a dead letter of a message that seems to be gone since a later one was handed over": [
        *(sends("cid", "two"), PAUSE, sends("dan", "audit", "o"), PAUSE, sends("ann", "two")),
        *(sends("bob", "two", "n"), sends("cid", "two", "o"), gets("dan", "two")),
        gets("bob", "parked"),
    ],
    "one that a full queue refused, as another was given back": [
        *(sends("bob", "refusing", "a"), gets("ann", "refusing"), settles("ann", "nack")),
        *(sends("dan", "refusing", "b"), sends("cid", "refusing", "c"), gets("bob", "parked")),
    ],
    "a dead letter of one of two, of which somebody holds the other": [
        *(sends("dan", "one"), sends("bob", "one"), gets("cid", "one")),
        *(sends("cid", "audit", "n"), settles("cid", "acknowledge"), LOOK, RESTART),
        gets("dan", "parked"),
    ],
    "a second dead letter of what was pushed out before a restart": [
        *(sends("ann", "two"), sends("ann", "two", "n"), sends("cid", "two", "o")),
        *(gets("dan", "two"), gets("bob", "two"), sends("dan", "two", "p"), RESTART),
        *(gets("bob", "audit"), gets("dan", "parked")),
    ],
    "one of several that were given back rejected after a restart": [
        *(sends("bob", "work"), gets("ann", "work"), settles("ann", "discard")),
        *(
            gets("bob", "parked"),
            replays("bob", "dying"),
            gets("cid", "dying"),
            Act("close", "cid"),
        ),
        *(gets("dan", "dying"), RESTART, settles("dan", "discard"), gets("ann", "audit")),
    ],
}


@pytest.mark.parametrize("version", MANNERS)
@pytest.mark.parametrize("script", SCRIPTS)
def test_what_was_answered_wrongly_once(script: str, version: str) -> None:
    assert not play(version, *SCRIPTS[script]).faults
