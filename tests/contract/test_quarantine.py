"""What came and is no event: a gap where it would be, and its own channel's settlements unknown."""

from __future__ import annotations

import pytest

from app.errors import UnfitError
from app.store import Store
from app.store.capture.gaps import CROWD, MOST_NEAR, NEAR_EVENTS
from app.tracker import NOWHERE, Channel, Publish, Unreadable
from app.tracker.records import UNTRACED_REPLY
from model.deaths import LossWord
from model.gaps import Gap
from tests.contract.broker import BEGINNING
from tests.contract.history import History, omission
from tests.contract.test_settlements import CHANNEL, Trace, deliver, opened, say, settled

OTHER = Channel("rabbit@two", "c:2 -> b", 1, "billing")
BOTH = [opened(), say("channel", channel=OTHER, pid="<2>", next_tag=1)]


def unread(
    key: str = "deliver.work",
    channel: Channel = CHANNEL,
    reason: str = "nested deeper than 64",
    *,
    at: int = 5,
    is_forged: bool = False,
) -> Unreadable:
    return Unreadable(reason, key, "{}", b"", 0, BEGINNING + at, channel, is_forged)


@pytest.mark.parametrize("key", ["deliver.work", "settle.settled"])
async def test_one_record_that_cannot_be_read_leaves_all_other_channels_known(
    store: Store, trace_id: int, key: str
) -> None:
    trace = Trace(store, trace_id)
    await trace.take([*BOTH, deliver(), deliver(channel=OTHER), unread(key), deliver()])
    assert trace.tracker.settlements.is_anew  # channels are asked where they stand
    await trace.killed()
    await trace.take([say("settled", 6, OTHER, outcome="rejected", delivery_tag=1), settled(1)])
    assert await trace.said() == [None, "rejected", None]
    await trace.take([opened(next_tag=4), deliver(), settled(4)])
    assert await trace.said() == [None, "rejected", None, "acknowledged"]


async def test_where_even_the_channel_cannot_be_told_nothing_is_known(
    store: Store, trace_id: int
) -> None:
    trace = Trace(store, trace_id)
    await trace.take([*BOTH, deliver(), deliver(channel=OTHER), unread(channel=NOWHERE)])
    assert await trace.said() == [None, None]
    [gap] = await store.gaps.newest(trace_id)
    assert gap.channel is None
    assert gap.reason == (
        "a delivery from queue 'work' to a channel that nobody can tell is in quarantine: nested "
        "deeper than 64; what became of any delivery in the virtual host until then is not known"
    )


@pytest.mark.parametrize(
    "record",
    [
        unread("publish.x"),
        unread("settle.settled", is_forged=True),
        unread("", NOWHERE, is_forged=True),
        unread(channel=Channel("rabbit@two", "c:9 -> b", 1, "nobody")),
    ],
)
async def test_what_tells_of_no_delivery_that_is_known_leaves_all_settlements_known(
    store: Store, trace_id: int, record: Unreadable
) -> None:
    trace = Trace(store, trace_id)
    await trace.take([*BOTH, deliver(), deliver(channel=OTHER), record, settled(1)])
    assert await trace.said() == ["acknowledged", "in_hand"]
    [gap] = await store.gaps.newest(trace_id)
    assert "not known" not in gap.reason


async def test_its_gap_is_between_the_events_around_it_and_says_whose_it_is(
    store: Store, trace_id: int
) -> None:
    trace = Trace(store, trace_id)
    await trace.take([deliver(), deliver(), unread("publish.x", at=7), deliver(), unread(at=8)])
    await trace.take([deliver(channel=OTHER)])
    assert await store.gaps.newest(trace_id) == [
        Gap(
            *(1, 2, 3, BEGINNING + 7, BEGINNING + 7),
            "a publish on channel 1 on c:1 -> b (shop@c #1) is in quarantine: "
            "nested deeper than 64",
            declared=True,
            quarantined=1,
            channel="c:1 -> b (1)",
        ),
        Gap(
            *(2, 3, 4, BEGINNING + 8, BEGINNING + 8),
            "a delivery from queue 'work' to channel 1 on c:1 -> b (shop@c #1) is in quarantine: "
            "nested deeper than 64",
            declared=True,
            quarantined=1,
            channel="c:1 -> b (1)",
        ),
    ]
    for a, b, count in ((1, 2, 0), (1, 3, 1), (2, 3, 1), (3, 4, 1), (1, 4, 2)):
        assert len(await store.gaps.between(trace_id, a, b)) == count


