"""What led to a delivery: deaths in any order, holders, and messages that are equal."""

from __future__ import annotations

from typing import Any

import pytest

from app.tracker import Bounds, Deliver, Policy, Publish, Record, StampedEvent, Tracker
from app.tracker._memories import KeyedFifo
from app.tracker.matching.copies import CLEARLY_LATER, LONG_EXPIRED
from app.tracker.matching.holds import LOOK_BACK
from app.tracker.matching.queues import MOST_PUSHERS
from itc import Relation, compare
from model.words import EdgeKind, Match
from tests.model_broker.broker import channel
from tests.model_broker.manners import MANNERS, with_death

DEAD = Match.dead_lettered


def publish(who: str, *queues: str, body: bytes = b"m", **properties: Any) -> Publish:
    return Publish(channel(who), "x", ("key",), queues, properties, body)


def handed(
    who: str, queue: str, *, body: bytes = b"m", again: bool = False, **more: Any
) -> Deliver:
    return Deliver(channel(who), "x", ("key",), queue, again, more, body)


def death(queue: str, reason: str = "expired", count: int = 1, **more: Any) -> dict[str, Any]:
    fields = {"queue": queue, "reason": reason, "exchange": "x", "routing-keys": ["key"]}
    return {**fields, "count": count, "time": 1, **more}


def headers(*deaths: dict[str, Any], is_new: bool = False) -> dict[str, Any]:
    """What the broker writes: of 4.0 and later if it is new."""
    last = {"x-last-death-queue": deaths[0]["queue"]} if is_new else {}
    return {"headers": {"x-death": [*deaths], **last}}


def letter(
    who: str,
    queue: str,
    *deaths: dict[str, Any],
    body: bytes = b"m",
    new: bool = False,
    **more: Any,
) -> Deliver:
    properties = headers(*deaths, is_new=new)
    again = more.pop("again", False)
    return Deliver(channel(who), "dlx", (queue,), queue, again, properties, body)


class World:
    """A trace, with a clock that is set by hand."""

    def __init__(self) -> None:
        self.tracker = Tracker(Policy.channel, Bounds())
        self.now = 1

    def __call__(self, record: Record) -> StampedEvent:
        (event,) = self.tracker.apply(record, self.now)
        self.now += 1
        return event

    def later(self, by: int = 2 * CLEARLY_LATER) -> None:
        """Let time pass, by steps that the tracker takes for time."""
        self.tracker._time.time += by


@pytest.fixture
def world() -> World:
    return World()


def kinds(event: StampedEvent) -> list[tuple[EdgeKind, int]]:
    return [(edge.kind, id(edge.cause)) for edge in event.edges]


def is_before(a: StampedEvent, b: StampedEvent) -> bool:
    return compare(a.stamp, b.stamp) is Relation.before


