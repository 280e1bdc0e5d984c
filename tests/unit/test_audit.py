"""What the audit proves, and that it never accuses a broker whose counters are merely late."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.traces.losses.audit import (
    BACKWARDS,
    LATE_SECONDS,
    Audit,
    AuditChange,
    AuditState,
    AuditVerdict,
    Compares,
    CountRange,
    Ledger,
    Look,
    Tally,
    verdict_on,
)
from app.traces.status import audit_status
from app.tracker.taken import make_selection
from model.times import Microseconds

NOTHING, EVEN = AuditChange(), AuditChange(AuditVerdict.balanced)


class World:
    """A broker that counts publishes (twice as many deliveries), and a trace that sees them."""

    def __init__(self, before: int = 0, state: AuditState | None = None) -> None:
        self.now = 0.0
        self.counted = before
        self.seen = 0
        self.started = 1_000
        self.audit = Audit(state, Tally(), self.now)

    def happens(self, count: int, *, traced: int | None = None) -> None:
        self.counted += count
        self.seen += count if traced is None else traced

    def waits(self, seconds: float = LATE_SECONDS) -> None:
        self.now += seconds

    def looks(self, *, late: int = 0, queued: int = 0, hidden: int = 0) -> AuditChange:
        """Look twice, since what is short has to be so again; return what was found."""
        first = self.looks_once(late=late, queued=queued, hidden=hidden)
        second = self.looks_once(late=late, queued=queued, hidden=hidden)
        return second if first == NOTHING else first

    def looks_once(self, *, late: int = 0, queued: int = 0, hidden: int = 0) -> AuditChange:
        """Look while so many were not counted yet, are in the queue, and in the broker alone."""
        counted, seen = self.counted - late, self.seen - queued - hidden
        return self.audit.look(
            Look(
                CountRange(*[Tally(counted, 2 * counted)] * 2, {"rabbit@one": self.started}),
                Tally(seen, 2 * seen),
                3 * queued,
                last_event_id=3 * seen,
                moment=Microseconds(int(self.now * 1e6)),
            ),
            self.now,
        )

    def is_quiet(self) -> AuditChange:
        """Nothing happens for long enough between two looks: all is at rest."""
        assert self.looks_once().verdict is not AuditVerdict.loss
        self.waits()
        return self.looks_once()

    @property
    def suspected(self) -> Tally:
        return self.audit.state.suspected


def missing(publishes: int) -> AuditChange:
    return AuditChange(AuditVerdict.loss, loss=Tally(publishes, 2 * publishes))


def suspected(publishes: int) -> AuditChange:
    return AuditChange(AuditVerdict.suspected, suspected=Tally(publishes, 2 * publishes))


def test_only_a_rest_after_a_rest_proves_a_loss_and_any_rest_takes_a_suspicion_back() -> None:
    for at_rest, was_at_rest, is_short in itertools.product((False, True), repeat=3):
        was = AuditState(even_at=Microseconds(1) if was_at_rest else None)
        verdict = verdict_on(was, Tally(int(is_short)), at_rest=at_rest)
        assert (verdict is AuditVerdict.loss) == (at_rest and was_at_rest and is_short)
        assert (verdict is AuditVerdict.balanced) == (at_rest and not is_short)


def test_a_quiet_moment_makes_it_exact() -> None:
    world = World(before=1_000)
    world.happens(50)
    assert world.is_quiet() == EVEN
    assert world.audit.state.broker_count == Tally(50, 100)
    assert world.audit.state.even_event_id == 150


def test_one_lost_message_is_suspected_and_found_at_the_next_quiet_moment() -> None:
    world = World(before=1_000)
    world.happens(50)
    world.is_quiet()
    world.happens(10, traced=9)
    assert world.looks() == suspected(1)
    assert world.audit.state.missing == Tally(), "it may yet come"
    assert world.audit.state.even_event_id == 150, "the loss was after it"
    assert world.is_quiet() == missing(1)
    assert world.suspected == Tally()
    assert world.audit.state.broker_count == Tally(60, 120)
    assert world.is_quiet() == EVEN, "it is found once"
    assert world.audit.state.broker_count == Tally(60, 120)


def test_what_waits_inside_the_broker_is_suspected_and_taken_back() -> None:
    world = World(before=7)
    world.happens(50)
    world.is_quiet()
    most = 0
    for second in range(30):
        world.happens(8_000)
        world.waits(1)
        most = max(most, inside := 2_000 * min(second, 30 - second))
        found = world.looks_once(hidden=inside, late=1_000)
        assert found.verdict is not AuditVerdict.loss
    assert 0 < world.suspected.publishes <= most
    world.waits(5)
    assert world.looks_once(hidden=4_000).verdict is not AuditVerdict.loss
    assert world.is_quiet() == EVEN
    assert (world.suspected, world.audit.state.missing) == (Tally(), Tally())
    assert world.audit.state.broker_count == Tally(world.seen, 2 * world.seen)


def test_counters_that_do_not_stand_still_prove_nothing() -> None:
    world = World()
    world.happens(50)
    world.is_quiet()
    for _ in range(5):
        world.happens(10, traced=0)
        world.waits()
        assert world.looks_once().verdict is not AuditVerdict.loss
    assert world.is_quiet() == missing(50)


def test_a_queue_that_is_not_empty_is_not_at_rest() -> None:
    world = World()
    world.happens(50)
    world.is_quiet()
    world.happens(50, traced=20)
    for _ in range(5):
        assert world.looks_once(queued=1).verdict is not AuditVerdict.loss
        world.waits()
    assert world.is_quiet() == missing(30)


def test_a_loss_while_nobody_looked_is_found_by_the_next_run() -> None:
    world = World(before=7)
    world.happens(50)
    world.is_quiet()
    world.happens(1_000, traced=0)
    world.audit = Audit(world.audit.state, Tally(50, 100), world.now)
    assert world.looks() == suspected(1_000)
    assert world.is_quiet() == missing(1_000)


def test_a_loss_that_the_broker_counts_bit_by_bit_is_whole_in_the_end() -> None:
    world = World(before=7)
    world.happens(50)
    world.is_quiet()
    world.happens(60, traced=0)
    world.audit = Audit(world.audit.state, Tally(50, 100), world.now)
    assert world.looks(late=60) == NOTHING
    assert world.looks(late=56) == suspected(4)
    assert world.looks(late=20) == suspected(36)
    assert world.looks(late=20) == NOTHING
    assert world.is_quiet() == missing(60)
    assert world.audit.state.broker_count == Tally(110, 220)
    assert world.is_quiet() == EVEN
    world.happens(5, traced=4)
    assert world.is_quiet() == missing(1)
    assert world.audit.state.missing == Tally(61, 122)


def test_what_is_short_at_one_look_alone_is_not_suspected() -> None:
    world = World()
    world.happens(50)
    world.is_quiet()
    assert world.looks_once(late=-30) == NOTHING
    assert world.looks_once() == NOTHING
    assert world.looks_once(late=-30) == NOTHING
    assert world.looks_once(late=-30) == suspected(30)


def test_what_is_queued_is_not_suspected() -> None:
    world = World()
    world.is_quiet()
    world.happens(500)
    assert world.looks(queued=400) == NOTHING


def test_more_traced_than_counted_is_said_and_can_hide_a_loss() -> None:
    world = World()
    world.is_quiet()
    world.happens(10, traced=12)
    assert world.looks() == NOTHING
    assert world.is_quiet() == AuditChange(AuditVerdict.balanced, excess=Tally(2, 4))
    assert world.audit.state.broker_count == Tally(10, 20)
    [said] = audit_status(Ledger(Tally(12, 24), world.audit.state)).remarks()
    assert "6 more trace messages came than the broker counted" in said
    assert "can hide a loss of as many" in said


def test_counters_of_a_restarted_node_begin_anew() -> None:
    world = World(before=100)
    world.happens(5)
    world.is_quiet()
    world.started, world.counted = 2_000, 3
    assert world.looks() == NOTHING
    assert world.audit.state.began_at
    world.happens(4)
    assert world.is_quiet() == EVEN
    assert world.audit.state.broker_count == Tally(9, 18)


def test_a_node_missing_from_one_sum_changes_nothing() -> None:
    world = World(before=100)
    world.is_quiet()
    for _ in range(BACKWARDS - 1):
        assert world.looks_once(late=60) == NOTHING
    assert world.is_quiet() == EVEN
    assert world.audit.state.broker_count == Tally()


def test_counters_that_stay_back_begin_anew() -> None:
    world = World(before=100)
    world.is_quiet()
    world.counted -= 60
    for _ in range(BACKWARDS - 1):
        world.looks_once()
    assert not world.audit.state.began_at
    assert world.looks_once() == NOTHING
    assert world.audit.state.began_at


@pytest.mark.parametrize("lost", [600, 5_000])
def test_under_constant_load_a_loss_beyond_the_lateness_is_suspected(lost: int) -> None:
    world = World()
    for second in range(60):
        world.happens(50, traced=50)
        world.waits(1)
        late = 50 * (second % 5) if second > 5 else 0
        assert world.looks(late=late) == NOTHING
    world.happens(lost, traced=0)
    world.looks(late=50)
    for _ in range(5):
        world.happens(50)
        world.waits(1)
        world.looks(late=0)
    assert 0 < world.suspected.publishes <= lost
    assert world.audit.state.missing == Tally()


def test_before_the_first_rest_nothing_is_proven_and_the_suspicion_stays() -> None:
    world = World()
    for _ in range(20):
        world.happens(50)
        world.waits(1)
        world.looks()
    world.happens(5_000, traced=0)
    assert world.looks().verdict is AuditVerdict.suspected
    assert world.is_quiet().verdict is AuditVerdict.suspected
    assert world.audit.state.missing == Tally()
    assert world.is_quiet() == EVEN


def test_both_numbers_are_of_the_same_moment() -> None:
    world = World(before=1_000)
    world.happens(3_451)
    world.looks()
    before = audit_status(Ledger(Tally(3_451, 6_902), world.audit.state))
    assert (before.publishes.counted, before.as_of) == (None, None)
    assert "3,451 publishes, 6,902 deliveries traced; compared once" in before.sentence
    world.is_quiet()
    world.happens(604)
    world.looks(late=604)
    status = audit_status(Ledger(Tally(4_055, 8_110), world.audit.state))
    assert (status.publishes.traced, status.publishes.counted) == (3_451, 3_451)
    assert "3,451 of 3,451 publishes, 6,902 of 6,902 deliveries traced" in status.sentence
    assert status.as_of == int(world.audit.state.even_at or 0)


def test_what_is_suspected_is_said() -> None:
    world = World()
    world.is_quiet()
    world.happens(10, traced=9)
    world.looks()
    status = audit_status(Ledger(Tally(9, 18), world.audit.state))
    assert (status.suspected, status.missing) == (3, 0)
    assert status.remarks() == [
        "the broker counted 3 trace messages that have not come yet: whether they are lost shows "
        "once the virtual host is quiet for some seconds"
    ]


def test_a_direction_that_is_left_out_in_part_is_never_held_against_the_counters() -> None:
    world = World(before=1_000)
    world.audit = Audit(None, Tally(), world.now, Compares(True, False))
    world.happens(50)

    def look(publishes: int, deliveries: int) -> AuditChange:
        counted = Tally(world.counted, 2 * world.counted)
        seen = Tally(publishes, deliveries)
        counts = CountRange(counted, counted, {"rabbit@one": world.started})
        return world.audit.look(
            Look(counts, seen, 0, publishes, Microseconds(int(world.now * 1e6))), world.now
        )

    assert look(50, 3) == NOTHING
    world.waits()
    assert look(50, 3) == EVEN
    assert world.audit.state.even_event_id == 50
    world.happens(10)
    assert look(58, 3) == NOTHING  # it has to be so twice
    assert look(58, 3) == AuditChange(AuditVerdict.suspected, suspected=Tally(2, 0))
    world.waits()
    assert look(58, 3) == AuditChange(AuditVerdict.loss, loss=Tally(2, 0))
    ledger = Ledger(Tally(58, 3), world.audit.state)
    status = audit_status(ledger, make_selection(None, ["q"]))
    assert (status.publishes.counted, status.deliveries.counted) == (60, None)
    assert status.missing == 2
    assert "58 of 60 publishes, 3 deliveries traced; deliveries cannot be compared" in (
        status.sentence
    )
    neither = audit_status(ledger, make_selection(["a"], ["q"]))
    assert (neither.publishes.counted, neither.as_of) == (None, None)
    assert "publishes and deliveries cannot be compared" in neither.sentence


def test_after_a_change_it_begins_anew_and_what_was_proven_stays() -> None:
    world = World(before=1_000)
    world.happens(50)
    world.is_quiet()
    world.happens(10, traced=9)
    assert world.is_quiet() == missing(1)
    world.audit.restart(7, 5)
    world.happens(100, traced=0)  # left out meanwhile
    world.audit.begin(Tally(world.seen, 2 * world.seen), world.now)
    assert world.is_quiet() == EVEN
    world.happens(5)
    assert world.is_quiet() == EVEN
    assert world.audit.state.missing == Tally(1, 2)
    assert world.audit.state.began_at == 5


def test_what_the_counters_make_up_for_after_a_rest_is_only_suspected() -> None:
    world = World()
    assert world.is_quiet() == EVEN
    world.happens(300)
    world.counted -= 1  # of a channel that has closed

    assert world.is_quiet() == AuditChange(AuditVerdict.balanced, excess=Tally(1, 2))

    world.counted += 1  # which comes now: or one of other things was lost
    world.looks()
    world.waits()
    found = world.looks_once()

    assert found == suspected(1)
    assert world.audit.state.missing == Tally()
    assert world.audit.state.broker_count == Tally(300, 600)

    world.happens(4, traced=3)
    world.looks()
    world.waits()
    assert world.looks_once() == missing(1)
    assert world.audit.state.broker_count == Tally(304, 608)


def test_what_is_short_of_more_than_an_excess_is_missing() -> None:
    world = World()
    assert world.is_quiet() == EVEN
    world.seen += 1  # of what nobody counts
    assert world.is_quiet() == AuditChange(AuditVerdict.balanced, excess=Tally(1, 2))

    world.happens(5, traced=2)
    world.looks()
    world.waits()
    found = world.looks_once()

    assert found == missing(2)
    assert world.audit.state.broker_count == Tally(5, 10)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 100),  # happen in this second
            st.integers(0, 5),  # counters are late by so many seconds
            st.integers(0, 100),  # percent of what happened last that is queued
        ),
        min_size=1,
        max_size=80,
    ),
    st.integers(0, 10_000),
)
def test_without_a_loss_nothing_is_ever_found(
    seconds: list[tuple[int, int, int]], before: int
) -> None:
    world = World(before=before)
    past = [0] * 6
    shown = 0
    for count, late, percent in seconds:
        world.happens(count)
        world.waits(1)
        past.append(count)
        most = sum(past[len(past) - late :]) if late else 0
        shown = max(shown, world.counted - most)  # counters never go back
        found = world.looks(late=world.counted - shown, queued=count * percent // 100)
        assert found.verdict in (AuditVerdict.open, AuditVerdict.balanced)
        assert not (found.loss + found.excess + found.suspected).sum


@given(
    st.lists(
        st.tuples(
            st.integers(0, 100),  # happen in this second
            st.integers(0, 20),  # of them are lost
            st.integers(0, 5),  # counters are late by so many seconds
        ),
        min_size=1,
        max_size=40,
    ),
    st.integers(0, 10_000),
)
def test_losses_are_never_said_to_be_more_and_are_all_known_in_the_end(
    seconds: list[tuple[int, int, int]], before: int
) -> None:
    world = World(before=before)
    world.is_quiet()
    past = [0] * 6
    shown, lost = before, 0
    for count, of_them_lost, late in seconds:
        lost += min(count, of_them_lost)
        world.happens(count, traced=count - min(count, of_them_lost))
        world.waits(1)
        past.append(count)
        most = sum(past[len(past) - late :]) if late else 0
        shown = max(shown, world.counted - most)
        world.looks(late=world.counted - shown)
        assert (world.audit.state.missing + world.suspected).publishes <= lost
    world.is_quiet()
    assert world.audit.state.missing == Tally(lost, 2 * lost)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 100),  # happen in this second
            st.integers(0, 20),  # of them are lost
            st.integers(0, 5),  # counters are late by so many seconds
            st.integers(0, 200),  # wait inside the broker, where nothing shows them
        ),
        min_size=1,
        max_size=40,
    )
)
def test_whatever_waits_inside_the_broker_is_taken_back_and_losses_are_known(
    seconds: list[tuple[int, int, int, int]],
) -> None:
    world = World()
    world.is_quiet()
    past = [0] * 6
    shown, lost, since = 0, 0, 0
    for count, of_them_lost, late, inside in seconds:
        lost += min(count, of_them_lost)
        since += count - min(count, of_them_lost)
        world.happens(count, traced=count - min(count, of_them_lost))
        world.waits(1)
        past.append(count)
        most = sum(past[len(past) - late :]) if late else 0
        shown = max(shown, world.counted - most)
        found = world.looks_once(late=world.counted - shown, hidden=min(inside, since))
        assert found.loss.publishes <= lost
    world.is_quiet()
    assert world.audit.state.missing == Tally(lost, 2 * lost)
    assert world.suspected == Tally()
