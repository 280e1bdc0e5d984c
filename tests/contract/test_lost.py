"""Copies that are gone with nobody having been handed them: what is said and remembered."""

from __future__ import annotations

import pytest
from msgspec import structs

from app.store import Store
from app.stored.capture import Batch
from app.stored.failures import FailureFilter, FailureKind
from app.tracker import Policy, Record, Tracker
from app.tracker.events import StampedEvent
from app.tracker.tracker import Bounds
from model.conversations.messages import MessageFailure, Outcome
from model.deaths import LossWord
from model.texts import DIRECT_REPLIES
from model.words import Via
from tests.contract.failing import ADMIN, BILLING, OTHER, death, handed, letter, message
from tests.contract.outbox import START

AT = 1_700_000_000_000_000
WHEN = "by 2023-11-14 22:13:20 UTC"


class Trace:
    """A trace whose copies are lost on request."""

    def __init__(self, store: Store, trace_id: int) -> None:
        self.store, self.id = store, trace_id
        self.tracker = Tracker(Policy.channel, Bounds())
        self.now = START
        self.events: list[StampedEvent] = []

    async def happens(self, *records: Record) -> list[int]:
        self.events = []
        for record in records:
            self.now += 1
            self.events += self.tracker.apply(record, self.now)
        return await self.stored()

    async def stored(self) -> list[int]:
        batch = Batch(self.events, self.tracker.checkpoint(), b"%d" % self.now)
        return [*await self.store.batches.append(self.id, batch)]

    async def loses(self, reason: LossWord, queue: str = "orders") -> None:
        for copy in self.tracker.pending()[0]:
            if copy.queue == queue:
                self.tracker.lose(copy, AT, reason)
        self.events = []
        self.now += 1
        await self.stored()

    async def restored(self) -> Tracker:
        found = await self.store.checkpoints.restore(self.id, Bounds().handovers)
        return Tracker(Policy.channel, Bounds(), found)


@pytest.fixture
async def trace(store: Store) -> Trace:
    return Trace(store, (await store.traces.create("/", Policy.channel)).id)


@pytest.mark.parametrize(
    ("reason", "remark"),
    [
        ("queue_deleted", f"was deleted with its queue {WHEN}"),
        ("not_there", f"was gone {WHEN}: purged, expired, pushed out, or refused"),
    ],
)
async def test_a_lost_copy_does_not_wait_any_more(
    trace: Trace, reason: LossWord, remark: str
) -> None:
    [sent] = await trace.happens(structs.replace(message(1), exchange="shop"))
    await trace.loses(reason)
    fate = await trace.store.copies.fate_of(sent)
    [queue] = fate.message.copies
    assert (queue.state, queue.remark, fate.handed_over) == ("gone", remark, 0)
    assert fate.sentence == f"handed over for 0 of 1 queue; its copy in orders {remark}"
    found = (await trace.store.conversations.of_event(sent, Via.links)).conversation
    [told] = found.messages
    assert (told.failure, found.outcome) == (MessageFailure("gone", "orders", reason), "failed")
    assert [(each.state, each.remark) for each in told.copies] == [("gone", remark)]
    assert "1 was lost" in found.sentence
    [failure] = (await trace.store.failures.find(FailureFilter())).items
    assert (failure.kind, failure.reason, failure.event) == (FailureKind.gone, reason, sent)
    assert (failure.queue, failure.publisher is not None) == ("orders", True)


@pytest.mark.parametrize("queue", ["dst", "ord_rs"])
async def test_a_copy_is_not_gone_that_was_handed_over_from_where_it_was_not_routed(
    trace: Trace, queue: str
) -> None:
    order = structs.replace(message(1), exchange="shop")
    [sent, _] = await trace.happens(order, handed(BILLING, order, queue))
    await trace.loses("not_there")
    first, second = (await trace.store.copies.fate_of(sent)).message.copies
    assert (first.state, second.queue, second.state) == ("handed_over", queue, "handed_over")
    found = (await trace.store.conversations.of_event(sent, Via.links)).conversation
    assert found.messages[0].failure is None
    assert (await trace.store.failures.find(FailureFilter())).items == []


