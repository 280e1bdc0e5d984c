"""What the audit proves, and that it never accuses a broker whose counters are merely late."""

from __future__ import annotations

import pytest

from app.traces.audit import (
    BACKWARDS,
    LATE_SECONDS,
    Audit,
    AuditState,
    Compares,
    Counted,
    Found,
    Ledger,
    Look,
    Tally,
)
from app.traces.status import audit_status
from app.tracker.taken import taken

NOTHING = Found()


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

    def looks(self, *, late: int = 0, queued: int = 0) -> Found:
        """Look twice, since what is missing has to be so again; return what was found."""
        first = self.looks_once(late=late, queued=queued)
        second = self.looks_once(late=late, queued=queued)
        return second if first == NOTHING else first

    def looks_once(self, *, late: int = 0, queued: int = 0) -> Found:
        counted, seen = self.counted - late, self.seen - queued
        return self.audit.look(
            Look(
                Counted(*[Tally(counted, 2 * counted)] * 2, {"rabbit@one": self.started}),
                Tally(seen, 2 * seen),
                3 * queued,
                last_event_id=3 * seen,
                at=int(self.now * 1e6),
            ),
            self.now,
        )

    def is_quiet(self) -> Found:
        """Nothing happens for long enough between two looks."""
        first = self.looks()
        self.waits()
        second = self.looks()
        assert NOTHING in (first, second)
        return second if first == NOTHING else first


def test_a_quiet_moment_makes_it_exact() -> None:
    world = World(before=1_000)
    world.happens(50)
    assert world.is_quiet() == NOTHING
    assert world.audit.state.counted == Tally(50, 100)
    assert world.audit.state.even_event_id == 150


def test_one_lost_message_is_found_at_the_next_quiet_moment() -> None:
    world = World(before=1_000)
    world.happens(50)
    world.is_quiet()
    world.happens(10, traced=9)
    assert world.looks() == Found(missing=Tally(1, 2))
    assert world.audit.state.counted == Tally(60, 120)
    assert world.audit.state.even_event_id == 150, "the loss was after it"
    assert world.is_quiet() == NOTHING, "it is found once"
    assert world.audit.state.counted == Tally(60, 120)


def test_a_loss_while_nobody_looked_is_found_by_the_next_run() -> None:
    world = World(before=7)
    world.happens(50)
    world.is_quiet()
    world.happens(1_000, traced=0)
    world.audit = Audit(world.audit.state, Tally(50, 100), world.now)
    assert world.looks() == Found(missing=Tally(1_000, 2_000))


def test_a_loss_that_the_broker_counts_bit_by_bit_is_whole_in_the_end() -> None:
    world = World(before=7)
    world.happens(50)
    world.is_quiet()
    world.happens(60, traced=0)
    world.audit = Audit(world.audit.state, Tally(50, 100), world.now)
    assert world.looks(late=60) == NOTHING
    assert world.looks(late=56) == Found(missing=Tally(4, 8))
    assert world.looks(late=20) == Found(missing=Tally(36, 72))
    assert world.looks(late=20) == NOTHING
    assert world.is_quiet() == Found(missing=Tally(20, 40))
    assert world.audit.state.counted == Tally(110, 220)
    assert world.audit.state.missing == Tally(60, 120)
    assert world.is_quiet() == NOTHING
    world.happens(5, traced=4)
    assert world.is_quiet() == Found(missing=Tally(1, 2))


def test_what_is_missing_at_one_look_alone_is_not() -> None:
    world = World()
    world.happens(50)
    world.is_quiet()
    assert world.looks_once(late=-30) == NOTHING
    assert world.looks_once() == NOTHING
    assert world.looks_once(late=-30) == NOTHING
    assert world.looks_once(late=-30) == Found(missing=Tally(30, 60))


def test_what_is_queued_is_not_lost() -> None:
    world = World()
    world.is_quiet()
    world.happens(500)
    assert world.looks(queued=400) == NOTHING


