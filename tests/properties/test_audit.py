"""What the audit proves, and that it never accuses a broker whose counters are merely late."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.traces.losses.audit import AuditVerdict, Tally
from tests.unit.test_audit import World


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
        assert found.verdict in (AuditVerdict.open, AuditVerdict.even)
        assert not (found.missing + found.excess + found.suspected).sum


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
        assert found.missing.publishes <= lost
    world.is_quiet()
    assert world.audit.state.missing == Tally(lost, 2 * lost)
    assert world.suspected == Tally()
