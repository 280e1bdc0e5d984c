"""Conversations against what is found by looking everywhere."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise

import pytest

from app.errors import NotFoundError
from app.store import Store
from app.store.causality import links
from app.store.conversations import lists, roots
from app.store.database import chunks
from app.stored.conversations import ConversationFilter, FoundConversation
from app.stored.reading import EventFilter
from app.tracker.events import StampedEvent
from app.tracker.records import Deliver, Publish
from model.conversations.conversation import Conversation
from model.conversations.messages import Message, Outcome
from model.conversations.states import State
from model.words import EventType, Match, Via
from tests.contract.history import BEGINNING, History
from tests.contract.links import LinkedHistory, link, naming
from tests.contract.test_links import BILLING, SHOP, Closure, _id, _relay, _stored

EVERYTHING = ConversationFilter()
WAITING = ConversationFilter(state=State.waiting)


def _is_publish(event: StampedEvent) -> bool:
    return event.record.event_type == EventType.published


def _program_order(events: list[StampedEvent]) -> Iterator[tuple[int, int]]:
    for participant in {event.participant for event in events}:
        own = sorted(_id(event) for event in events if event.participant == participant)
        yield from pairwise(own)


class Everywhere:
    """The conversations of a history, by looking at all its events each time."""

    def __init__(self, events: list[StampedEvent], via: Via) -> None:
        self.events = {_id(event): event for event in events}
        self.via = via
        self.evident = Closure(events, Via.links)
        self.forward = Closure(events, Via.conversation if via is Via.conversation else Via.links)
        if via is Via.any:
            for cause, effect in _program_order(events):
                self.forward.after[cause].add(effect)

    def message(self, event_id: int) -> int:
        cause = self.events[event_id].cause
        return event_id if cause is None or cause.id is None else cause.id

    def way(self, event_id: int) -> list[int]:
        way = [event_id]
        while before := self.evident.before[way[-1]]:
            way.append(min(before))
        return way

    def roots(self, event_id: int) -> set[int]:
        if self.via is Via.any:
            return {self.message(event_id)}
        way = self.way(self.message(event_id))
        if self.via is Via.links:
            return {way[-1]}
        on_ways, roots = set(way), {way[-1]}
        while True:
            shared = {key for each in on_ways for key in self.events[each].names.conversations}
            sharing = [
                each
                for each, event in self.events.items()
                if (_is_publish(event) or event.cause is None)
                and shared & {*event.names.conversations}
            ]
            ways = [self.way(each) for each in sharing]
            more = {each for way in ways for each in way}
            roots |= {way[-1] for way in ways}
            if more <= on_ways:
                return roots
            on_ways |= more

    def led_by_key(self, publish: int, found: FoundConversation) -> int | None:
        """What the publisher was handed last that shares something with what it then published."""
        one = self.events[publish]
        if self.via is not Via.conversation or publish == found.root or not _is_publish(one):
            return None
        handed = {each for of_one in _told(found.conversation).values() for each in of_one}
        return max(
            (
                each
                for each in handed
                if each < publish
                and self.events[each].participant == one.participant
                and {*self.events[each].names.conversations} & {*one.names.conversations}
            ),
            default=None,
        )

    def expected(self, event_id: int) -> tuple[set[int], dict[int, set[int]]]:
        """Roots, and each message's deliveries."""
        roots = self.roots(event_id)
        members = set(roots).union(*(self.forward.reached(r, self.forward.after) for r in roots))
        messages: dict[int, set[int]] = {
            each: set() for each in members if _is_publish(self.events[each]) or each in roots
        }
        for each, event in self.events.items():
            if event.cause is not None and event.cause.id in messages:
                messages[event.cause.id].add(each)
            elif each in messages and not _is_publish(event):
                messages[each].add(each)
        return roots, messages


def _told(one: Conversation) -> dict[int, set[int]]:
    return {
        message.record.id: {each.record.id for copy in message.copies for each in copy.deliveries}
        for message in one.messages
    }


