"""Slack and critical paths against a judge that delays each event and looks at the end."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from model.slack import critical_path, slacks


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[int, int], dict[int, list[int]]]:
    """Events' times, of clocks that may have been set back, and what each waited for."""
    size = draw(st.integers(1, 12))
    at = {event: draw(st.integers(0, 30)) for event in range(1, size + 1)}
    before = {
        event: sorted(draw(st.sets(st.sampled_from(range(1, event)), max_size=3)))
        for event in range(2, size + 1)
    }
    return at, before


def _end(at: dict[int, int], before: dict[int, list[int]], late: int, delay: int) -> int:
    """When the last event comes, if one comes later, and what follows takes as long as it did."""
    moved: dict[int, int] = {}
    for event in sorted(at):
        waited = before.get(event, [])
        moved[event] = at[event]
        if waited:
            lag = at[event] - max(at[each] for each in waited)
            moved[event] = max(moved[each] for each in waited) + lag
        if event == late:
            moved[event] += delay
    return max(moved.values())


@given(graphs())
def test_an_event_may_be_late_by_its_slack_and_no_more(
    graph: tuple[dict[int, int], dict[int, list[int]]],
) -> None:
    at, before = graph
    end = max(at.values())
    for event, slack in slacks(at, before).items():
        assert slack >= 0
        assert _end(at, before, event, slack) == end
        assert _end(at, before, event, slack + 1) > end


@given(graphs())
def test_the_critical_path_has_no_slack_and_ends_with_the_last_event(
    graph: tuple[dict[int, int], dict[int, list[int]]],
) -> None:
    at, before = graph
    path, slack = critical_path(at, before), slacks(at, before)
    assert at[path[-1]] == max(at.values())
    assert not before.get(path[0])
    assert all(slack[event] == 0 for event in path)
    for event, following in pairwise(path):
        assert event in before[following]
        assert at[event] == max(at[each] for each in before[following])


def test_there_is_no_path_through_nothing() -> None:
    assert (critical_path({}, {}), slacks({}, {})) == ([], {})
