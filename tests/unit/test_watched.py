"""Whose turn it is to be judged."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from app.store.watch.watching import WatchPage
from app.stored.assertions import (
    AssertionScope,
    HeldAssertion,
    JudgingStep,
    WebhookState,
)
from app.watch.judging import HELD, EventOutcome
from app.watch.waiting import SettledPoint, Wait
from app.watch.watched import MOST_SECONDS, WatchedTrace
from app.watch.watcher import Watcher
from model.assertions.judging import WatchedEvent

EVENTS = 5


class Failing(Exception):
    """A bug."""


class Traces:
    """Two that run here, of which all is stored."""

    def snapshots(self) -> dict[int, Any]:
        settled = SimpleNamespace(settled_at=10**12, settled_id=EVENTS)
        return {1: settled, 2: settled}

    def prove(self, trace_id: int) -> None:
        pass


class Stored:
    """A few events of one type, and how many of each assertion were judged."""

    def __init__(self) -> None:
        self.judged_of: dict[str, int] = {}

    async def page(self, trace_id: int, after_id: int, limit: int) -> WatchPage:
        events = [WatchedEvent(number, number, True, "order") for number in range(1, EVENTS + 1)]
        return WatchPage([each for each in events if each.id > after_id], EVENTS)

    async def of_traces(self, trace_ids: Collection[int]) -> list[HeldAssertion]:
        return [replace(assertion(f"of-{each}"), trace_id=each) for each in trace_ids]

    async def note_judgement(
        self, trace_id: int, step: JudgingStep, delivery: WebhookState
    ) -> bool:
        self.judged_of[step.name] = self.judged_of.get(step.name, 0) + step.held
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
        trace_id: int,
        subject: AssertionScope,
        waits: Sequence[Wait],
        proofs: Sequence[SettledPoint],
    ) -> list[EventOutcome]:
        nonlocal now
        now += MOST_SECONDS
        return [HELD]  # of the first alone

    trace = WatchedTrace(1, stored, stored, judge, WebhookState.none, timer=lambda: now)
    trace.take_up([assertion("a"), assertion("b")])
    settled = SettledPoint(10**12, EVENTS)
    assert await trace.look(settled) == (0, True)
    assert stored.judged_of == {"a": 1}
    assert await trace.look(settled) == (0, True)
    assert stored.judged_of == {"a": 1, "b": 1}
    looks = 2
    while (await trace.look(settled))[1]:
        looks += 1
    assert stored.judged_of == {"a": EVENTS, "b": EVENTS}
    assert looks == 2 * EVENTS


async def test_a_trace_at_whose_assertions_it_fails_does_not_stop_the_others() -> None:
    stored: Any = Stored()
    traces: Any = Traces()

    async def judge(
        trace_id: int,
        subject: AssertionScope,
        waits: Sequence[Wait],
        proofs: Sequence[SettledPoint],
    ) -> list[EventOutcome]:
        if trace_id == 1:
            raise Failing
        return [HELD for _ in waits]

    watcher = Watcher(stored, stored, traces, judge)
    with pytest.raises(Failing):
        await watcher.look()
    assert stored.judged_of == {"of-2": EVENTS}
