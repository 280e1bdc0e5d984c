"""What became of deliveries is stored as it was, whenever the service is killed."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from typing import TypeAlias

import msgspec
import pytest

from app.store import Store
from app.store.causality import copies
from app.store.conversations import conversing
from app.stored.assertions import subject_of
from app.stored.capture import Batch
from app.stored.causality import HeldCopies, QueueCopies
from app.stored.conversations import ConversationFilter
from app.stored.failures import FailureFilter
from app.stored.reading import EventFilter
from app.tracker import (
    Bounds,
    Channel,
    Deliver,
    Policy,
    Publish,
    Settlement,
    Tracker,
    Unreadable,
    settlements,
)
from app.tracker.events import LostCopy, Reference
from app.tracker.taken import Selection
from model.assertions.judging import Causation, judge
from model.assertions.language import from_json
from model.conversations.messages import Outcome
from model.conversations.states import State
from model.event import Event
from model.who import Who
from model.words import Disposition, EventType, Via
from tests.contract.broker import BEGINNING, Broker
from tests.contract.failing import ADMIN, BILLING, OTHER, channel, death, handed, letter, message
from tests.contract.outbox import tell, tracker_by
from tests.contract.test_watching import FAR, judged, whole

CHANNEL = Channel("rabbit@one", "c:1 -> b", 1, "shop")


class Trace:
    """A trace as the service keeps it: what it was told is stored in batches."""

    def __init__(self, store: Store, trace_id: int, window: int = 0) -> None:
        self._store, self._trace_id = store, trace_id
        self._bounds = Bounds(reorder_window=window)
        self.tracker = Tracker(Policy.channel, self._bounds)

    async def take(self, records: Iterable[Publish | Deliver | Settlement | Unreadable]) -> None:
        events, at = [], BEGINNING
        for record in records:
            if isinstance(record, Settlement):
                at = record.at
                self.tracker.settle(record, at)
            elif isinstance(record, Unreadable):
                self.tracker.quarantine(record, at)
            else:
                events += self.tracker.apply(record, at)
        await self._store.batches.append(
            self._trace_id, Batch(events, self.tracker.checkpoint(), b"")
        )

    async def killed(self) -> None:
        restored = await self._store.checkpoints.restore(self._trace_id, 1_000)
        self.tracker = Tracker(Policy.channel, self._bounds, restored)

    async def received(self) -> list[Event]:
        wanted = EventFilter(type=EventType.received)
        return [*(await self._store.events.find(wanted, after=0, limit=10_000)).items]

    async def said(self) -> list[str | None]:
        return [each.settlement and each.settlement.name for each in await self.received()]


def say(event: str, at: int = 1, channel: Channel = CHANNEL, **said: object) -> Settlement:
    return Settlement(event, channel, BEGINNING + at, **said)


def opened(pid: str = "<1>", next_tag: int = 1, at: int = 1) -> Settlement:
    return say("channel", at, pid=pid, next_tag=next_tag)


def settled(
    tag: int, at: int = 2, outcome: str = "acknowledged", *, up_to: bool = False
) -> Settlement:
    return say("settled", at, outcome=outcome, delivery_tag=tag, multiple=up_to)


def deliver(queue: str = "work", channel: Channel = CHANNEL) -> Deliver:
    return Deliver(channel, "", (queue,), queue, False, {}, b"")


async def test_it_is_known_between_which_events_something_was_in_hand(
    store: Store, trace_id: int
) -> None:
    trace = Trace(store, trace_id)
    publish = Publish(CHANNEL, "", ("on",), (), {}, b"")
    first, second = message(1, "work"), message(2, "work")
    await trace.take([opened(), first, handed(CHANNEL, first, "work"), publish])
    await trace.take([second, handed(CHANNEL, second, "work")])
    await trace.take([publish, settled(1), publish])
    await trace.killed()
    await trace.take([settled(2), publish])
    found = await store.copies.alone_in_hand(trace_id, [1, 2], 1, 100)
    assert [(each.publish, each.delivery) for each in found] == [(3, 2), (7, 5)]


@pytest.mark.parametrize("seed", range(8))
async def test_every_settlement_is_as_the_broker_has_it(
    store: Store, trace_id: int, seed: int
) -> None:
    broker, trace, chance = Broker(seed), Trace(store, trace_id), random.Random(seed)
    for _ in range(25):
        await trace.take(broker.records(chance.randrange(40)))
        if chance.random() < 0.5:
            await trace.killed()
    await trace.take(broker.late)
    stored = await trace.received()
    assert len(stored) == len(broker.copies)
    said = 0
    for event, copy in zip(stored, broker.copies, strict=True):
        if event.settlement is None:
            assert not copy.is_known, event.id
            continue
        said += 1
        assert event.settlement is copy.disposition, event.id
        if copy.disposition is Disposition.channel_closed:  # or when the next one had its number
            assert event.settled_at >= copy.at
        elif copy.disposition is not Disposition.auto:  # settled as it came
            assert event.settled_at == copy.at
    assert said > len(stored) / 3
    for each in Disposition:
        asked = EventFilter(settlement=each)
        found = (await store.events.find(asked, after=0, limit=10_000)).items
        assert found == [event for event in stored if event.settlement is each]


async def test_where_nothing_is_said_of_a_channel_nothing_is_known(
    store: Store, trace_id: int
) -> None:
    trace = Trace(store, trace_id)
    await trace.take([deliver(), settled(1), say("consumer", queue="work", auto=True), deliver()])
    assert await trace.said() == [None, None]


async def test_a_get_with_acknowledgement_is_none_without_that_found_nothing_before_it(
    store: Store, trace_id: int
) -> None:
    trace = Trace(store, trace_id)
    empty, found = (say("get", queue="work", auto=auto) for auto in (True, False))
    await trace.take([opened(), empty, found, deliver(), empty, deliver()])
    assert await trace.said() == ["in_hand", "auto"]


async def test_a_count_that_does_not_fit_is_given_up(store: Store, trace_id: int) -> None:
    """Of two deliveries one trace message was lost: which tag the other has is not known."""
    trace = Trace(store, trace_id)
    await trace.take([opened(), deliver()])
    await trace.take([settled(2), deliver(), settled(1)])
    assert await trace.said() == [None, None]
    await trace.take([opened(next_tag=4), deliver(), settled(4)])
    assert await trace.said() == [None, None, "acknowledged"]


async def test_what_a_client_sends_behind_an_acknowledgement_of_nothing_settles_nothing(
    store: Store, trace_id: int
) -> None:
    """The broker closes the channel over it, and handles nothing more of what is on its way."""
    trace = Trace(store, trace_id)
    await trace.take([opened(), deliver(), deliver(), settled(1), settled(1), deliver()])
    await trace.killed()
    await trace.take([say("closed", pid="<1>"), opened("<2>"), deliver(), settled(5), settled(1)])
    assert await trace.said() == ["acknowledged", "channel_closed", "channel_closed", None]


async def test_what_a_node_stops_or_begins_to_record_is_not_known(
    store: Store, trace_id: int
) -> None:
    trace = Trace(store, trace_id)
    there = Channel("rabbit@two", "c:1 -> b", 1, "shop")
    on_both = [opened(), say("channel", channel=there, pid="<2>", next_tag=1)]
    await trace.take([*on_both, deliver(), deliver(channel=there)])
    assert await trace.said() == ["in_hand", "in_hand"]
    await trace.take([say("began", channel=Channel("rabbit@two", "", 0, ""))])
    assert await trace.said() == ["in_hand", None]
    await trace.killed()
    await trace.take(
        [deliver(channel=there), say("ended", channel=Channel("rabbit@one", "", 0, ""))]
    )
    await trace.take([settled(1), deliver()])
    assert await trace.said() == [None, None, "in_hand", None]


async def test_a_channel_that_the_plugin_tells_no_more_of_is_not_counted(
    store: Store, trace_id: int
) -> None:
    trace = Trace(store, trace_id)
    await trace.take([opened(), deliver(), deliver(), settled(1), say("silent"), deliver()])
    assert await trace.said() == ["acknowledged", None, None]
    await trace.take([settled(2), opened(next_tag=7), deliver(), settled(7)])
    assert await trace.said() == ["acknowledged", None, None, "acknowledged"]


async def test_what_a_channel_has_consumed_from_is_forgotten_once_it_has_left_it_out_twice(
    store: Store, trace_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for bound in ("MOST_QUEUES", "MOST_MANNERS"):
        monkeypatch.setattr(settlements, bound, 5)
    trace, tag = Trace(store, trace_id), 1
    for number in range(20):
        queue = f"reply-{number}"
        await trace.take([opened(next_tag=tag), say("consumer", queue=queue, auto=True)])
        await trace.take([deliver(queue)] * 2)
        tag += 2
        # It is cancelled; what it had been handed before is on its way.
        await trace.take([opened(next_tag=tag), deliver(queue)])
        tag += 1
        if number % 5 == 0:
            await trace.killed()
    assert {*await trace.said()} == {"auto"}


@pytest.mark.parametrize("bound", ["MOST_QUEUES", "MOST_MANNERS"])
async def test_a_channel_that_takes_from_too_many_queues_is_given_up(
    store: Store, trace_id: int, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(settlements, bound, 3)
    trace = Trace(store, trace_id)
    queues = [
        say("consumer", queue="one"),
        say("get", queue="two", auto=True),
        say("get", queue="two"),
    ]
    await trace.take([opened(), *queues, say("consumer", queue="three"), deliver("one")])
    assert await trace.said() == ["in_hand"]
    await trace.take([say("consumer", queue=f"{number}") for number in range(4)])
    assert await trace.said() == [None]


def test_what_a_frame_costs_does_not_grow_with_what_its_channel_holds() -> None:
    def seconds(held: int) -> float:
        known = settlements.Settlements()
        known.note(say("channel", pid="<1>", next_tag=1, transactional=True))
        for event_id in range(1, held + 1):
            known.count_delivery(deliver(), Reference(b"", 0, event_id), 1)
        frames = [
            settled(0, up_to=True),
            say("rolled_back"),
            settled(held),
            settled(held // 2, up_to=True),
            say("rolled_back"),
            settled(held // 2, up_to=True),
            settled(0, up_to=True, outcome="returned"),
            say("recovered"),
            say("rolled_back"),
        ] * 20
        began = time.process_time()
        for frame in frames:
            known.note(frame)
        return time.process_time() - began

    few, many = (min(seconds(held) for _ in range(3)) for held in (100, 9_000))
    assert many < 10 * few


async def test_who_has_a_number_next_shows_that_its_last_owner_is_gone(
    store: Store, trace_id: int
) -> None:
    trace = Trace(store, trace_id)
    await trace.take([opened("<1>"), deliver(), opened("<2>", at=7), deliver()])
    await trace.killed()
    await trace.take([say("closed", at=9, pid="<1>"), settled(1, at=10, outcome="rejected")])
    first, second = await trace.received()
    assert (first.settlement, first.settled_at) == (Disposition.channel_closed, BEGINNING + 7)
    assert (second.settlement, second.settled_at) == (Disposition.rejected, BEGINNING + 10)


async def test_a_channel_that_holds_too_much_is_known_again_behind_it(
    store: Store, trace_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settlements, "MOST_IN_HAND", 3)
    trace = Trace(store, trace_id)
    await trace.take([opened(), *(deliver() for _ in range(4))])
    assert await trace.said() == [None] * 4
    await trace.take([deliver(), settled(5, up_to=True), deliver()])
    assert await trace.said() == [None] * 4 + ["acknowledged", "in_hand"]


async def test_the_oldest_of_too_many_channels_is_given_up(
    store: Store, trace_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settlements, "MOST_CHANNELS", 2)
    trace = Trace(store, trace_id)
    places = [Channel("rabbit@one", "c:1 -> b", number, "shop") for number in range(3)]
    for place in places:
        await trace.take(
            [
                say("channel", channel=place, pid=f"<{place.number}>", next_tag=1),
                deliver(channel=place),
            ]
        )
    assert await trace.said() == [None, "in_hand", "in_hand"]
    assert len((await store.checkpoints.restore(trace_id, 0)).open_channels) == 2


@pytest.mark.parametrize("bound", ["MOST_CHANNELS", "MOST_HELD", "MOST_MANNERS"])
async def test_a_user_who_takes_all_places_takes_none_of_others(
    store: Store, trace_id: int, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(settlements, bound, 4)
    trace = Trace(store, trace_id)
    greedy = [Channel("rabbit@one", "g:1 -> b", number, "greedy") for number in range(12)]
    for place in (*greedy[:6], CHANNEL, *greedy[6:]):
        pid = f"<{place.user}{place.number}>"
        consumer = say("consumer", channel=place, pid=pid, queue="work", auto=False)
        told = say("channel", channel=place, pid=pid, next_tag=1)
        await trace.take([told, consumer, deliver(channel=place)])
    said = await trace.said()
    assert said.pop(6) == "in_hand"
    assert said.count("in_hand") == 4 - (bound == "MOST_CHANNELS")
    await trace.killed()
    await trace.take([settled(1)])
    assert (await trace.said())[6] == "acknowledged"


async def test_after_a_loss_nothing_is_known_until_a_channel_is_counted_anew(
    store: Store, trace_id: int
) -> None:
    trace = Trace(store, trace_id)
    await trace.take([opened(), deliver(), deliver(), settled(1)])
    trace.tracker.settlements.forget()
    await trace.take([settled(2), deliver(), opened("<2>"), deliver()])
    assert await trace.said() == ["acknowledged", None, None, "in_hand"]
    await trace.killed()
    await trace.take([settled(1)])
    assert await trace.said() == ["acknowledged", None, None, "acknowledged"]
    first, *_ = await trace.received()
    trace.tracker.settlements.forget(event_id=first.id)
    await trace.take([deliver()])
    assert await trace.said() == ["acknowledged", None, None, None, None]


async def test_settlements_wait_behind_a_delivery_that_waits_for_its_publish(
    store: Store, trace_id: int
) -> None:
    """On a cluster a delivery may come before its publish, and so what became of it."""
    trace = Trace(store, trace_id, window=1_000_000)
    await trace.take([opened(), deliver(), settled(1), deliver()])
    assert len(trace.tracker._window) == 3
    await trace.killed()
    other = Channel("rabbit@one", "d:1 -> b", 1, "shop")
    publish = Publish(other, "", ("work",), ("work",), {}, b"")
    await trace.take([publish, publish])
    assert await trace.said() == ["acknowledged", "in_hand"]


async def test_a_trace_of_some_queues_counts_nothing(store: Store, trace_id: int) -> None:
    some = Tracker(Policy.channel, Bounds(), selection=Selection(queues=("work",)))
    some.settle(opened(), 1)
    assert not some.settlements.channels


async def test_on_a_unix_socket_whose_clients_share_channels_names_nothing_is_counted() -> None:
    tracker = Tracker(Policy.client, Bounds())
    for connection, count in ((":0 -> /run/rabbitmq.sock:0", 0), ("10.0.0.7:1 -> 10.0.0.9:2", 1)):
        channel = Channel("rabbit@one", connection, 1, "shop")
        tracker.settle(msgspec.structs.replace(opened(), channel=channel), 1)
        assert len(tracker.settlements.channels) == count


async def test_a_publishs_fate_says_who_handled_it_and_who_holds_it(
    store: Store, trace_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "now", lambda: BEGINNING + 40_000_000)
    trace = Trace(store, trace_id)
    shop, silent = (Channel("rabbit@one", f"{name}:1 -> b", 1, name) for name in ("shop", "old"))
    queues = ("audit", "billing", "log", "mail", "old", "ship", "stock")
    publish = Publish(shop, "", ("work",), queues, {}, b"")
    records = [
        Deliver(silent if queue == "old" else CHANNEL, "", ("work",), queue, False, {}, b"")
        for queue in queues[:-1]
    ]
    modes = say("consumer", queue="log", auto=True)
    await trace.take([opened(), modes, publish, *records])
    fate = await store.copies.fate_of(1)
    said = "handed over for 6 of 7 queues; shop@c #2 has held audit's for 40.0 s, shop@c #2 has"
    assert fate.sentence.startswith(said)
    outcomes = enumerate(("acknowledged", "", "", "rejected", "acknowledged"), start=1)
    await trace.take(settled(tag, outcome=each) for tag, each in outcomes if each)
    fate = await store.copies.fate_of(1)
    assert fate.sentence == (
        "handed over for 6 of 7 queues; acknowledged for 2 of 7;"
        " shop@c #2 has held billing's for 40.0 s; taken without acknowledgement from log;"
        " rejected from mail; settlement unknown: old"
    )
    order, told = message(1, "work"), channel(9, "cleaner")
    await trace.take([say("channel", channel=told, pid="<9>", next_tag=1), order])
    dead = letter(told, order, death("work"))
    await trace.take([handed(CHANNEL, order, "work"), settled(6, outcome="rejected"), dead])
    await trace.take([say("settled", channel=told, outcome="acknowledged", delivery_tag=1)])
    fate = await store.copies.fate_of(8)
    assert fate.sentence == "handed over for 1 of 1 queue; rejected from work"
    other = Publish(shop, "", ("old",), ("old",), {}, b"")
    await trace.take([other, deliver("old", silent)])
    assert (await store.copies.fate_of(11)).sentence == "handed over for 1 of 1 queue"


@pytest.mark.parametrize("is_told", [True, False])
async def test_of_two_holders_of_equal_messages_the_one_that_rejected_it_is_named(
    store: Store, trace_id: int, is_told: bool
) -> None:
    trace = Trace(store, trace_id)
    two = Channel("rabbit@one", "c:2 -> b", 1, "shop")
    order = message(1, "work", content_type="text/plain")
    channels = [opened(), say("channel", channel=two, pid="<2>", next_tag=1)][: 1 + is_told]
    both = (handed(each, order, "work") for each in (CHANNEL, two))
    await trace.take([*channels, order, order, *both, settled(1, outcome="rejected")])
    await trace.take([letter(ADMIN, order, death("work"))])
    rejected = {"outcome": "rejected", "delivery_tag": 1, "channel": two}
    for later in ([], [say("settled", 9_000_000, **rejected)]):  # long after the letter came
        await trace.take(later)
        [failure] = (await store.failures.find(FailureFilter())).items
        assert failure.handed_over == (3 if is_told else None)
        assert (failure.by is not None) is is_told


async def test_what_is_held_is_told_by_queue_and_holder_and_late_by_what_is_usual(
    store: Store, trace_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace, second = Trace(store, trace_id), 1_000_000
    known = [opened()]
    for tag in range(1, 21):  # each is in hand for two seconds
        known += [deliver(), settled(tag, tag * 2 * second)]
    await trace.take([*known, deliver(), deliver(), deliver("log")])
    since = BEGINNING + 40 * second

    async def held(after: float) -> list[HeldCopies]:
        found = await store.copies.in_hand({"/"}, moment=since + round(after * second))
        assert found.count == (3 if found.items else 0)
        assert found.truncated is (found.count > sum(each.count for each in found.items))
        return found.items

    [holder] = await store.participants.list(trace_id)
    who = Who(holder.participant, holder.name)
    about = {"vhost": "/", "holder": who, "since": since, "late": False}
    work = HeldCopies(queue="work", count=2, oldest=21, usual=2 * second, **about)
    log = HeldCopies(queue="log", count=1, oldest=23, usual=None, **about)
    assert await held(1.9) == [work, log]
    assert await held(60) == [msgspec.structs.replace(work, late=True), log]
    assert (await store.copies.in_hand((), moment=since)).items == []
    monkeypatch.setattr(copies, "MOST_HOLDERS", 1)
    assert await held(1) == [work]
    await trace.take([settled(23, up_to=True)])
    assert await held(60) == []


# What becomes of a message in two queues: how long after it came each copy is settled (s), and how.
# Then whether it is acknowledged within 10 s, and why not.
Kept: TypeAlias = tuple[float | None, str | None] | None
DONE: Kept = (1, "acknowledged")
FATES: list[tuple[Kept, Kept, str, str]] = [
    (DONE, (9.9, "acknowledged"), "holds", ""),
    (DONE, (None, None), "violated", "shop@c #2 has it in hand from log"),
    (DONE, None, "violated", "nobody was handed it from log"),
    ((12, "acknowledged"), DONE, "violated", "acknowledged from work only after 12.0 s"),
    ((10.5, "acknowledged"), DONE, "unknown", "how long it took from work is not known"),
    # The trace lagged:
    ((-5, "acknowledged"), DONE, "unknown", "how long it took from work is not known"),
    ((1, "rejected"), DONE, "violated", "shop@c #2 rejected it from work"),
    ((1, "returned"), DONE, "violated", "shop@c #2 gave it back from work"),
    (DONE, (None, "untold"), "unknown", "what became of it from log is not known"),
]


async def test_whether_it_is_acknowledged_in_time_is_judged_alike_live_and_in_a_job(
    store: Store, trace_id: int
) -> None:
    trace, sender = Trace(store, trace_id), Channel("rabbit@one", "s:1 -> b", 1, "s")
    elsewhere = Channel("rabbit@one", "e:1 -> b", 1, "e")  # of which nothing is told
    await trace.take([opened()])
    tag = 0
    for number, both in enumerate(each[:2] for each in FATES):
        about = {"type": "order", "message_id": f"{number}"}
        records: list[Publish | Deliver | Settlement] = []
        records.append(Publish(sender, "x", ("order",), ("work", "log"), about, b""))
        later = []
        for queue, kept in zip(("work", "log"), both, strict=True):
            if kept is not None:
                after, how = kept
                channel = elsewhere if how == "untold" else CHANNEL
                records.append(Deliver(channel, "x", ("order",), queue, False, about, b""))
                tag += channel is CHANNEL
                if after is not None and how is not None:
                    later.append(settled(tag, round(after * 1_000_000), how))
        await trace.take([*records, *later])
    said = {"name": "a", "every": "order", "acknowledged_within": "10s"}
    subject = subject_of(msgspec.json.encode(said).decode())
    assert subject is not None
    live = await judged(store, trace_id, subject)
    findings = judge(from_json(said), Causation(await whole(store)), read_until=FAR)
    expected = [verdict for *_, verdict, _ in FATES]
    assert [each.verdict.value for each in findings] == expected
    outcomes = [*live.values()]
    assert [each.verdict for each in outcomes] == expected
    for (*_, verdict, why), finding, outcome in zip(FATES, findings, outcomes, strict=True):
        assert finding.sentence.endswith(why)
        assert len(outcome.violations) == (verdict == "violated")
        assert all(each.sentence.endswith(f"within 10.0 s: {why}") for each in outcome.violations)
    await store.gaps.open(trace_id, after_event_id=1, since=1, reason="lost")
    unsure = await judged(store, trace_id, subject)
    assert [e.verdict == "holds" for e in unsure.values()] == [each == "holds" for each in expected]
    assert not any(each.violations for each in unsure.values())


async def test_what_came_back_to_its_queue_is_listed_with_what_waits(
    store: Store, trace_id: int
) -> None:
    async def waiting(*places: tuple[int, str, int]) -> None:
        """Hold the lists against the copies that wait, by publish, queue and returns."""
        choice = ConversationFilter(state=State.waiting)
        page = await store.conversations.list(EventFilter(), choice, Via.links)
        assert [
            (one.root, one.position.queue, one.position.returns)
            for one in page.items
            if one.position is not None
        ] == [*places]
        since = {one.root: one.position.since for one in page.items if one.position is not None}
        oldest = min(((since[root], root) for root, *_ in places), default=(None, None))
        traffic = await store.copies.of_queue(trace_id, "/", "work")
        assert (traffic.waiting, traffic.oldest_at, traffic.oldest) == (len(places), *oldest)
        copies = [QueueCopies("work", len(places), *oldest)] if oldest[0] else []
        assert await store.copies.by_queue(trace_id, in_hand=False) == copies

    trace, old, new = Trace(store, trace_id), message(1, "work"), message(2, "work")
    first = handed(CHANNEL, old, "work")
    again = msgspec.structs.replace(first, redelivered=True)
    await trace.take([opened(), new, old, first, settled(1, outcome="returned")])
    await waiting((1, "work", 0), (2, "work", 1))
    assert await store.copies.back_in_queues(trace_id, BEGINNING) == []
    back = [QueueCopies("work", 1, BEGINNING + 2, 2)]
    assert await store.copies.back_in_queues(trace_id, BEGINNING + 3) == back
    await trace.take([again])
    await waiting((1, "work", 0))
    await trace.take([settled(2, outcome="returned")])
    await waiting((1, "work", 0), (2, "work", 2))
    trace.tracker.note_lost(LostCopy(Reference(b"", 0, 2), "work", BEGINNING + 9, "returned"))
    await trace.take([])
    await waiting((1, "work", 0))
    assert await store.copies.back_in_queues(trace_id, BEGINNING + 3) == []
    [left] = (await store.conversations.of_event(2, Via.links)).conversation.messages
    assert left.outcome is Outcome.unknown
    restored = await store.checkpoints.restore(trace_id, 1_000)
    assert restored.lost_copies == [], "it had been handed over, which a dead letter is known by"


async def test_what_may_have_been_rejected_is_not_done_before_such_came_back(
    store: Store, trace_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the plugin: dead letters of the queue came back to it from a queue for delays."""
    tracker, first, second = tracker_by(Policy.channel), message(1), message(2)
    others = [message(number, "log") for number in range(4, 20)]
    parked = [message(3), handed(BILLING, message(3)), *others]  # the dead letter is read late
    await tell(store, trace_id, tracker, [*parked, letter(OTHER, message(3), death("orders"))])
    back = letter(BILLING, first, death("delays", "expired"), death("orders"), queue="orders")
    handovers = handed(BILLING, first), back, second, handed(BILLING, second)
    ids = await tell(store, trace_id, tracker, [first, *handovers])
    [came, returned] = [(await store.events.get(number)).recorded_at for number in ids[1:3]]
    [taken] = [(await store.events.get(number)).recorded_at for number in ids[4:]]
    for waited, outcome in ((2, Outcome.unknown), (3, Outcome.done)):
        moment = taken + waited * (returned - came)
        monkeypatch.setattr(conversing, "present", lambda at=moment: at - 1)
        found = (await store.conversations.of_event(ids[3], Via.links)).conversation
        assert found.messages[0].outcome is outcome