async def test_on_a_cluster_a_delivery_that_cannot_be_read_waits_with_its_participant(
    store: Store, trace_id: int
) -> None:
    """Its publish may come later, as that of any delivery, and is before it in every answer."""
    trace = Trace(store, trace_id, window=1_000_000)
    await trace.take([unread(), deliver()])
    assert await store.gaps.newest(trace_id) == []
    await trace.killed()
    trace.tracker.reorder(True)
    publish = Publish(OTHER, "", ("on",), (), {}, b"")
    await trace.take([publish])
    assert await store.gaps.newest(trace_id) == []
    trace.tracker.reorder(False)
    await trace.take([publish])
    [gap] = await store.gaps.newest(trace_id)
    [own] = await trace.received()
    assert (gap.after_event_id, gap.before_event_id, own.id) == (2, 3, 3)
    assert (gap.channel, gap.quarantined) == ("c:1 -> b (1)", 1)
    assert len(await store.quarantine.newest()) == 1


async def test_row_and_gap_are_stored_together_or_not_at_all(store: Store, trace_id: int) -> None:
    batch = History(seed=3).batch(4)
    batch.checkpoint.omissions += [omission(unread()), omission(unread(reason="other"))]
    for faulty in (None, "too large"):
        batch.checkpoint.omissions[1] = omission(unread(reason=faulty))  # type: ignore[arg-type]
        if faulty is None:
            with pytest.raises(UnfitError):
                await store.batches.append(trace_id, batch)
            assert await store.gaps.newest(trace_id) == await store.quarantine.newest() == []
    await store.batches.append(trace_id, batch)
    await store.batches.append(trace_id, batch)  # again, after an outage
    [gap] = await store.gaps.newest(trace_id)
    assert (gap.quarantined, len(await store.quarantine.newest())) == (2, 2)


async def test_those_between_the_same_events_have_one_gap(store: Store, trace_id: int) -> None:
    trace = Trace(store, trace_id)
    await trace.take([deliver()])
    for at in range(5):
        await trace.take([unread(at=at), unread(at=at)])
    [gap] = await store.gaps.newest(trace_id)
    assert (gap.after_event_id, gap.before_event_id, gap.quarantined) == (1, 2, 10)
    assert (gap.since, gap.until) == (BEGINNING, BEGINNING + 4)


async def test_the_gap_of_an_untraced_reply_is_no_quarantine(store: Store, trace_id: int) -> None:
    trace = Trace(store, trace_id)
    trace.tracker.trace_replies(False)
    reply = Publish(CHANNEL, "", ("amq.rabbitmq.reply-to.x",), (), {}, b"answer")
    await trace.take([deliver(), reply, deliver()])
    [gap] = await store.gaps.newest(trace_id)
    assert (gap.after_event_id, gap.before_event_id) == (2, 3)
    assert (gap.reason, gap.declared, gap.quarantined) == (UNTRACED_REPLY, False, 0)
    assert (gap.is_chosen(), gap.suspected, gap.channel) == (False, False, None)
    assert await store.quarantine.newest() == []


async def test_where_many_cannot_be_read_gaps_are_bounded_and_lose_none(
    store: Store, trace_id: int
) -> None:
    trace = Trace(store, trace_id)
    await trace.take([deliver()])
    for some in range(3):
        places = [Channel("n", f"c:{some}-{n} -> b", 1, "u") for n in range(MOST_NEAR)]
        await trace.take([each for at in places for each in (unread(channel=at), deliver())])
    gaps = await store.gaps.newest(trace_id, limit=1_000)
    assert len(gaps) <= MOST_NEAR + 1 < NEAR_EVENTS
    assert sum(gap.quarantined for gap in gaps) == 3 * MOST_NEAR
    [crowd] = [gap for gap in gaps if gap.reason == CROWD]
    assert crowd.channel is None
    last = 1 + 3 * MOST_NEAR
    for event in range(1, last):
        assert await store.gaps.between(trace_id, event, event + 1)


async def test_however_many_there_are_losses_stay_among_the_newest(
    store: Store, trace_id: int
) -> None:
    """A run that begins closes those that are open."""
    lost = await store.gaps.open(trace_id, after_event_id=0, since=1, reason="lost")
    trace = Trace(store, trace_id)
    await trace.take([each for _ in range(9) for each in (deliver(), unread())])
    assert lost in {gap.id for gap in await store.gaps.newest(trace_id, limit=5)}


@pytest.mark.parametrize("reason", ["not_there", "queue_deleted", "left"])
async def test_what_may_be_in_quarantine_as_delivered_was_handed_over(
    store: Store, trace_id: int, reason: LossWord
) -> None:
    trace, queue = Trace(store, trace_id), "q" * 250
    sent = [Publish(OTHER, "", (name,), (name,), {}, b"") for name in (queue, "other")]
    await trace.take([*sent, unread(f"deliver.{queue}")])
    await trace.killed()
    for copy in trace.tracker.pending()[0]:
        trace.tracker.lose(copy, BEGINNING + 9, reason)
    await trace.take([])
    states = [(await store.copies.fate_of(each)).message.copies[0].state for each in (1, 2)]
    assert states == ["handed_over", "gone"]
