"""What is said of real clients' conversations: `python -m tests.clients.endings --help`.

Each library's pipeline runs beside the whole service. While it runs and at rest the service is
asked for the outcome of every conversation; the programs' diaries tell afterwards which of them had
ended then. A *lie* is one that is called done and goes on. *Sound* says whether no doubt is left,
and *unrelated* of how many pairs of publishes that have nothing to do with each other it is said
that the one cannot have led to the other, for certain.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

from app.store import Store
from bench.likely import Judge, judge_of
from drills.acts.asking import everything
from drills.judge import opened
from drills.service import Service
from model.conversations.messages import Outcome
from model.event import Event
from model.words import EventType, Via
from tests.clients.conftest import EVERYWHERE, Pipeline
from tests.clients.test_libraries import LIBRARIES
from tools.plugin import NAME, build
from tools.servers import Broker, RabbitNode

# A consumer that is new is waited for, for over a minute.
ASK_SECONDS, REST_SECONDS = 0.5, 90.0
MOST_PAIRS = 60
WAYS = (Via.links, Via.conversation)


class Asked(NamedTuple):
    """What was said: outcomes by way and root, and the newest events before and after each."""

    newest: int  # before all
    after: Mapping[tuple[Via, int], int]
    outcomes: Mapping[tuple[Via, int], Outcome]
    sentences: Mapping[tuple[Via, int], str]


async def ask(store: Store, vhost: str) -> Asked:
    """The outcome of the conversation of each publish that is its own root."""
    trace = await store.traces.find(vhost)
    assert trace is not None
    events = await everything(store, vhost)
    outcomes, sentences, after = {}, {}, {}
    for event in events:
        if event.type is EventType.published:
            for via in WAYS:
                found = (await store.conversations.of_event(event.id, via)).conversation
                if found.root == event.id:
                    outcomes[via, event.id] = found.outcome
                    sentences[via, event.id] = found.sentence
                    if (now := await store.traces.find(vhost)) is not None:
                        after[via, event.id] = now.last_event_id
    return Asked(max((event.id for event in events), default=0), after, outcomes, sentences)


async def row(broker: Broker, vhost: str, library: str, folder: Path, times: int) -> list[str]:
    """A line of the table."""
    url, chosen = f"sqlite:///{folder / 'itc.db'}", LIBRARIES[library]
    service = Service(broker, url, folder, {"ITC_SHARED_PLACES": ",".join(EVERYWHERE)})
    (folder / "pipeline").mkdir()
    pipeline = Pipeline(broker, vhost, folder / "pipeline")
    async with service.tracing(vhost), opened(url) as store:
        try:
            if not chosen.declares:
                pipeline.add_queues()
            for program, command in chosen.commands.items():
                front = pipeline.start(program, command, requests=2 * times * chosen.requests)
            answers, end = list[Asked](), asyncio.create_task(pipeline.truth(front))
            while not end.done():
                await asyncio.sleep(ASK_SECONDS)
                answers.append(await ask(store, vhost))
            truth = await end
            await asyncio.sleep(REST_SECONDS)
            judge = await judge_of(store, vhost, truth, chosen.name)
            answers.append(await ask(store, vhost))
            with redirect_stdout(sys.stderr):  # what programs said at last
                pipeline.close()
            lasts = last_events(judge, await everything(store, vhost))
            cells = [cell(answers, lasts, via) for via in WAYS]
            return [library, *cells, *await soundness(service, store, vhost, judge)]
        finally:
            pipeline.close()


def last_events(judge: Judge, events: Sequence[Event]) -> dict[int, int]:
    """By publish, the last event of all that belongs together with it in truth."""
    newest = Counter[str]()
    for event in events:
        if name := judge.names.get(event.id):
            newest[name] = max(newest[name], event.id)
    return {
        judge.verdict.ids[name]: max(newest[other] for other in together)
        for name, together in judge.together.items()
        if name in judge.verdict.ids
    }


def cell(answers: Sequence[Asked], lasts: Mapping[int, int], via: Via) -> str:
    """How many that had ended were done, while the run went on and at rest; and lies."""
    *running, rest = answers
    done, ended, lies = 0, 0, 0
    for asked in running:
        for (way, root), outcome in asked.outcomes.items():
            if way is via and root in lasts:
                has_ended = lasts[root] <= asked.newest
                ended += has_ended
                done += has_ended and outcome is Outcome.done
                goes_on = lasts[root] > asked.after[way, root]
                lies += goes_on and outcome is Outcome.done
                if goes_on and outcome is Outcome.done:
                    told = asked.sentences[way, root]
                    print(f"{root} goes on up to {lasts[root]}: {told}", file=sys.stderr)
    for (way, root), outcome in rest.outcomes.items():
        if way is via and root in lasts and outcome is not Outcome.done:
            print(f"{outcome} at rest: {root}: {rest.sentences[way, root]}", file=sys.stderr)
    last = Counter(
        str(outcome)
        for (way, root), outcome in rest.outcomes.items()
        if way is via and root in lasts
    )
    words = " ".join(f"{word} {count}" for word, count in sorted(last.items()))
    return f"running {done} of {ended}, {lies} lies; at rest {words}"


async def soundness(service: Service, store: Store, vhost: str, judge: Judge) -> list[str]:
    """Whether the trace is sound, and of unrelated pairs how many cannot have, for certain."""
    trace = await store.traces.find(vhost)
    assert trace is not None
    doubts = await store.doubts.of_trace(trace.id)
    ids = judge.verdict.ids
    related = judge.verdict.true
    clocks = {event.id: event.stamp for event in await everything(store, vhost)}
    pairs = [
        (ids[a], ids[b])
        for a in sorted(ids)
        for b in sorted(ids)
        if a < b
        and (a, b) not in related
        and (b, a) not in related
        and not clocks[ids[a]].leq(clocks[ids[b]])
        and not clocks[ids[b]].leq(clocks[ids[a]])
    ]
    step = max(1, len(pairs) // MOST_PAIRS)
    answers = Counter[str]()
    for a, b in pairs[::step]:
        answer = await service.get(f"compare/{a}/{b}")
        certain = answer["complete"] and answer["sound"]
        answers[f"{answer['answer']}{', sound' if certain else ''}"] += 1
    words = " ".join(f"{word}: {count}" for word, count in answers.most_common())
    return ["; ".join(map(str, doubts)) or "sound", words]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="What is said of real clients' conversations.")
    parser.add_argument("libraries", nargs="*", metavar="LIBRARY", help="all, if none is named")
    parser.add_argument("--plugin", action="store_true", help="with the broker plugin")
    parser.add_argument("--times", type=int, default=1, help="as many requests so many times")
    chosen = parser.parse_args()
    print(
        "| library | links | conversation | doubts | unrelated |\n|---|---|---|---|---|", flush=True
    )
    with tempfile.TemporaryDirectory() as name:
        build(Path(name))
        plugins = (NAME,) if chosen.plugin else ()
        with RabbitNode(plugins=plugins, plugins_folder=Path(name)) as broker:
            for library in chosen.libraries or LIBRARIES:
                with broker.fresh_vhost() as vhost, tempfile.TemporaryDirectory() as folder:
                    cells = asyncio.run(row(broker, vhost, library, Path(folder), chosen.times))
                print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