@pytest.mark.usefixtures("first_id")
@pytest.mark.parametrize("via", [*Via])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long(3))])
async def test_a_conversation_is_what_its_root_leads_to(
    store: Store, trace_id: int, via: Via, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 40)
    monkeypatch.setattr(links, "PAGE", 3)
    history = LinkedHistory(seed, channels=6)
    await _stored(store, trace_id, history)
    everywhere = Everywhere(history.linked, via)
    for event in random.Random(seed).sample(history.linked, 12):
        found = await store.conversations.of_event(_id(event), via, limit=5_000)
        roots, messages = everywhere.expected(_id(event))
        assert found.root == min(roots)
        assert _told(found.conversation) == messages
        assert (found.next, found.conversation.truncated) == (None, False)
        _check_causes(everywhere, found, roots)
        if via is not Via.any:
            others = {
                everywhere.way(cause)[-1]
                for each in messages.keys() - roots
                for cause in everywhere.evident.before[each]
                if cause
                not in everywhere.forward.reached(0, {0: roots, **everywhere.forward.after})
                and _is_publish(everywhere.events[each])
            }
            assert found.other_roots == sorted(others - roots)[:20]


def _check_causes(everywhere: Everywhere, found: FoundConversation, roots: set[int]) -> None:
    """Each message but the roots has a cause that led there, and ends where nothing is left."""
    for message in found.conversation.messages:
        if message.record.id in roots:
            led = everywhere.led_by_key(message.record.id, found)
            assert message.cause == led
            continue
        assert message.cause is not None
        assert message.how is not None
        leads_to = everywhere.forward.after[message.cause]
        if everywhere.via is Via.any and message.how.rule is None:
            leads_to = {*everywhere.forward.reached(message.cause, everywhere.forward.after)}
        assert message.record.id in leads_to
        named = {edge.cause.id for edge in everywhere.events[message.record.id].edges}
        assert message.cause in named or message.how.rule is None


async def test_what_waits_for_two_messages_and_names_one_leaves_the_others_end_unknown(
    store: Store, trace_id: int
) -> None:
    history = LinkedHistory(seed=1, channels=1)
    events: list[StampedEvent] = []
    for body in (b"a", b"b"):
        events += history.tracker.apply(Publish(SHOP, "", ("q",), ("q",), {}, body), BEGINNING)
        record = Deliver(BILLING, "", ("q",), "q", False, {}, body)
        events += history.tracker.apply(record, BEGINNING)
    both = history.tracker.apply(Publish(BILLING, "", ("r",), ("r",), {}, b"c"), BEGINNING)
    events += [naming(each, edges=[link(events[3])]) for each in both]
    events += history.tracker.apply(Deliver(SHOP, "", ("r",), "r", False, {}, b"c"), BEGINNING)
    batch = history.batch(0)
    batch.events.extend(events)
    await store.batches.append(trace_id, batch)
    told = [await store.conversations.of_event(each, Via.links) for each in (1, 3)]
    assert [each.conversation.outcome for each in told] == ["unknown", "done"]
    unknown = ConversationFilter(outcome=Outcome.unknown)
    page = await store.conversations.list(EventFilter(), unknown, Via.links)
    assert [each.root for each in page.items] == [1]
    gap = await store.gaps.open(trace_id, after_event_id=4, since=BEGINNING, reason="lost")
    await store.gaps.close(gap, before_event_id=5, until=BEGINNING)
    page = await store.conversations.list(EventFilter(), unknown, Via.links)
    assert {each.root for each in page.items} == {1, 3}, "what is done may be missing"
    assert (await store.conversations.of_event(3, Via.links)).conversation.outcome == "unknown"


async def test_members_do_not_depend_on_which_of_them_is_asked_for(
    store: Store, trace_id: int
) -> None:
    """Where each message has one parent."""
    events = await _relay(store, trace_id, hops=12)
    whole = (await store.conversations.of_event(1, Via.links)).conversation
    assert len(whole.messages) == 12
    for event in events:
        assert (await store.conversations.of_event(_id(event), Via.links)).conversation == whole


