"""Traces that run as in the service, into a real database, of messages that `drills.fuzz` makes.

    python -m drills.fuzz_traces sqlite|postgresql [INPUTS] [--seed N]

Odd ones and forged ones, damaged and not; settlements too, which a broker takes from nobody else.
Meanwhile copies get lost and the queue breaks off. A trace is wrong if it failed, if a message
made it restart, or if not all that came is stored or in quarantine as the parser says.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import islice
from typing import Any, NamedTuple, cast, get_args

import hypothesis
from hypothesis import HealthCheck, given, settings

from app.broker.firehose import parse
from app.errors import OutageError
from app.store import Store, migrate
from app.stored.capture import Trace
from app.traces.life import Standing, TraceState
from app.traces.pipeline import PipelineSettings
from app.traces.runs.attempts import Capture, RunningTrace
from app.traces.runs.feed import Feed
from app.traces.runs.run import Run
from app.tracker import Tracker
from drills.fuzz import INPUTS, Message, damaged, messages
from model.deaths import LossWord
from model.times import now
from tests.introductions import NOBODY
from tests.unit.run_ends import FilledSource
from tools.servers import PostgresServer

ROUND = 10_000  # messages of a trace
VARIANTS = 24  # of each message, of which some are undamaged and equal
KEYS = ("publish.x", "publish.a", "deliver.q", "deliver.a\0") * 2  # that each has, too
BATCH = 500
LOST = 20  # copies, with each portion
CUT = 0.02  # the chance that the queue breaks off before one
LOOK_SECONDS = 0.05


def made(inputs: int, seed: int) -> list[Message]:
    """This many trace messages, always the same, in some order."""
    chance, found = random.Random(seed), list[Message]()

    @settings(
        max_examples=-(-inputs // VARIANTS),
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.seed(seed)
    @given(messages())
    def take(message: Message) -> None:
        key, header, body = message
        is_settlement = key.startswith("settle.")
        broken = damaged(body if is_settlement else header, chance)
        found.extend((key if is_settlement else other, header, body) for other in KEYS)
        for each in islice(broken, VARIANTS - len(KEYS)):
            if is_settlement:
                found.append((key, header, each))
            else:
                found.append((chance.choice((key, *KEYS)), each, body))

    take()
    chance.shuffle(found)
    return found[:inputs]


class Outcome(NamedTuple):
    """What came, by kind, and what is wrong with what the trace made of it."""

    kinds: Counter[str]
    wrong: list[str]


async def traced(
    store: Store, vhost: str, found: Sequence[Message], chance: random.Random
) -> Outcome:
    """Run a trace of messages until all are stored, or it has failed."""
    source, trace = FilledSource(found), await store.traces.create(vhost, "client")
    by = PipelineSettings(mark_seconds=0, audit_seconds=0, batch_events=BATCH)
    running = RunningTrace(trace, Capture(store, cast("Any", source), by, NOBODY, Feed()), None)

    def disturb() -> None:
        stage = running._stage
        if isinstance(stage, Run):
            waiting, _ = stage.recorder.tracker.pending()
            lost = chance.sample(waiting, min(LOST, len(waiting)))
            words = get_args(LossWord)
            stage._queues._losses.extend((copy, now(), chance.choice(words)) for copy in lost)
        if chance.random() < CUT:
            raise OutageError("the queue broke off")

    source.is_through, source.before_each = running.drain, disturb
    while running.is_alive and running.snapshot().standing.state is not TraceState.failed:
        await asyncio.wait({running._task}, timeout=LOOK_SECONDS)
    standing = running.snapshot().standing
    if running.is_alive:
        await running.end(drain=False, deadline=LOOK_SECONDS)
    for place in await store.durations.behind([trace.id]):
        await store.durations.count(await store.durations.next(place, len(found)))
    return await judged(store, trace, standing, found)


async def judged(
    store: Store, trace: Trace, standing: Standing, found: Sequence[Message]
) -> Outcome:
    """Compare what is stored with what the parser says of the messages."""
    kinds = Counter(type(parse(*each, 0)).__name__ for each in found)
    [stored] = [each for each in await store.traces.list() if each.id == trace.id]
    counters = Tracker.stored_totals(stored.checkpoint).counters
    there = {
        "Publish": counters.published,
        "Deliver": counters.received - counters.untraced,
        "Unreadable": counters.quarantined,
    }
    wrong = [
        f"{kinds[kind]} of {kind} came, {count} are there"
        for kind, count in there.items()
        if count != kinds[kind]
    ]
    if stored.events != counters.published + counters.received:
        wrong.append(f"{stored.events} events are stored, and others were counted")
    if standing.restarts:
        wrong.append(
            f"it was {standing.state}, {standing.restarts} restarts: {standing.last_error}"
        )
    return Outcome(kinds, wrong)


async def fuzzed(url: str, inputs: int, seed: int) -> Counter[str]:
    """Have traces store this many messages; returns how many came of which kind, or are wrong."""
    await migrate(url)
    store, total = await Store.open(url), Counter[str]()
    try:
        for first in range(0, inputs, ROUND):
            seed += 1
            found = made(min(ROUND, inputs - first), seed)
            outcome = await traced(store, f"fuzz {seed}", found, random.Random(seed))
            total += outcome.kinds + Counter(traces=1, wrong=bool(outcome.wrong))
            for each in outcome.wrong:
                print(f"seed {seed}: {each}", flush=True)
    finally:
        await store.close()
    return total


def fuzz_store(kind: str, inputs: int, seed: int) -> int:
    """Fuzz a database of a kind, made for it alone; returns the exit code."""
    with ExitStack() as stack:
        if kind == "sqlite":
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            url = f"sqlite:///{folder}/itc.db"
        else:
            url = stack.enter_context(PostgresServer()).create_database("fuzz")
        total = asyncio.run(fuzzed(url, inputs, seed))
    wrong, traces = total.pop("wrong", 0), total.pop("traces")
    print(f"{total.total()} inputs in {traces} traces, {wrong} failed or wrong: {dict(total)}")
    return os.EX_OK if not wrong else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m drills.fuzz_traces")
    parser.add_argument("store", choices=("sqlite", "postgresql"))
    parser.add_argument("inputs", nargs="?", type=int, default=INPUTS)
    parser.add_argument("--seed", type=int, default=0, help="of the first trace")
    options = parser.parse_args()
    sys.exit(fuzz_store(options.store, options.inputs, options.seed))