def test_more_traced_than_counted_is_said() -> None:
    world = World()
    world.is_quiet()
    world.happens(10, traced=12)
    assert world.is_quiet() == Found(excess=Tally(2, 4))
    assert world.audit.state.counted == Tally(10, 20)


def test_counters_of_a_restarted_node_begin_anew() -> None:
    world = World(before=100)
    world.happens(5)
    world.is_quiet()
    world.started, world.counted = 2_000, 3
    assert world.looks() == Found(began_anew=True)
    world.happens(4)
    assert world.is_quiet() == NOTHING
    assert world.audit.state.counted == Tally(9, 18)


def test_a_node_missing_from_one_sum_changes_nothing() -> None:
    world = World(before=100)
    world.is_quiet()
    for _ in range(BACKWARDS - 1):
        assert world.looks_once(late=60) == NOTHING
    assert world.looks_once() == NOTHING
    assert world.audit.state.counted == Tally()


def test_counters_that_stay_back_begin_anew() -> None:
    world = World(before=100)
    world.is_quiet()
    world.counted -= 60
    for _ in range(BACKWARDS - 1):
        world.looks_once()
    assert world.looks_once() == Found(began_anew=True)


@pytest.mark.parametrize("lost", [600, 5_000])
def test_under_constant_load_a_loss_beyond_the_lateness_is_found(lost: int) -> None:
    world = World()
    for second in range(60):
        world.happens(50, traced=50)
        world.waits(1)
        late = 50 * (second % 5) if second > 5 else 0
        assert world.looks(late=late) == NOTHING
    world.happens(lost, traced=0)
    found = [world.looks(late=50).missing.publishes]
    for _ in range(5):
        world.happens(50)
        world.waits(1)
        found.append(world.looks(late=0).missing.publishes)
    assert 0 < sum(found) <= lost


def test_a_direction_that_is_left_out_in_part_is_never_held_against_the_counters() -> None:
    world = World(before=1_000)
    world.audit = Audit(None, Tally(), world.now, Compares(True, False))
    world.happens(50)

    def look(publishes: int, deliveries: int) -> Found:
        counted = Tally(world.counted, 2 * world.counted)
        seen = Tally(publishes, deliveries)
        counts = Counted(counted, counted, {"rabbit@one": world.started})
        return world.audit.look(Look(counts, seen, 0, publishes, int(world.now * 1e6)), world.now)

    for _ in range(3):
        assert look(50, 3) == NOTHING
        world.waits()
    assert world.audit.state.even_event_id == 50
    world.happens(10)
    assert look(58, 3) == NOTHING  # it has to be so twice
    assert look(58, 3) == Found(missing=Tally(2, 0))
    ledger = Ledger(Tally(58, 3), world.audit.state)
    status = audit_status(ledger, taken(None, ["q"]))
    assert (status.publishes.counted, status.deliveries.counted) == (60, None)
    assert (status.even_at, status.missing) == (None, 2)
    assert "58 of 60 publishes, 3 deliveries traced; deliveries cannot be compared" in (
        status.sentence
    )
    neither = audit_status(ledger, taken(["a"], ["q"]))
    assert (neither.publishes.counted, neither.as_of) == (None, None)
    assert "publishes and deliveries cannot be compared" in neither.sentence


def test_after_a_change_it_begins_anew_and_what_was_proven_stays() -> None:
    world = World(before=1_000)
    world.happens(50)
    world.is_quiet()
    world.happens(10, traced=9)
    assert world.looks().missing == Tally(1, 2)
    world.audit.restart(7, 5)
    world.happens(100, traced=0)  # left out meanwhile
    world.audit.traced_since(Tally(world.seen, 2 * world.seen), world.now)
    assert world.is_quiet() == NOTHING
    world.happens(5)
    assert world.is_quiet() == NOTHING
    assert world.audit.state.missing == Tally(1, 2)
    assert world.audit.state.began_at == 5
