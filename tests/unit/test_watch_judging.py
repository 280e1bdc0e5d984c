"""What it costs to judge events as they come."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import FrameType, SimpleNamespace
from typing import Any, Literal

from app.stored.assertions import AssertionScope, Reach
from app.watch import judging
from app.watch.judging import Judges
from app.watch.waiting import SettledPoint, Wait
from model.assertions.assertion import AtMost, TypePattern
from model.assertions.judging import WatchedEvent
from model.doubtful import DoubtfulSpan


class Row:
    """So many publishes, each because of the one before; nothing else is stored of them."""

    def __init__(self, count: int) -> None:
        self.events = [WatchedEvent(number, number, True, "step") for number in range(count)]

    async def reaches(
        self, trace_id: int, ids: Sequence[int], direction: Literal[1, -1]
    ) -> Mapping[int, Reach]:
        def of(each: int) -> Sequence[WatchedEvent]:
            return self.events[each + 1 :] if direction == 1 else self.events[:each]

        return {each: Reach(self.events[each], of(each), True) for each in ids}

    async def between(self, trace_id: int, a: int, b: int) -> list[Any]:
        return []

    async def doubtful(self, trace_id: int, a: int, b: int) -> DoubtfulSpan:
        return DoubtfulSpan()


async def lines_run(count: int, waits: int) -> int:
    """How many lines of judging it takes to judge the newest of a row so many times together."""
    row = Row(count)
    store: Any = SimpleNamespace(watching=row, gaps=row, doubts=row)
    proofs = [SettledPoint(count, count)]
    newest = [Wait(count - 1, count - 1, count - 1)] * waits
    lines = 0

    def traced(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        if frame.f_code.co_filename != judging.__file__:
            return None
        lines += event == "line"
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        subject = AssertionScope(AtMost(TypePattern("*"), 5))
        found = await Judges(store).judge(1, subject, newest, proofs)
    finally:
        sys.settrace(before)
    assert len(found) == waits
    assert all(each.violations for each in found)
    return lines


async def test_a_storm_costs_each_event_as_much_as_led_to_it() -> None:
    led_to_it = 200
    more = await lines_run(led_to_it, 10) - await lines_run(led_to_it, 5)
    assert more <= 5 * led_to_it * 15  # and not each time all that these led to