@pytest.mark.parametrize("is_traced", [True, False])
async def test_a_direct_reply_that_no_delivery_is_known_of_neither_waits_nor_failed(
    trace: Trace, is_traced: bool
) -> None:
    """From 3.13 on such a publish names its queue, from 4.2 on its delivery is traced."""
    name = f"{DIRECT_REPLIES}a"
    to = {"routing_keys": (name,), "routed_queues": (name,) if is_traced else ()}
    [sent] = await trace.happens(structs.replace(message(1), **to))
    fate = await trace.store.copies.fate_of(sent)
    assert fate.handed_over == 0
    assert [each.state for each in fate.message.copies] == ["gone"] * is_traced
    said = "to nobody" if is_traced else "the broker does not trace whether anybody was given it"
    assert fate.sentence.endswith(said)
    found = (await trace.store.conversations.of_event(sent, Via.links)).conversation
    assert (found.outcome, found.messages[0].failure) == (Outcome.unknown, None)
    assert (await trace.store.failures.find(FailureFilter())).items == []


async def test_a_direct_reply_whose_delivery_is_untraced_is_not_certainly_handed_over(
    trace: Trace,
) -> None:
    trace.tracker.trace_replies(False)
    name = f"{DIRECT_REPLIES}a"
    asks = structs.replace(message(1), properties={"reply_to": name})
    answers = structs.replace(message(2), routing_keys=(name,), routed_queues=(), channel=BILLING)
    [_, _, sent, heard] = await trace.happens(asks, handed(BILLING, asks), answers)
    fate = await trace.store.copies.fate_of(sent)
    assert [each.event for each in fate.message.copies[0].deliveries] == [heard]
    assert fate.handed_over == 0
    assert fate.sentence.endswith("for 1 more it was, untraced, if its caller still listened")


async def test_what_the_default_exchange_is_given_may_have_had_no_queue(trace: Trace) -> None:
    [sent] = await trace.happens(structs.replace(message(1), exchange=""))
    await trace.loses("queue_deleted")
    [queue] = (await trace.store.copies.fate_of(sent)).message.copies
    assert queue.remark == f"was deleted with its queue {WHEN}, or there never was one"


async def test_a_copy_that_may_wait_elsewhere_or_was_dropped_is_no_failure(trace: Trace) -> None:
    [sent] = await trace.happens(message(1))
    await trace.loses("left")
    [queue] = (await trace.store.copies.fate_of(sent)).message.copies
    assert (queue.state, queue.remark) == (
        "gone",
        f"left its queue {WHEN}: purged, dropped, handed over in a gap, moved by a local shovel,"
        " or dead-lettered elsewhere",
    )
    found = (await trace.store.conversations.of_event(sent, Via.links)).conversation
    assert (found.outcome, found.counts.waiting) == (Outcome.unknown, 0)
    assert (await trace.store.failures.find(FailureFilter())).items == []