@pytest.mark.parametrize("via", [*Via])
async def test_pages_are_the_whole(store: Store, trace_id: int, via: Via) -> None:
    history = LinkedHistory(seed=4, channels=3)
    await _stored(store, trace_id, history)
    everywhere = Everywhere(history.linked, via)
    event = max(everywhere.events, key=lambda each: len(everywhere.expected(each)[1]))
    whole = await store.conversations.of_event(event, via, limit=5_000)
    told: dict[int, set[int]] = {}
    after, pages = None, 0
    while True:
        page = await store.conversations.of_event(event, via, limit=5, after=after)
        assert page.root == whole.root
        assert page.conversation.began_at == whole.conversation.began_at
        new = _told(page.conversation)
        assert not told.keys() & new.keys()
        told |= new
        after, pages = page.next, pages + 1
        if after is None:
            break
    assert told == _told(whole.conversation)
    assert pages > 1


@pytest.mark.usefixtures("first_id")
@pytest.mark.parametrize("together", [50, 3])
async def test_a_list_is_of_all_publishes_that_nothing_led_to(
    store: Store, trace_id: int, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "BATCH", together)
    history = LinkedHistory(seed=2)
    await _stored(store, trace_id, history)
    everywhere = Everywhere(history.linked, Via.links)
    roots = [
        each
        for each, event in everywhere.events.items()
        if _is_publish(event) and not everywhere.evident.before[each]
    ]
    asked = EventFilter(vhost="/")
    found, before = [], None
    while True:
        page = await store.conversations.list(
            asked, EVERYTHING, Via.links, before_id=before, limit=7
        )
        found += [each.conversation for each in page.items]
        before = page.next
        if before is None:
            break
    assert [each.root for each in found] == sorted(roots, reverse=True)
    for one in found[:10]:
        alone = (await store.conversations.of_event(one.root, Via.links, limit=5_000)).conversation
        assert _told(one) == _told(alone)
        assert (one.counts, one.outcome, one.sentence) == (
            alone.counts,
            alone.outcome,
            alone.sentence,
        )
    both = await store.conversations.list(EventFilter(), EVERYTHING, Via.links, limit=200)
    assert {each.vhost for each in both.items} == {"/", "other"}
    numbers = [each.conversation.root for each in both.items]
    assert numbers == sorted(numbers, reverse=True)


async def test_a_list_by_keys_has_each_conversation_once(store: Store, trace_id: int) -> None:
    history = LinkedHistory(seed=3)
    await _stored(store, trace_id, history)
    page = await store.conversations.list(
        EventFilter(vhost="/"), EVERYTHING, Via.conversation, limit=200
    )
    everywhere = Everywhere(history.linked, Via.conversation)
    for each in page.items:
        root = each.conversation.root
        roots, messages = everywhere.expected(root)
        assert root == min(roots)
        assert _told(each.conversation) == messages


