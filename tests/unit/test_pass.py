"""The compiled pass of a record to its event, against the same in Python."""

from __future__ import annotations

import os
from typing import Any

import pytest

from app.tracker import Policy, StampedEvent, Tracker
from app.tracker.quiet import Quiet
from tests.model_broker import judged
from tests.model_broker.judged import drawn
from tests.model_broker.manners import MANNERS
from tests.oracles.stamping import PlainTracker

RUNS, ACTS = int(os.environ.get("MODEL_RUNS", "5")), 80
QUIET = Quiet(("queue:audit",))


def _values(event: StampedEvent) -> tuple[Any, ...]:
    edges = [(edge.cause.id, edge.rule, edge.kind, edge.way) for edge in event.edges]
    cause = event.cause and event.cause.id
    reference, names = event.reference, event.reference.names
    found = event.match, cause, event.candidates, event.is_doubtful, event.fingerprint
    clock = event.participant, event.channel_key, event.seq, event.height, event.stamp
    return *found, *clock, reference.packed, reference.lamport, names, event.names, *edges


@pytest.mark.parametrize("policy", Policy)
def test_a_record_is_stamped_as_in_python(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    def played(kind: type[Tracker], version: str, seed: int) -> tuple[list[Any], bytes]:
        def tracker(_: Policy, *point: Any, **rules: Any) -> Tracker:
            return kind(policy, *point, quiet=QUIET, **rules)

        monkeypatch.setattr(judged, "Tracker", tracker)
        run = drawn(version, seed, ACTS)[1]
        return [_values(event) for event in run.events()], run._tracker._state()

    count = 0
    for version in MANNERS:
        for seed in range(RUNS):
            events, state = played(Tracker, version, seed)
            assert (events, state) == played(PlainTracker, version, seed)
            count += len(events)
    assert count > 10 * RUNS
