"""What the service finds by itself with real client libraries: ``python -m bench.likely --help``.

The programs of `tests.clients` work beside the whole service, which has no built-in rule of links,
so that what libraries name is hidden from it. Nobody does anything: what is proposed, and when, is
its own doing. Programs whose library ties messages together by nothing run a second time with an
order's number in their bodies. The judge is what the programs have written down: a proposal is
*right* in the share of what it ties together that belongs together.

The table has, of pairs of publishes of which the one led to the other, precision and recall of what
is *caused*, *likely* and *may have* been; without a proposal likely is as caused. *Exact*: for how
many of twelve requests the conversation is all of its messages and no other, once the first
proposal is adopted. *In hand*: for how many publishes that had a cause exactly one message was in
hand, and for which share that was the cause; and how many others there were.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

from app.api.likely import overlay_with
from app.restamp.replay import previews
from app.store import Store
from app.stored.capture import Trace
from app.stored.likely import Overlay
from app.stored.proposals import RuleProposal, TraceCoverage
from app.traces.pipeline import PipelineSettings
from drills.acts.asking import everything
from drills.judge import opened
from drills.service import Service
from model.words import Via
from tests.clients.conftest import EVERYWHERE, Pipeline
from tests.clients.judge import Name, Pair, Verdict, causes_by, judged
from tests.clients.test_libraries import LIBRARIES
from tests.clients.truth import Truth
from tools.plugin import NAME, build
from tools.servers import Broker, RabbitNode

# So often some requests are made, one after another: enough for a first look, at 300 publishes.
FRONTS, REQUESTS = 8, 8
FEWER = {"celery": 6, "dramatiq": 7, "moleculer": 6, "rascal": 6}
OWN_KEY = ("celery", "dramatiq", "cloudevents in Python", "cloudevents", "moleculer", "rascal")
KEYED = (
    *("kombu", "pika on one connection", "pika on two connections", "aio-pika", "faststream"),
    *("amqplib", "rascal", "rabbitpy"),
)
JUDGED, MOST_SECONDS, LOOK_SECONDS, STORED_SECONDS = 12, 120.0, 0.5, 20.0
HEADS = (
    *("library", "key", "proposed", "publishes", "after", "right", "exact"),
    *("caused", "likely", "may have", "in hand"),
)


class Found(NamedTuple):
    """What there was after the first look: when, and what had been published and was found."""

    seconds: float
    seen: TraceCoverage


class Judge(NamedTuple):
    """Events by the names of their messages, and which messages belong together."""

    verdict: Verdict
    names: Mapping[int, str]  # of publishes and deliveries
    together: Mapping[str, frozenset[str]]
    participants: frozenset[int]  # of all events

    def share_right(self, overlay: Overlay) -> float | None:
        """The share of the pairs of an overlay that belong together; None without any.

        Of messages that the library sends on its own account nothing is known.
        """
        names = self.names
        right = [
            (names[cause.event], names[effect]) in self.verdict.true
            for effect, causes in overlay.causes.items()
            for cause in causes
            if {cause.event, effect} <= names.keys()
        ]
        groups: defaultdict[bytes, set[str]] = defaultdict(set)
        for event, keys in overlay.keys.items():
            for key in keys if event in names else ():
                groups[key].add(names[event])
        for those in groups.values():
            first, *others = sorted(those)
            right += [each in self.together[first] for each in others]
        return sum(right) / len(right) if right else None


def components(truth: Truth) -> dict[str, frozenset[str]]:
    """Of each message those that belong to it, by way of the broker."""
    of = {message: {message} for message in truth.publisher}
    for cause, effect in truth.direct - truth.joined:
        if of[cause] is not of[effect]:
            joined = of[cause] | of[effect]
            of.update(dict.fromkeys(joined, joined))
    return {message: frozenset(those) for message, those in of.items()}


async def first_look(service: Service, store: Store, vhost: str) -> Found | None:
    """What was found first; None where nothing was looked for in time."""
    began = time.monotonic()
    while (seconds := time.monotonic() - began) < MOST_SECONDS:
        if (await service.get("proposals", vhost=vhost))["looked_at"] is not None:
            trace = await store.traces.find(vhost)
            assert trace is not None
            [seen] = await store.proposals.coverage([trace.id])
            return Found(seconds, seen)
        await asyncio.sleep(LOOK_SECONDS)
    return None


async def overlaid(store: Store, trace: Trace, proposals: Collection[RuleProposal]) -> Overlay:
    """What proposals would say of all events."""
    overlay = Overlay(1, trace.last_event_id)
    reading = previews(store, PipelineSettings(shared_places=EVERYWHERE))
    await overlay_with(proposals, overlay, trace, store, reading)
    return overlay


async def exact(service: Service, judge: Judge) -> str:
    """For how many of some requests the conversation is theirs."""
    caused = {effect for _, effect in judge.verdict.carried}
    roots = [message for message in judge.verdict.ids if message not in caused]
    chosen, right = roots[:: max(1, len(roots) // JUDGED)][:JUDGED], 0
    for root in chosen:
        path = f"conversations/{judge.verdict.ids[root]}"
        told = await service.get(path, via="conversation")
        names = {judge.names.get(each["event"]) for each in told["messages"]}
        right += names == judge.together[root]
        if names != judge.together[root]:
            print(f"told of {root}: {names}; in truth {judge.together[root]}", file=sys.stderr)
    return f"{right}/{len(chosen)}"


async def in_hand(store: Store, trace: Trace, judge: Judge) -> str:
    """Of how many reactions one message was in hand, and how often that had led to them."""
    asked = trace.id, judge.participants, 1, trace.last_event_id
    found = await store.copies.alone_in_hand(*asked)
    caused = {effect for _, effect in judge.verdict.true}
    right = [
        (judge.names.get(each.message), judge.names.get(each.publish)) in judge.verdict.true
        for each in found
        if judge.names.get(each.publish) in caused
    ]
    others = sum(judge.names.get(each.publish, each.publish) not in caused for each in found)
    return f"{len(right)} of {len(caused)}: {_share(sum(right), len(right))}, {others} others"


def told_of(pairs: Collection[Pair], verdict: Verdict) -> str:
    """Precision, and recall of what messages have carried from one to the other."""
    right, carried = verdict.true.intersection(pairs), verdict.carried.intersection(pairs)
    return f"{_share(len(right), len(pairs))} {_share(len(carried), len(verdict.carried))}"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.2f}" if whole else "-"


async def row(broker: Broker, vhost: str, library: str, keyed: bool, folder: Path) -> list[str]:
    """A line of the table."""
    url, chosen = f"sqlite:///{folder / 'itc.db'}", LIBRARIES[library]
    settings = {"ITC_SHARED_PLACES": ",".join(EVERYWHERE), "ITC_LINKS": "false"}
    service = Service(broker, url, folder, settings)
    (folder / "pipeline").mkdir()
    pipeline = Pipeline(broker, vhost, folder / "pipeline")
    async with service.tracing(vhost), opened(url) as store:
        try:
            if not chosen.declares:
                pipeline.add_queues()
            *others, front = chosen.commands.items()
            for each in others:
                pipeline.start(*each, requests=0, keyed=keyed)
            looking = asyncio.create_task(first_look(service, store, vhost))
            for _ in range(FRONTS):
                first = pipeline.start(*front, requests=FEWER.get(library, REQUESTS), keyed=keyed)
                truth = await pipeline.truth(first)
            found = await looking
            with redirect_stdout(sys.stderr):  # what programs said at last
                pipeline.close()
            has_key = "order" if keyed else "its own" if library in OWN_KEY else ""
            judge = await judge_of(store, vhost, truth, chosen.name)
            return [library, has_key, *await _cells(service, store, vhost, judge, found)]
        finally:
            pipeline.close()


async def judge_of(store: Store, vhost: str, truth: Truth, name: Name) -> Judge:
    """The judge, once all of it is stored."""
    until = time.monotonic() + STORED_SECONDS
    while True:
        events = await everything(store, vhost)
        verdict = judged(events, truth, name)
        if not verdict.failures or time.monotonic() > until:
            break
        await asyncio.sleep(LOOK_SECONDS)
    if verdict.failures:
        print(f"not as it was: {verdict.failures[:3]}", file=sys.stderr)
    names = {event.id: named for event in events if (named := name(event)) is not None}
    acting = frozenset(each.participant for each in events)
    return Judge(verdict, names, components(truth), acting)


async def _cells(
    service: Service, store: Store, vhost: str, judge: Judge, found: Found | None
) -> list[str]:
    trace = await store.traces.find(vhost)
    assert trace is not None
    proposals = [] if found is None else [*found.seen.found]
    ways = [await causes_by(store, judge.verdict, via) for via in (Via.links, Via.any)]
    overlay = await overlaid(store, trace, proposals)
    likely = await causes_by(store, judge.verdict, Via.conversation, overlay)
    pairs = [told_of(each, judge.verdict) for each in (ways[0], likely, ways[1])]
    pairs.append(await in_hand(store, trace, judge))
    if found is None or not proposals:
        return ["nothing", *_when(found), "", "", *pairs]
    shares = [judge.share_right(await overlaid(store, trace, [each])) for each in proposals]
    right = " ".join("-" if each is None else f"{each:.2f}" for each in shares)
    said = "; ".join(each.says for each in proposals)
    if not proposals[0].rules:
        return [said, *_when(found), right, "", *pairs]
    adopt = f"proposals/{proposals[0].id}/adopt"
    await service.get(adopt, method="POST", vhost=vhost, past="true")
    return [said, *_when(found), right, await exact(service, judge), *pairs]


def _when(found: Found | None) -> tuple[str, str]:
    if found is None:
        return "", "never"
    return str(found.seen.looked_publishes), f"{found.seconds:.0f} s"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.likely", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("libraries", nargs="*", metavar="LIBRARY", help=", ".join(LIBRARIES))
    parser.add_argument("--keyed", action="store_true", help="only with a key in the bodies")
    options = parser.parse_args()
    runs = [(each, False) for each in LIBRARIES] * (not options.keyed)
    runs += [(each, True) for each in KEYED]
    print(f"| {' | '.join(HEADS)} |\n|{'---|' * len(HEADS)}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        build(Path(name))
        with RabbitNode(plugins=(NAME,), plugins_folder=Path(name)) as broker:
            for library, keyed in runs:
                if options.libraries and library not in options.libraries:
                    continue
                with broker.fresh_vhost() as vhost, tempfile.TemporaryDirectory() as folder:
                    cells = asyncio.run(row(broker, vhost, library, keyed, Path(folder)))
                print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