async def test_a_list_is_held_to_what_conversations_became(store: Store, trace_id: int) -> None:
    history = LinkedHistory(seed=2)
    await _stored(store, trace_id, history)
    asked = EventFilter(vhost="/")
    whole = await store.conversations.list(asked, EVERYTHING, Via.links, limit=200)
    several = [each.conversation for each in whole.items]
    one = several[len(several) // 2]
    for wanted in (
        ConversationFilter(outcome=one.outcome),
        ConversationFilter(min_seconds=one.seconds),
        ConversationFilter(max_seconds=one.seconds),
        ConversationFilter(participant=one.participants[0].number),
        ConversationFilter(participant_name=one.participants[0].name),
        ConversationFilter(type=one.messages[-1].record.message_type),
    ):
        page = await store.conversations.list(asked, wanted, Via.links, limit=200)
        expected = [each.root for each in several if wanted.lets_through(each)]
        assert [each.conversation.root for each in page.items] == expected
        assert one.root in expected
        assert page.looked_at == len(several)


@pytest.mark.parametrize("via", [Via.links, Via.conversation])
async def test_what_waits_is_listed_oldest_first_behind_all_that_is_newer(
    store: Store, trace_id: int, via: Via, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = LinkedHistory(seed=2)
    await _stored(store, trace_id, history)
    asked = EventFilter(vhost="/")
    whole = await store.conversations.list(asked, EVERYTHING, via, limit=200)
    waiting = [each.root for each in whole.items if each.state is State.waiting][::-1]
    assert 2 < len(waiting) < len(whole.items)
    listed: list[int] = []
    cursor, number = None, 0
    while True:
        page = await store.conversations.list(asked, WAITING, via, before_id=cursor, limit=2)
        listed += [each.root for each in page.items]
        number += sum(count.number for count in page.states if count.state is State.waiting)
        cursor = page.next
        if cursor is None:
            break
    # Also those whose first publish was not seen, which other lists leave out. In this history
    # messages share keys at random: what waits may be in a conversation that failed, too.
    begun = {_id(event) for event in history.linked if _is_publish(event)}
    shown = [root for root in listed if root in begun]
    assert shown == waiting if via is Via.links else {*shown} < {*waiting} and shown
    assert listed == sorted(listed)
    assert number == len(listed)
    begin = whole.items[len(whole.items) // 2].began_at
    later = await store.conversations.list(
        EventFilter(vhost="/", since=begin), WAITING, via, limit=200
    )
    since = [_id(event) for event in history.linked if event.recorded_at >= begin]
    assert [each.root for each in later.items] == [root for root in listed if root in since]
    none = await store.conversations.list(EventFilter(vhost="none"), WAITING, via)
    assert not none.items
    for module, bound in ((roots, "MOST_STEPS"), (lists, "MOST_WAITING")):
        with monkeypatch.context() as bounds:
            bounds.setattr(module, bound, 1)
            assert (await store.conversations.list(asked, WAITING, via)).truncated
    assert not (await store.conversations.list(asked, WAITING, via)).truncated


async def test_what_fits_is_found_with_its_conversation(store: Store, trace_id: int) -> None:
    history = LinkedHistory(seed=2)
    await _stored(store, trace_id, history)
    everywhere = Everywhere(history.linked, Via.links)
    asked = EventFilter(vhost="/", q="grüße")
    fitting = [
        each for each, event in everywhere.events.items() if event.record.body == "grüße".encode()
    ]
    roots = {everywhere.way(each)[-1] for each in fitting}
    found: list[int] = []
    before = None
    while True:
        page = await store.conversations.list(
            asked, EVERYTHING, Via.links, before_id=before, limit=4
        )
        found += [each.conversation.root for each in page.items]
        before = page.next
        if before is None:
            break
    assert found == sorted(roots, reverse=True)


async def test_what_is_pruned_leads_to_nothing_any_more(store: Store, trace_id: int) -> None:
    history = LinkedHistory(seed=3, channels=2)
    await store.batches.append(trace_id, history.batch(100))
    plan = await store.retention.plan(trace_id, keep_events=50)
    assert plan is not None
    history.tracker.forget_before(plan.before_id)
    await store.retention.prune(plan, history.tracker.checkpoint())
    kept = [event for event in history.linked if _id(event) >= plan.before_id]
    for via in Via:
        for event in kept:
            found = await store.conversations.of_event(_id(event), via, limit=5_000)
            assert found.root >= plan.before_id
            assert _id(event) in _ids(found.conversation) or via is Via.any
    with pytest.raises(NotFoundError):
        await store.conversations.of_event(plan.before_id - 1, Via.links)


def _ids(one: Conversation) -> set[int]:
    return {*_told(one)}.union(*_told(one).values())


async def test_copies_have_the_states_that_their_fates_have(store: Store, trace_id: int) -> None:
    history = History(seed=12)
    await store.batches.append(trace_id, history.batch(150))
    publishes = [event for event in history.events if _is_publish(event)]
    for event in random.Random(12).sample(publishes, 20):
        found = await store.conversations.of_event(_id(event), Via.links)
        fate = await store.copies.fate_of(_id(event))
        [message] = found.conversation.messages
        assert _states(message) == {
            each.queue: (each.state, [*each.dead_lettered_to]) for each in fate.message.copies
        }
        dead = sum(
            each.record.match is Match.dead_lettered
            for copy in message.copies
            for each in copy.deliveries
        )
        assert found.conversation.counts.deaths == dead


def _states(message: Message) -> dict[str, tuple[str, list[str]]]:
    return {copy.queue: (copy.state, [*copy.dead_lettered_to]) for copy in message.copies}