async def test_a_copy_does_not_wait_that_was_handed_over_or_else_an_equal_one_was(
    trace: Trace,
) -> None:
    order = message(1)
    first, second, _ = await trace.happens(order, order, handed(BILLING, order))
    fates = [await trace.store.copies.fate_of(each) for each in (first, second)]
    [[taken], [waits]] = [fate.message.copies for fate in fates]
    assert (taken.state, waits.state) == ("handed_over", "waiting")
    assert (fates[0].handed_over, waits.loss) == (0, None)
    said = "handed over for 0 of 1 queue; for 1 more it or an equal message was; its copy in orders"
    assert fates[0].sentence == f"{said} {taken.remark}"
    assert taken.remark is not None
    assert taken.remark.startswith("was handed over by ")
    assert taken.remark.endswith(" UTC, or an equal message was")
    found = (await trace.store.conversations.of_event(first, Via.links)).conversation
    [told] = found.messages
    assert (told.outcome, found.outcome) == (Outcome.unknown, Outcome.unknown)
    assert [(each.state, each.remark) for each in told.copies] == [("handed_over", taken.remark)]
    assert "not handed over" not in found.sentence
    assert (await trace.store.failures.find(FailureFilter())).items == []
    for tracker in (await trace.restored(), trace.tracker):
        again = [tracker.apply(handed(BILLING, order), trace.now + 1)[0] for _ in range(2)]
        assert [each.cause and each.cause.id for each in again] == [second, None]
        assert again[1].candidates == 3, "either was taken, so it may be a third that was not seen"


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("reason", ["queue_deleted", "not_there"])
async def test_a_copy_is_not_gone_if_what_was_handed_over_may_be_it(
    trace: Trace, reason: LossWord, is_killed: bool
) -> None:
    order = message(1)
    first, second, _ = await trace.happens(order, order, handed(BILLING, order))
    [third] = await trace.happens(order)
    if is_killed:
        trace.tracker = await trace.restored()
    await trace.loses(reason)
    fates = [await trace.store.copies.fate_of(each) for each in (first, second, third)]
    states = [queue.state for fate in fates for queue in fate.message.copies]
    assert states == ["handed_over", "handed_over", "gone"]
    remarks = [queue.remark for fate in fates for queue in fate.message.copies]
    assert remarks[1] == f"was handed over {WHEN}, or an equal message was"
    [failure] = (await trace.store.failures.find(FailureFilter())).items
    assert failure.event == third, "published after what was handed over"


@pytest.mark.parametrize("reason", ["queue_deleted", "left"])
async def test_a_dead_letter_says_more_than_that_its_copy_was_lost(
    trace: Trace, reason: LossWord
) -> None:
    order = message(1)
    [sent] = await trace.happens(order)
    await trace.loses(reason)
    await trace.happens(letter(ADMIN, order, death("orders", "maxlen")))
    [queue] = (await trace.store.copies.fate_of(sent)).message.copies
    assert (queue.state, queue.remark) == ("dead_lettered", None)
    kinds = [each.kind for each in (await trace.store.failures.find(FailureFilter())).items]
    assert kinds == [FailureKind.died]


@pytest.mark.parametrize("is_killed", [False, True])
async def test_lost_copies_are_remembered_over_a_crash(trace: Trace, is_killed: bool) -> None:
    order, again = message(1), structs.replace(message(1), channel=OTHER)
    await trace.happens(order)
    await trace.loses("queue_deleted")
    second = await trace.restored()
    records = [again, handed(BILLING, again), letter(ADMIN, order, death("orders", "expired"))]
    tracker = second if is_killed else trace.tracker
    found = [event for each in records for event in tracker.apply(each, trace.now + 1)]
    publish, delivery, dead = found
    assert delivery.cause is publish.reference  # for certain: the other is gone
    assert (dead.cause, dead.candidates) == (None, 2)
    ours = [edge.cause.id for edge in dead.edges if edge.cause.id is not None]
    assert ours == [1]


async def test_retention_forgets_lost_copies(trace: Trace) -> None:
    await trace.happens(message(1))
    await trace.loses("not_there")
    await trace.happens(message(2))
    retention = trace.store.retention
    plan = await retention.plan(trace.id, keep_events=1)
    assert plan is not None
    trace.tracker.forget_before(plan.before_id)
    await retention.prune(plan, trace.tracker.checkpoint())
    assert (await trace.store.failures.find(FailureFilter())).items == []
    found = await trace.store.checkpoints.restore(trace.id, 10)
    assert found.lost_copies == []
    assert len(trace.tracker._matcher.copies.lost) == 0
