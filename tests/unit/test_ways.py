"""What lies on the ways between two events, against going every way there is."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model import ways
from model.ways import Frontier, TooFarError, in_turns, step_of_part, ways_between


@dataclass
class World:
    """Events by place, their causes, and of those in parts of conversations which."""

    deliveries: list[bool]
    causes: list[set[int]]
    parts: list[set[int]]
    after: dict[int, set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        size = len(self.deliveries)
        for a in range(size):
            self.after[a] = {
                b
                for b in range(a + 1, size)
                if a in self.causes[b]
                or (self.deliveries[a] and not self.deliveries[b] and self.parts[a] & self.parts[b])
            }

    def reached(self, start: int, direction: int = 1) -> set[int]:
        found, level = {start}, {start}
        while level:
            level = {b for a in level for b in self.following(a, direction)} - found
            found |= level
        return found

    def following(self, at: int, towards: int) -> set[int]:
        if towards == 1:
            return self.after[at]
        return {before for before, led in self.after.items() if at in led}


@st.composite
def worlds(draw: st.DrawFn) -> World:
    size = draw(st.integers(2, 25))
    few = st.integers(0, 2)
    return World(
        [draw(st.booleans()) for _ in range(size)],
        [
            draw(st.sets(st.integers(0, place - 1), max_size=2)) if place else set()
            for place in range(size)
        ],
        [draw(st.sets(few, max_size=2)) for _ in range(size)],
    )


@given(worlds(), st.data())
def test_what_lies_between_is_reached_from_the_one_and_reaches_the_other(
    world: World, data: st.DataObject
) -> None:
    size = len(world.deliveries)
    first, last = sorted(data.draw(st.sets(st.integers(0, size - 1), min_size=2, max_size=2)))
    parts = [(event, size + part) for event in range(size) for part in world.parts[event]]
    steps = [(event, cause, event) for event in range(size) for cause in world.causes[event]]
    steps += [(event, *step_of_part(event, part, world.deliveries[event])) for event, part in parts]
    ordered = sorted(steps)
    chain = ways_between(
        size + 3, first, last, [each[1] for each in ordered], [each[2] for each in ordered]
    )
    truth = world.reached(first) & world.reached(last, -1)
    assert {place for place in range(size) if chain[place]} == truth


def walked(world: World, first: int, last: int, most: int | None) -> Frontier:
    """The side that is complete."""
    sides = Frontier(last, first), Frontier(first, last)
    for side in in_turns(sides, most):
        found = {b for a in side.level for b in world.following(a, side.direction)}
        side.move(each for each in found if first <= each <= last)
    return side


@given(worlds())
def test_a_complete_side_has_all_that_lies_between(world: World) -> None:
    last = len(world.deliveries) - 1
    side = walked(world, 0, last, None)
    truth = world.reached(0) & world.reached(last, -1)
    assert side.has_arrived == bool(truth)
    assert not side.level
    if truth:
        assert truth <= side.reached


def relay(size: int) -> World:
    return World([False] * size, [set(), *[{place} for place in range(size - 1)]], [set()] * size)


def test_only_the_smaller_side_is_held_to_the_bound() -> None:
    fan = World([False] * 100, [set(), *[{0} for _ in range(99)]], [set()] * 100)
    side = walked(fan, 0, 99, 10)
    assert (side.direction, side.reached) == (-1, {0, 99})


@pytest.mark.parametrize(("most", "steps"), [(10, 2_000), (1_000, 10)])
def test_a_walk_that_goes_too_far_says_so_unless_it_has_no_bound(
    most: int, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ways, "MOST_STEPS", steps)
    world = relay(40)
    with pytest.raises(TooFarError):
        walked(world, 0, 39, most)
    side = walked(world, 0, 39, None)
    assert side.has_arrived