def listed(version: str, deaths: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries of deaths, which came oldest first, as a version lists them."""
    table: dict[str, Any] = {}
    for each in deaths:
        table = with_death(MANNERS[version], table, each, is_brought=False)
    entries: list[dict[str, Any]] = table["x-death"]
    return entries


ORDERS = ("3.10", "4.0")


def test_entries_are_listed_as_they_were_measured() -> None:
    for version, order in (("3.10", "d5 d3 d1 d2 d4"), ("4.0", "d5 d4 d3 d2 d1")):
        entries = listed(version, [death(f"d{n}") for n in range(1, 6)])
        assert " ".join(each["queue"] for each in entries) == order


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("levels", [1, 2, 3, 4, 5, 13, 28])
def test_a_ladder_of_delays_leads_back_to_its_publish(
    world: World, levels: int, order: str
) -> None:
    sent = world(publish("ann", "level0"))
    deaths = listed(order, [death(f"level{n}") for n in range(levels)])
    arrived = world(letter("bob", "work", *deaths, new=order == "4.0"))
    assert (arrived.match, arrived.cause, arrived.edges) == (DEAD, sent.reference, ())
    assert not arrived.is_doubtful


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("levels", [1, 2, 3])
def test_a_retry_is_followed_through_every_round(world: World, levels: int, order: str) -> None:
    """Rejected, delayed over some levels, and handed over again, with entries that count."""
    sent = world(publish("ann", "work"))
    event = world(handed("bob", "work"))
    died: list[dict[str, Any]] = []
    for round_ in range(1, 8):
        died += [death("work", "rejected"), *(death(f"level{n}") for n in range(levels))]
        before, who = event, f"worker{round_}"
        event = world(letter(who, "work", *listed(order, died), new=order == "4.0"))
        assert (event.match, event.cause) == (DEAD, sent.reference)
        assert kinds(event) == [(EdgeKind.rejected, id(before.reference))]
        assert is_before(before, event)


def test_who_rejects_a_message_leads_to_its_dead_letter(world: World) -> None:
    sent = world(publish("ann", "work"))
    taken = world(handed("billing", "work"))
    later = world(publish("billing"))
    dead = world(letter("audit", "dead", death("work", "rejected")))
    assert (dead.match, dead.cause) == (DEAD, sent.reference)
    assert (EdgeKind.rejected, id(taken.reference)) in kinds(dead)
    assert is_before(later, dead), "it may have rejected it at any time until now"


def test_who_gives_a_message_back_leads_to_its_next_delivery(world: World) -> None:
    sent = world(publish("ann", "work"))
    first = world(handed("a", "work"))
    second = world(handed("b", "work", again=True))
    third = world(handed("c", "work", again=True))
    dead = world(letter("d", "dead", death("work", "delivery_limit")))
    assert {event.cause for event in (second, third, dead)} == {sent.reference}
    assert kinds(second) == [(EdgeKind.returned, id(first.reference))]
    assert kinds(third) == [(EdgeKind.returned, id(second.reference))]
    assert kinds(dead) == [(EdgeKind.rejected, id(third.reference))]


def test_holders_of_what_was_published_before_the_trace_are_known_too(world: World) -> None:
    first = world(handed("a", "work"))
    second = world(handed("b", "work", again=True))
    dead = world(letter("c", "dead", death("work", "rejected")))
    assert {event.match for event in (first, second, dead)} == {Match.unmatched}
    assert kinds(second) == [(EdgeKind.returned, id(first.reference))]
    assert kinds(dead) == [(EdgeKind.rejected, id(second.reference))]
    assert is_before(first, second)
    assert is_before(second, dead)


def test_what_expires_after_it_was_given_back_has_its_holders_past(world: World) -> None:
    world(publish("ann", "work"))
    first = world(handed("a", "work"))
    dead = world(letter("d", "dead", death("work", "expired")))
    assert kinds(dead) == [(EdgeKind.returned, id(first.reference))]


def test_who_publishes_last_to_a_queue_that_is_full_pushes_its_head_out(world: World) -> None:
    first = world(publish("p1", "short", body=b"1"))
    second = world(publish("p2", "short", body=b"2"))
    dead = world(letter("audit", "dead", death("short", "maxlen"), body=b"1"))
    assert (dead.cause, dead.is_doubtful) == (first.reference, False)
    assert kinds(dead) == [(EdgeKind.overflow, id(second.reference))]


def test_where_several_can_have_pushed_it_out_any_of_them_may(world: World) -> None:
    world(publish("p1", "short", body=b"1"))
    others = [world(publish(f"p{n}", "short", body=b"%d" % n)) for n in (2, 3)]
    since = world(publish("p3"))
    dead = world(letter("audit", "dead", death("short", "maxlen"), body=b"1"))
    assert {(EdgeKind.candidate, id(each.reference)) for each in others} <= set(kinds(dead))
    assert {kind for kind, _ in kinds(dead)} == {EdgeKind.candidate}
    assert all(is_before(each, dead) for each in (*others, since))


def test_a_publish_that_a_full_queue_refuses_is_not_pushed_out_by_the_next(world: World) -> None:
    """`reject-publish-dlx`: whoever filled the queue before may have had a part."""
    filling = world(publish("p0", "full", body=b"0"))
    world(publish("p1", "full", body=b"1"))
    world(handed("bob", "full", body=b"0"))
    world(publish("p2", "full", body=b"2"))
    dead = world(letter("audit", "dead", death("full", "maxlen"), body=b"1"))
    assert {kind for kind, _ in kinds(dead)} == {EdgeKind.candidate}
    assert id(filling.reference) in {cause for _, cause in kinds(dead)}


def test_who_pushed_it_out_is_in_doubt_where_too_many_publish(world: World) -> None:
    world(publish("ann", "short", body=b"0"))
    for number in range(MOST_PUSHERS + 1):
        world(publish(f"p{number}", "short", body=b"1"))
    assert world(letter("audit", "dead", death("short", "maxlen"), body=b"0")).is_doubtful


def test_one_death_makes_several_dead_letters(world: World) -> None:
    sent = world(publish("ann", "dying"))
    one = world(letter("a", "one", death("dying")))
    other = world(letter("b", "other", death("dying")))
    assert [event.cause for event in (one, other)] == [sent.reference] * 2
    assert not is_before(one, other)
    # And in each queue another like it is of another death.
    assert world(letter("a", "one", death("dying"))).match is Match.unmatched
    again = world(publish("ann", "dying"))
    assert world(letter("a", "one", death("dying", time=2))).cause is again.reference
    assert world(letter("b", "other", death("dying", time=2))).cause is again.reference


def test_a_rejection_makes_several_dead_letters_too(world: World) -> None:
    world(publish("ann", "work"))
    taken = world(handed("bob", "work"))
    for queue in ("one", "other"):
        dead = world(letter("a", queue, death("work", "rejected")))
        assert kinds(dead) == [(EdgeKind.rejected, id(taken.reference))]


@pytest.mark.parametrize("count", [2, 1], ids=["3.10 counts on", "4 begins anew"])
def test_a_dead_letter_that_is_put_back_and_dies_again_is_the_replays(
    world: World, count: int
) -> None:
    new = count == 1
    world(publish("ann", "work"))
    world(handed("billing", "work"))
    first = world(letter("ops", "dead", death("work", "rejected"), new=new, again=new))
    brought = headers(death("work", "rejected"), is_new=new)
    replay = world(publish("ops", "work", **brought))
    taken = world(handed("billing", "work", **brought))
    assert (taken.match, taken.cause) == (Match.routed, replay.reference)
    dies = death("work", "rejected", count=count, time=2)
    second = world(letter("ops2", "dead", dies, new=new, again=new))
    assert (second.match, second.cause) == (DEAD, replay.reference)
    assert kinds(second) == [(EdgeKind.rejected, id(taken.reference))]
    assert is_before(first, second)


def test_a_first_delivery_of_equal_messages_may_be_of_any(world: World) -> None:
    sent = [world(publish(who, "work")) for who in ("p1", "p2", "p1", "p3")]
    taken = world(handed("bob", "work"))
    assert (taken.match, taken.cause, taken.candidates) == (Match.routed, None, 4)
    newest = {id(sent[n].reference) for n in (1, 2, 3)}
    assert {cause for _, cause in kinds(taken)} == newest
    assert {kind for kind, _ in kinds(taken)} == {EdgeKind.candidate}
    assert all(is_before(each, taken) for each in sent)
    assert [world(handed("bob", "work")).candidates for _ in range(3)] == [3, 2, None]


def test_whoever_gives_back_one_of_two_is_known_though_not_what_it_was(world: World) -> None:
    world(publish("p1", "work"))
    world(publish("p2", "work"))
    first = world(handed("a", "work"))
    second = world(handed("b", "work", again=True))
    assert (second.cause, second.candidates) == (None, 2)
    assert kinds(second) == [(EdgeKind.returned, id(first.reference))]


def test_copies_of_one_publish_in_several_queues_are_not_mixed_up(world: World) -> None:
    sent = world(publish("ann", "one", "other"))
    assert world(handed("bob", "other")).cause is sent.reference
    assert world(handed("bob", "one")).cause is sent.reference


def test_a_copy_is_gone_once_what_came_in_clearly_later_was_handed_over(world: World) -> None:
    world(publish("p1", "work"))
    world.later()
    world(publish("p2", "work", body=b"other"))
    world(handed("bob", "work", body=b"other"))
    sent = world(publish("p3", "work"))
    assert world(handed("bob", "work")).cause is sent.reference


def test_it_is_not_gone_where_priorities_change_the_order(world: World) -> None:
    world(publish("p1", "work"))
    world.later()
    world(publish("p2", "work", body=b"other", priority=5))
    world(handed("bob", "work", body=b"other", priority=5))
    world(publish("p3", "work"))
    assert world(handed("bob", "work")).candidates == 2


def lose(world: World) -> None:
    copies, _ = world.tracker.pending()
    for copy in copies:
        world.tracker.lose(copy, 1, "queue_deleted")


def test_a_copy_that_is_lost_is_no_candidate_any_more(world: World) -> None:
    world(publish("p1", "work"))
    lose(world)
    sent = world(publish("p2", "work"))
    found = world(handed("bob", "work"))
    assert (found.cause, found.candidates) == (sent.reference, None)


def test_only_the_oldest_of_its_kind_can_be_lost(world: World) -> None:
    for who in ("p1", "p2"):
        world(publish(who, "work"))
    (first, second), _ = world.tracker.pending()
    world.tracker.lose(second, 1, "not_there")
    assert world.tracker.totals().pending_copies == 2
    world.tracker.lose(first, 1, "not_there")
    world.tracker.lose(first, 1, "not_there")
    assert world.tracker.totals().pending_copies == 1


def test_a_lost_copy_may_have_died_and_come_as_a_dead_letter(world: World) -> None:
    sent = world(publish("p1", "work"))
    lose(world)
    world(publish("p2", "work"))
    held = world(handed("bob", "work"))
    dead = world(letter("audit", "dead", death("work", "expired")))
    assert (dead.match, dead.cause, dead.candidates) == (DEAD, None, 2)
    assert is_before(sent, dead)
    assert is_before(held, dead)


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_lost_copy_that_died_is_its_publishs(world: World, is_alone: bool) -> None:
    sent = world(publish("p1", "work"))
    lose(world)
    if not is_alone:  # a second death in the same queue is another one's
        world(letter("audit", "dead", death("work", "expired")))
        world(publish("p2", "work"))
    dead = world(letter("audit", "dead", death("work", "expired", time=2)))
    assert dead.match is DEAD
    assert (dead.cause is sent.reference) is is_alone


def test_whoever_may_have_pushed_a_lost_copy_out_leads_to_its_dead_letter(world: World) -> None:
    world(publish("p1", "work"))
    pushed = world(publish("p2", "work", body=b"other"))
    copies, _ = world.tracker.pending()
    world.tracker.lose(copies[0], 1, "left")
    world(handed("bob", "work", body=b"other"))
    assert is_before(pushed, world(letter("audit", "dead", death("work", "maxlen"))))


def test_what_was_wrongly_taken_for_lost_may_be_its_publishs(world: World) -> None:
    sent = world(publish("p1", "work"))
    lose(world)
    world.tracker._matcher.kept.publishes = KeyedFifo()  # as of the default exchange
    found = world(handed("bob", "work"))
    assert (found.match, found.cause, found.is_doubtful) == (Match.routed, None, True)
    assert is_before(sent, found)


def test_copies_that_are_lost_are_remembered_within_bounds(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.tracker._matcher.copies.lost.most = 3
    for number in range(5):
        world(publish("ann", "work", body=b"%d" % number))
    lose(world)
    assert len(world.tracker._matcher.copies.lost) == 3
    assert len(world.tracker.checkpoint().copies_lost) == 5


def test_a_copy_is_gone_long_after_its_own_time_was_over(world: World) -> None:
    world(publish("p1", "work", expiration="100"))
    sent = world(publish("p2", "work"))
    world.later(LONG_EXPIRED + 200_000)
    assert world(handed("bob", "work")).cause is sent.reference


def test_of_equal_messages_that_are_rejected_any_may_be_the_dead_letter(world: World) -> None:
    for who in ("p1", "p2"):
        world(publish(who, "work"))
        world(handed(f"to {who}", "work"))
    dead = world(letter("audit", "dead", death("work", "rejected")))
    assert (dead.match, dead.cause, dead.candidates) == (DEAD, None, 2)
    assert {kind for kind, _ in kinds(dead)} == {EdgeKind.candidate}


def test_more_than_are_looked_at_is_a_doubt(world: World) -> None:
    for _ in range(LOOK_BACK + 1):
        world(publish("ann", "work", message_id="1"))
        world(handed("bob", "work", message_id="1"))
    assert world(handed("bob", "work", again=True, message_id="1")).is_doubtful


def test_a_death_that_nobody_was_seen_to_cause_is_a_doubt(world: World) -> None:
    sent = world(publish("ann", "work"))
    dead = world(letter("audit", "dead", death("work", "rejected")))
    assert (dead.cause, dead.is_doubtful) == (sent.reference, True)


def test_what_the_broker_kept_is_its_publishs_where_an_id_says_which(world: World) -> None:
    sent = world(publish("ann", message_id="1"))
    routed = world(publish("ann", "work", message_id="2"))
    world(handed("bob", "work", message_id="2"))
    for queue in ("new", "newer"):
        kept = [world(handed("bob", queue, message_id=number)) for number in "123"]
        assert [event.cause for event in kept] == [sent.reference, routed.reference, None]
        assert [event.match for event in kept] == [Match.routed, Match.routed, Match.unmatched]


def test_what_may_have_been_kept_and_forgotten_is_in_doubt(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.tracker.matching.memories.MOST_PUBLISHED", 3)
    world.tracker.trace_replies(False)  # as before 4.2, where no shovel moves unseen
    sent = [world(publish("ann", body=b"%d" % number)) for number in range(7)]
    assert is_before(sent[6], world(handed("bob", "new", body=b"6")))
    forgotten = world(handed("bob", "new", body=b"0"))
    assert (forgotten.match, forgotten.is_doubtful) == (Match.unmatched, True)
    assert len(world.tracker._matcher.kept.publishes) <= 3


def test_what_the_broker_kept_may_be_of_any_equal_publish(world: World) -> None:
    sent = [world(publish(who)) for who in ("ann", "dan")]
    kept = world(handed("bob", "new"))
    assert (kept.match, kept.cause, kept.candidates) == (Match.routed, None, 3)
    assert all(is_before(each, kept) for each in sent)


def test_memories_of_who_published_are_bounded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.tracker.matching.queues.MOST_QUEUES", 3)
    for number in range(10):
        world(publish("ann", f"q{number}"))
    matcher = world.tracker._matcher
    assert len(matcher.queues.states) <= 3
    dead = world(letter("audit", "dead", death("q0", "maxlen")))
    assert (dead.match, dead.is_doubtful) == (DEAD, True)
