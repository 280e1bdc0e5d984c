"""What stamping asks of the processor for nearly every message."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from app.broker.deliveries import Arrival, Bundle
from app.broker.own import Own
from app.interpreter import tune_interpreter
from app.traces.losses.audit import Tally
from app.traces.losses.collectors import Collectors
from app.traces.pipeline import PipelineSettings
from app.traces.runs.resume import Window
from app.traces.runs.sieve import Sieve
from app.traces.runs.stamper import Stamper
from app.traces.status import CaptureCost
from app.tracker import Bounds, Channel, Deliver, Policy, Publish, Record, Tracker
from app.tracker.links import BUILT_IN, Rules

MESSAGES = 400
# In the loop around the tracker, with `Own.about` and `digest`, and for records of bundles with
# `Collectors.take`: of 25 or so in a microsecond.
MOST_OPERATIONS, MOST_OPERATIONS_IN_BUNDLES = 150, 190
BUNDLED = 100
OURS, THEIRS = (Channel("rabbit@one", "10.0.0.1:1 -> 10.0.9.1:5672", n, "alice") for n in (1, 2))


def record(number: int) -> Record:
    properties = {"message_id": f"order-{number // 2}", "headers": {"tenant": f"t{number % 7}"}}
    body = f'{{"order": {number // 2}}}'.encode()
    if number % 2:
        return Deliver(THEIRS, "orders", ("new",), "work", False, properties, body)
    return Publish(OURS, "orders", ("new",), ("work",), properties, body)


def arrivals(count: int) -> list[Arrival]:
    return [Arrival(at, False, "", b"", b"", at, record(at)) for at in range(1, count + 1)]


def records_of_bundles(count: int) -> list[Arrival]:
    records = arrivals(count)
    for first in range(0, count, BUNDLED):
        bundle = Bundle("rabbit@one", 1, first // BUNDLED, first, BUNDLED, 0)
        for ordinal, each in enumerate(records[first : first + BUNDLED], first):
            each.bundle, each.ordinal, each.digest = bundle, ordinal, b"%08d" % ordinal
            each.is_last = ordinal == first + BUNDLED - 1
    return records


def stamper(tracker: Any) -> Stamper:
    stream: Any = SimpleNamespace(
        about=Own("itc.trace", "itc").about, is_cluster=False, traces_replies=True
    )
    recorder: Any = SimpleNamespace(
        tracker=tracker,
        window=Window(1),
        work=CaptureCost(),
        tally=Tally(),
        collectors=Collectors(),
        last_event_id=0,
        is_ledger_new=False,
    )
    return Stamper(recorder, stream, Sieve())


@pytest.mark.parametrize(
    ("arriving", "most"),
    [(arrivals, MOST_OPERATIONS), (records_of_bundles, MOST_OPERATIONS_IN_BUNDLES)],
)
def test_around_the_tracker_an_ordinary_message_takes_few_operations(
    arriving: Callable[[int], list[Arrival]], most: int
) -> None:
    tracker = SimpleNamespace(
        steps=lambda record, at: (record,),
        close_overdue=lambda now: (),
        reorder=lambda on: None,
        trace_replies=lambda on: None,
    )
    stamping, count = stamper(tracker), 0
    steps = stamping.steps(arriving(MESSAGES), silent=False)

    def traced(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        while not stamping.stamp(steps):
            pass
    finally:
        sys.settrace(before)

    assert len(stamping.stretch.events) == stamping.stretch.records == MESSAGES
    assert count / MESSAGES < most


def test_the_collector_does_not_walk_two_batches() -> None:
    generations: list[int] = []
    thresholds = gc.get_threshold()

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            generations.append(info["generation"])

    stamping = stamper(Tracker(Policy.channel, Bounds(), rules=Rules(BUILT_IN)))
    tune_interpreter()
    gc.callbacks.append(note)
    try:
        two = arrivals(2 * PipelineSettings().batch_events)
        steps = stamping.steps(two, silent=False)
        while not stamping.stamp(steps):
            pass
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*thresholds)

    assert len(stamping.stretch.events) == len(two)
    assert generations == []
