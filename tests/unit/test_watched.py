"""Whose turn it is to be judged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from app.store.watch.watching import Page
from app.stored.assertions import Delivery, HeldAssertion, Judged, Seen
from app.watch.judging import HELD, Outcome, Proofs
from app.watch.subjects import Subject
from app.watch.waiting import Settled, Wait
from app.watch.watched import MOST_SECONDS, WatchedTrace

EVENTS = 5


class Stored:
    """A few events of one type, and how many of each assertion were judged."""

    def __init__(self) -> None:
        self.judged_of: dict[str, int] = {}

    async def page(self, trace_id: int, after: int, limit: int) -> Page:
        events = [Seen(number, number, True, "order") for number in range(1, EVENTS + 1)]
        return Page([each for each in events if each.id > after], EVENTS)

    async def judged(self, trace_id: int, judged: Judged, delivery: Delivery) -> bool:
        self.judged_of[judged.name] = self.judged_of.get(judged.name, 0) + judged.held
        return True


def assertion(name: str) -> HeldAssertion:
    said = {"name": name, "every": "order", "leads_to": "invoice", "within": "1ms"}
    return HeldAssertion(
        trace_id=1,
        vhost="/",
        name=name,
        text=json.dumps(said),
        set_by="ann",
        set_at=0,
        from_event_id=0,
        judged_id=0,
        waiting=0,
        held=0,
        violated=0,
        unknown=0,
    )


async def test_what_takes_long_lets_others_have_their_turn() -> None:
    """Other assertions of the trace, and other traces, which come after a look is over."""
    stored: Any = Stored()
    now = 0.0

    async def judge(
        trace_id: int, subject: Subject, waits: Sequence[Wait], proofs: Proofs
    ) -> list[Outcome]:
        nonlocal now
        now += MOST_SECONDS
        return [HELD]  # of the first alone

    trace = WatchedTrace(1, stored, stored, judge, Delivery.none, timer=lambda: now)
    trace.take_up([assertion("a"), assertion("b")])
    settled = Settled(10**12, EVENTS)
    assert await trace.look(settled) == (0, True)
    assert stored.judged_of == {"a": 1}
    assert await trace.look(settled) == (0, True)
    assert stored.judged_of == {"a": 1, "b": 1}
    looks = 2
    while (await trace.look(settled))[1]:
        looks += 1
    assert stored.judged_of == {"a": EVENTS, "b": EVENTS}
    assert looks == 2 * EVENTS
