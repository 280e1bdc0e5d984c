"""What waits to be judged is judged once, in order, not before its time, whatever is restarted."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from app.watch import waiting
from app.watch.waiting import Line, SettledPoint
from model.assertions.judging import WatchedEvent

WITHIN = 30
MOST = 4


@dataclass
class World:
    """A trace's events, how far all is stored, and what an assertion came to."""

    within: int
    events: list[WatchedEvent] = field(default_factory=list)
    settled: SettledPoint = field(default_factory=lambda: SettledPoint(0, 0))
    judged_id: int = 0
    judged: list[int] = field(default_factory=list)

    def line(self) -> Line:
        """As it is after a start."""
        return Line(lambda event: event.message_type == "a", self.within, self.judged_id, MOST)

    def store(self, gap: int, at: int, is_a: bool) -> None:
        last = self.events[-1].id if self.events else 0
        self.events.append(WatchedEvent(last + gap, at, True, "a" if is_a else "b"))

    def settle(self, at: int) -> None:
        last = self.events[-1].id if self.events else 0
        self.settled = SettledPoint(max(at, self.settled.at), last)

    def read(self, line: Line, size: int) -> None:
        last = self.events[-1].id if self.events else 0
        page = [each for each in self.events if each.id > line.read_id][:size]
        through = page[-1].id if len(page) == size else last
        line.see(line.read_id, page, through)

    def look(self, line: Line, at_most: int) -> None:
        due = line.due(self.settled)[:at_most]
        known = {each.id: each for each in self.events}
        for wait in due:
            assert wait.id <= self.settled.event_id
            assert known[wait.id].recorded_at + self.within <= self.settled.at
        self.judged += [wait.id for wait in due]  # one transaction with the place
        self.judged_id = line.judgement_bound(len(due))
        line.judge(len(due))
        assert line.judged_id == self.judged_id


STEPS = st.one_of(
    st.tuples(st.just("store"), st.integers(1, 3), st.integers(-5, 20), st.booleans()),
    st.tuples(st.just("settle"), st.integers(0, 60)),
    st.tuples(st.just("read"), st.integers(1, 4)),
    st.tuples(st.just("look"), st.integers(0, 3)),
    st.tuples(st.just("restart")),
)


@given(st.lists(STEPS, max_size=60), st.sampled_from([0, WITHIN]))
def test_each_event_is_judged_once_in_order_and_in_time(
    steps: list[tuple[object, ...]], within: int
) -> None:
    world, now = World(within), 100
    line = world.line()
    for name, *rest in steps:
        match name, rest:
            case "store", [int(gap), int(later), bool(is_a)]:
                now = max(1, now + later)
                world.store(gap, now, is_a)
            case "settle", [int(later)]:
                world.settle(now + later)
            case "read", [int(size)]:
                world.read(line, size)
            case "look", [int(most)]:
                world.look(line, most)
            case _:
                line = world.line()
        assert len(line) <= MOST
        assert world.judged == sorted(set(world.judged))
    wanted = [each.id for each in world.events if each.message_type == "a"]
    assert world.judged == wanted[: len(world.judged)]
    world.settle(10_000)
    for _ in range(len(world.events) + 1):
        world.read(line, 3)
        world.look(line, 2)
    assert world.judged == wanted


def test_what_was_read_after_a_hole_is_left_alone() -> None:
    line = Line(lambda _: True, 0, 10)
    line.see(20, [WatchedEvent(21, 0, True, "a")], 25)
    assert (len(line), line.read_id) == (0, 10)
    line.see(5, [WatchedEvent(8, 0, True, "a"), WatchedEvent(12, 0, True, "a")], 25)
    assert (len(line), line.read_id) == (1, 25)


def test_only_some_are_judged_together() -> None:
    many = waiting.MOST_TOGETHER + 5
    line = Line(lambda _: True, 0, 0)
    line.see(0, [WatchedEvent(each, 0, True, "a") for each in range(1, many + 1)], many)
    assert len(line.due(SettledPoint(1, many))) == waiting.MOST_TOGETHER
    assert line.next_due == 0
