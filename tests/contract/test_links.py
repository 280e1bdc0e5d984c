"""Walks by links and by conversations, and ways between events, against a naive closure."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator

import pytest

from app.store import Store
from app.store.causality import links, walks
from app.store.database import chunks
from app.stored.capture import Batch
from app.tracker import Bounds, Policy, Tracker
from app.tracker.events import Edge, StampedEvent
from app.tracker.links import BUILT_IN, Names, Rules
from app.tracker.records import Channel, Deliver, Publish
from itc import Relation, compare
from model.words import Awareness, EdgeKind, EventType, Via
from tests.contract.history import BEGINNING, History
from tests.contract.links import LinkedHistory, conversation, link, naming

SHOP, BILLING = (
    Channel("rabbit@one", f"10.0.0.{number}:1 -> 10.0.0.9:5672", 1, "shop") for number in (1, 2)
)


def _id(event: StampedEvent) -> int:
    assert event.reference.id is not None
    return event.reference.id


def _evident(events: list[StampedEvent]) -> Iterator[tuple[int, int]]:
    """(cause, effect) of all messages and links."""
    for event in events:
        if event.cause is not None and event.cause.id is not None and not event.quiet:
            yield event.cause.id, _id(event)
        for edge in _followed(event):
            assert edge.cause.id is not None
            yield edge.cause.id, _id(event)


def _followed(event: StampedEvent) -> list[Edge]:
    return [each for each in event.edges if each.kind is not EdgeKind.candidate]


def _conversing(events: list[StampedEvent]) -> Iterator[tuple[int, int]]:
    for before in events:
        for after in events:
            if (
                before.participant == after.participant
                and before.record.event_type == EventType.received
                and after.record.event_type == EventType.published
                and _id(before) < _id(after)
                and {*before.names.conversations} & {*after.names.conversations}
            ):
                yield _id(before), _id(after)


class Closure:
    """What can be reached, by looking everywhere."""

    def __init__(self, events: list[StampedEvent], via: Via) -> None:
        pairs = [*_evident(events)]
        if via is Via.conversation:
            pairs += _conversing(events)
        self.after: dict[int, set[int]] = {_id(event): set() for event in events}
        self.before: dict[int, set[int]] = {_id(event): set() for event in events}
        for cause, effect in pairs:
            self.after[cause].add(effect)
            self.before[effect].add(cause)

    def reached(self, start: int, steps: dict[int, set[int]]) -> dict[int, int]:
        """Every event that can be reached, and in how many steps."""
        far = {start: 0}
        waiting = deque([start])
        while waiting:
            at = waiting.popleft()
            for each in steps[at]:
                if each not in far:
                    far[each] = far[at] + 1
                    waiting.append(each)
        del far[start]
        return far


async def _stored(store: Store, trace_id: int, history: History) -> None:
    other = await store.traces.create("other", "channel")
    noise = LinkedHistory(seed=99)
    for _ in range(6):
        await store.batches.append(trace_id, history.batch(40))
        await store.batches.append(other.id, noise.batch(15))


@pytest.mark.usefixtures("first_id")
@pytest.mark.parametrize("via", [Via.links, Via.conversation])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long(3))])
@pytest.mark.parametrize(("page", "frontier"), [(64, 64), (2, 3)])
async def test_walks_reach_what_can_be_reached_nearest_first(
    store: Store,
    trace_id: int,
    via: Via,
    seed: int,
    page: int,
    frontier: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(links, "PAGE", page)
    monkeypatch.setattr(walks, "FRONTIER", frontier)
    history = LinkedHistory(seed, channels=(2, 6)[seed % 2])
    await _stored(store, trace_id, history)
    closure = Closure(history.linked, via)
    for event in random.Random(seed).sample(history.linked, 6):
        past = sorted(closure.reached(_id(event), closure.before), reverse=True)
        future = sorted(closure.reached(_id(event), closure.after))
        for limit in (3, len(past), len(future), 1000):
            causes = await store.causality.walk(_id(event), -1, limit, via=via)
            assert [row.id for row in causes.items] == past[:limit]
            assert causes.truncated is (len(past) > limit)
            effects = await store.causality.walk(_id(event), 1, limit, via=via)
            assert [row.id for row in effects.items] == future[:limit]
            assert effects.truncated is (len(future) > limit)


async def test_a_path_is_a_shortest_one_of_steps_that_there_are(
    store: Store, trace_id: int
) -> None:
    history = LinkedHistory(seed=7, channels=3)
    await _stored(store, trace_id, history)
    closure = Closure(history.linked, Via.links)
    messages = {(event.cause.id, _id(event)) for event in history.linked if event.cause is not None}
    named = {
        (edge.cause.id, _id(event), edge.rule, edge.kind)
        for event in history.linked
        for edge in event.edges
    }
    dice = random.Random(7)
    lengths = []
    for _ in range(60):
        a, b = (_id(event) for event in dice.sample(history.linked, 2))
        path = await store.causality.path(a, b)
        far = closure.reached(a, closure.after).get(b)
        assert not path.cut
        if far is None:
            assert path.steps is None
            continue
        assert path.steps is not None
        lengths.append(len(path.steps))
        assert len(path.steps) == far
        assert (path.steps[0].cause, path.steps[-1].effect) == (a, b)
        assert all(
            one.effect == next_.cause
            for one, next_ in zip(path.steps, path.steps[1:], strict=False)
        )
        for step in path.steps:
            if step.how == "message":
                assert (step.cause, step.effect) in messages
                assert (step.rule, step.kind) == (None, None)
            else:
                assert (step.cause, step.effect, step.rule, step.kind) in named
    assert max(lengths) > 1


async def test_a_search_for_a_path_ends_and_says_so(
    store: Store, trace_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = await _relay(store, trace_id, hops=30)
    a, b = _id(events[0]), _id(events[-1])
    path = await store.causality.path(a, b)
    assert path.steps is not None
    assert (len(path.steps), path.cut) == (59, False)
    monkeypatch.setattr(links, "MOST_STEPS", 20)
    path = await store.causality.path(a, b)
    assert (path.steps, path.cut) == (None, True)
    monkeypatch.undo()
    monkeypatch.setattr(links, "MOST_REACHED", 20)
    path = await store.causality.path(a, b)
    assert (path.steps, path.cut) == (None, True)


async def test_there_is_no_path_back_nor_to_itself_nor_to_another_trace(
    store: Store, trace_id: int
) -> None:
    events = await _relay(store, trace_id, hops=2)
    other = await store.traces.create("other", "channel")
    strangers = await _relay(store, other.id, hops=2)
    for a, b in ((3, 1), (2, 2), (1, _id(strangers[1]))):
        assert (await store.causality.path(a, b)).steps is None
    assert (await store.causality.path(1, _id(events[-1]))).steps
    assert (await store.causality.path(1, 99)).steps is None


async def test_a_page_of_events_says_what_each_names(
    store: Store, trace_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 40)
    history = LinkedHistory(seed=5)
    await _stored(store, trace_id, history)
    expected = {
        _id(event): {(edge.cause.id, edge.rule, edge.kind) for edge in _followed(event)}
        for event in history.linked
        if _followed(event)
    }
    found = await store.causality.edge_causes([_id(event) for event in history.linked] + [9_999])
    assert expected == {
        effect: {(each.cause, each.rule, each.kind) for each in named}
        for effect, named in found.items()
    }
    assert all(
        named == sorted(named, key=lambda each: (each.cause, each.rule)) for named in found.values()
    )
    assert await store.causality.edge_causes([]) == {}


async def test_an_event_has_what_it_names_and_the_first_that_name_it(
    store: Store, trace_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = LinkedHistory(seed=6)
    await _stored(store, trace_id, history)
    for event in history.linked:
        naming = [
            (_id(effect), edge.rule)
            for effect in history.linked
            for edge in _followed(effect)
            if edge.cause is event.reference
        ]
        found = await store.causality.links_of(trace_id, _id(event))
        by = found.named_by
        assert [(each.effect, each.rule) for each in by.links] == sorted(naming)
        assert {each.cause for each in found.links} == {edge.cause.id for edge in _followed(event)}
        assert not by.truncated
        if len(naming) > 1:
            often = event
    monkeypatch.setattr(links, "MOST_NAMING", 1)
    cut = await store.causality.links_of(trace_id, _id(often))
    assert (len(cut.named_by.links), cut.named_by.truncated) == (1, True)


async def _relay(store: Store, trace_id: int, hops: int) -> list[StampedEvent]:
    """A message that is handed on: each publish names the delivery before it."""
    history = History(seed=1, channels=1)
    events: list[StampedEvent] = []
    for number in range(hops):
        channel = (SHOP, BILLING)[number % 2]
        published = history.tracker.apply(
            Publish(channel, "", (f"q{number}",), (f"q{number}",), {}, b"%d" % number), BEGINNING
        )
        edges = [link(events[-1])] if events else []
        events += [naming(each, edges=edges) for each in published]
        receiver = (BILLING, SHOP)[number % 2]
        record = Deliver(receiver, "", (f"q{number}",), f"q{number}", False, {}, b"%d" % number)
        events += history.tracker.apply(record, BEGINNING)
    batch = history.batch(0)
    batch.events.extend(events)
    await store.batches.append(trace_id, batch)
    return events


async def test_program_order_is_not_evidence(store: Store, trace_id: int) -> None:
    history = History(seed=2, channels=1)
    publish = Publish(SHOP, "", ("q",), ("q",), {}, b"")
    events = history.tracker.apply(publish, BEGINNING)
    events += history.tracker.apply(Deliver(SHOP, "", ("q",), "q", False, {}, b""), BEGINNING)
    events += history.tracker.apply(Publish(SHOP, "", ("r",), (), {}, b"r"), BEGINNING)
    batch = history.batch(0)
    batch.events.extend(events)
    await store.batches.append(trace_id, batch)
    assert compare(events[0].stamp, events[2].stamp) is Relation.before
    for via, found in ((Via.any, [2, 3]), (Via.links, [2]), (Via.conversation, [2])):
        assert [row.id for row in (await store.causality.walk(1, 1, via=via)).items] == found


async def test_what_may_have_been_is_what_clocks_say_where_links_join_them_too(
    store: Store, trace_id: int
) -> None:
    """Publishes name messages that somebody else was handed, or nobody."""
    dice = random.Random(8)
    tracker = Tracker(Policy.channel, Bounds(), rules=Rules(BUILT_IN))
    channels = [Channel("rabbit@one", f"10.0.0.{n}:1 -> 10.0.0.9:5672", 1, "u") for n in range(4)]
    events: list[StampedEvent] = []
    for number in range(60):
        queues = dice.choice(((), ("q",)))
        named = {"causation_id": f"m{dice.randrange(number + 1)}"} if dice.random() < 0.4 else {}
        properties = {"message_id": f"m{number}", "headers": named}
        sent = Publish(dice.choice(channels), "", ("q",), queues, properties, b"")
        events += tracker.apply(sent, BEGINNING)
        for queue in queues:
            to = dice.choice(channels)
            record = Deliver(to, "", ("q",), queue, False, properties, b"")
            events += tracker.apply(record, BEGINNING)
    await store.batches.append(trace_id, Batch(events, tracker.checkpoint(), b""))
    crossing = [
        event
        for event in events
        for edge in event.edges
        if edge.way is not Awareness.known and edge.cause.id != _id(event)
    ]
    assert len(crossing) > 5
    for event in events:
        after = [_id(e) for e in events if compare(event.stamp, e.stamp) is Relation.before]
        before = [_id(e) for e in events if compare(e.stamp, event.stamp) is Relation.before]
        effects = await store.causality.walk(_id(event), 1, 1_000)
        assert [row.id for row in effects.items] == after
        causes = await store.causality.walk(_id(event), -1, 1_000)
        assert [row.id for row in causes.items] == before[::-1]


async def test_candidates_are_followed_where_all_that_may_be_is_asked_for(
    store: Store, trace_id: int
) -> None:
    history = History(seed=2, channels=1)
    events = history.tracker.apply(Publish(SHOP, "", ("q",), (), {}, b""), BEGINNING)
    [second] = history.tracker.apply(Publish(SHOP, "", ("r",), (), {}, b""), BEGINNING)
    batch = history.batch(0)
    batch.events.extend([*events, naming(second, edges=[link(events[0], "t", EdgeKind.candidate)])])
    await store.batches.append(trace_id, batch)
    for via in (Via.links, Via.conversation):
        assert (await store.causality.walk(1, 1, via=via)).items == []
        assert (await store.causality.walk(2, -1, via=via)).items == []
    assert (await store.causality.path(1, 2)).steps is None
    assert [row.id for row in (await store.causality.walk(1, 1)).items] == [2]
    assert [row.id for row in (await store.causality.walk(2, -1)).items] == [1]


async def test_what_is_pruned_is_no_cause_any_more(store: Store, trace_id: int) -> None:
    history = LinkedHistory(seed=3, channels=2)
    await store.batches.append(trace_id, history.batch(100))
    plan = await store.retention.plan(trace_id, keep_events=50)
    assert plan is not None
    history.tracker.forget_before(plan.before_id)
    await store.retention.prune(plan, history.tracker.checkpoint())
    for via in (Via.links, Via.conversation):
        walk = await store.causality.walk(_id(history.linked[-1]), -1, 1000, via=via)
        assert all(row.id >= plan.before_id for row in walk.items)


async def test_a_long_conversation_costs_only_what_is_asked_of_it(
    store: Store, trace_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(seed=4, channels=1)
    names = Names(conversations=(conversation("all"),))
    events = history.tracker.apply(Publish(SHOP, "", ("q",), ("q",), {}, b""), BEGINNING)
    events += history.tracker.apply(Deliver(SHOP, "", ("q",), "q", False, {}, b""), BEGINNING)
    for number in range(1000):
        events += history.tracker.apply(Publish(SHOP, "", (), (), {}, b"%d" % number), BEGINNING)
    batch = history.batch(0)
    batch.events.extend(naming(event, names) for event in events)
    await store.batches.append(trace_id, batch)
    pages: list[int] = []
    page = links.ConversationWalk._page

    async def counted(self, after, *rest):  # type: ignore[no-untyped-def]
        pages.append(after)
        return await page(self, after, *rest)

    monkeypatch.setattr(links.ConversationWalk, "_page", counted)
    walk = await store.causality.walk(1, 1, 10, via=Via.conversation)
    assert [row.id for row in walk.items] == [*range(2, 12)]
    assert len(pages) <= 2
    walk = await store.causality.walk(1, 1, 1001, via=Via.conversation)
    assert (len(walk.items), walk.truncated) == (1001, False)
    assert len(pages) <= 2 + 17
