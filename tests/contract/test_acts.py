"""What the broker did, as it is stored: each answer that follows causes says what it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from msgspec import structs

from app.store import Store
from app.stored.capture import Batch
from app.stored.causality import Named, Naming, PathStep
from app.stored.conversations import FoundConversation
from app.stored.failures import FailureFilter
from app.tracker import Policy, Record
from app.tracker.events import Edge, StampedEvent
from model.conversations.deliveries import BrokerAct, How
from model.conversations.messages import MessageFailure
from model.words import ACTS, EdgeKind, Via
from tests.contract.failing import ADMIN, BILLING, OTHER, death, handed, letter, message
from tests.contract.links import naming
from tests.contract.outbox import START, tracker_by, tracker_time

RETURNED, REJECTED, OVERFLOW = EdgeKind.returned, EdgeKind.rejected, EdgeKind.overflow


async def told(
    store: Store, records: Sequence[Record], acts: Mapping[int, tuple[int, EdgeKind]]
) -> list[int]:
    """The ids of what comes of records, a second apart; ``acts``: by place, from which, and how."""
    trace = await store.traces.create("/", Policy.channel)
    tracker = tracker_by(Policy.channel)
    events: list[StampedEvent] = []
    for place, record in enumerate(records):
        [event] = tracker.apply(record, START + 1_000_000 * tracker_time(tracker))
        if place in acts:
            cause, kind = acts[place]
            event = naming(event, edges=[Edge(events[cause].reference, ACTS[kind], kind)])
        events.append(event)
    return [*await store.batches.append(trace.id, Batch(events, tracker.checkpoint(), b"w"))]


async def rejected(store: Store) -> list[int]:
    """An order that billing gives back, and somebody else rejects."""
    order = message(1)
    records = [
        order,
        handed(BILLING, order),
        handed(OTHER, order, again=True),
        letter(ADMIN, order, death("orders")),
    ]
    return await told(store, records, {2: (1, RETURNED), 3: (2, REJECTED)})


async def pushed_out(store: Store) -> list[int]:
    """An order that another publisher's pushes out of its queue."""
    first, second = message(1), structs.replace(message(2), channel=BILLING)
    records = [first, second, letter(ADMIN, first, death("orders", "maxlen"))]
    return await told(store, records, {2: (1, OVERFLOW)})


async def conversation(store: Store, event: int) -> FoundConversation:
    return await store.conversations.of_event(event, Via.links)


async def test_a_way_goes_through_what_the_broker_did_which_no_rule_names(store: Store) -> None:
    _, first, second, dead = await rejected(store)
    assert (await store.causality.path(first, dead)).steps == [
        PathStep(first, second, "returned"),
        PathStep(second, dead, "rejected"),
    ]
    assert [each.id for each in (await store.causality.walk(first, 1, via=Via.links)).items] == [
        second,
        dead,
    ]


async def test_an_event_says_what_the_broker_did_that_led_to_it_and_from_it(store: Store) -> None:
    _, first, second, dead = await rejected(store)
    trace_id = 1
    found = await store.causality.links_of(trace_id, second)
    assert found.links == [Named(first, None, RETURNED)]
    assert found.named_by.links == [Naming(dead, None, REJECTED)]
    assert await store.causality.edge_causes([dead]) == {dead: [Named(second, None, REJECTED)]}


async def test_a_death_names_its_rejecter_where_it_is_known_among_equal_messages(
    store: Store,
) -> None:
    order = message(1, message_id="same")
    records = [order, order, handed(BILLING, order), handed(OTHER, order)]
    records.append(letter(ADMIN, order, death("orders")))
    ids = await told(store, records, {4: (2, REJECTED)})
    [failure] = (await store.failures.find(FailureFilter())).items
    assert failure.by is not None
    assert (failure.by.name, failure.handed_over) == ("billing@10.0.0.6 #2", ids[2])


@pytest.mark.parametrize("levels", [1, 3])
async def test_a_delay_that_went_as_planned_is_no_failure(store: Store, levels: int) -> None:
    order = message(1, "delay-0")
    deaths = [death(f"delay-{level}", "expired") for level in range(levels)][::-1]
    ids = await told(store, [order, letter(BILLING, order, *deaths, queue="work")], {})
    assert (await store.failures.find(FailureFilter())).items == []
    assert (await conversation(store, ids[0])).conversation.outcome == "done"


async def test_a_message_that_expired_where_it_was_handed_over_is_a_failure(store: Store) -> None:
    order = message(1)
    dead = letter(ADMIN, order, death("orders", "expired"))
    ids = await told(store, [order, handed(BILLING, order), dead], {})
    [failure] = (await store.failures.find(FailureFilter())).items
    assert (failure.event, failure.reason) == (ids[2], "expired")
    [told_of] = (await conversation(store, ids[0])).conversation.messages
    assert told_of.failure == MessageFailure("died", "orders", "expired")


async def test_a_conversation_has_what_the_broker_did(store: Store) -> None:
    ids = await rejected(store)
    found = (await conversation(store, ids[0])).conversation
    [copy] = found.messages[0].copies
    assert [each.acts for each in copy.deliveries] == [
        (),
        (BrokerAct(ids[1], "returned"),),
        (BrokerAct(ids[2], "rejected"),),
    ]
    assert found.critical_path == tuple(ids)


async def test_a_push_out_of_a_queue_is_in_both_conversations(store: Store) -> None:
    first, second, dead = await pushed_out(store)
    own = await conversation(store, first)
    [copy] = own.conversation.messages[0].copies
    assert copy.deliveries[0].acts == (BrokerAct(second, "overflow"),)
    assert own.other_roots == [second]
    others = (await conversation(store, second)).conversation
    pusher, drawn_in = others.messages
    assert (pusher.event, drawn_in.event, drawn_in.unseen) == (second, dead, True)
    assert (drawn_in.how, drawn_in.cause) == (How(None, "overflow"), second)
    assert others.loops == ()


async def test_what_only_may_be_is_no_step_and_no_act(store: Store) -> None:
    order = message(1)
    records = [order, handed(BILLING, order), letter(ADMIN, order, death("orders"))]
    trace = await store.traces.create("/", Policy.channel)
    tracker = tracker_by(Policy.channel)
    events = [event for each in records for event in tracker.apply(each, START)]
    may_be = Edge(events[1].reference, ACTS[REJECTED], EdgeKind.candidate)
    events[2] = naming(events[2], edges=[may_be])
    ids = await store.batches.append(trace.id, Batch(events, tracker.checkpoint(), b"w"))
    assert (await store.causality.path(ids[1], ids[2])).steps is None
    assert await store.causality.edge_causes(ids) == {}
    assert [
        e.acts
        for m in (await conversation(store, ids[0])).conversation.messages
        for c in m.copies
        for e in c.deliveries
    ] == [(), ()]
