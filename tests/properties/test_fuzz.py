"""A few of the inputs that ``python -m drills.fuzz`` tries by the hundred thousand."""

from __future__ import annotations

from hypothesis import settings

from app.tracker import Bounds, Policy, Tracker
from drills.fuzz import fuzz, survives


def test_damaged_trace_messages_are_records_or_quarantined() -> None:
    # What Hypothesis makes depends on what else is imported.
    outcomes = fuzz(150 * settings().max_examples, repeatable=True)
    assert {"publish", "deliver", "quarantined", "deliveries", "no delivery"} <= outcomes.keys()


def test_a_content_header_that_is_cut_off_is_quarantined() -> None:
    flagged = bytes([0, 60, *bytes(10), 0b1110_0000, 0])
    for length in range(12, len(flagged) + 1):
        message = ("publish.x", flagged[:length], b"body")
        assert survives(message, Tracker(Policy.channel, Bounds())) == "quarantined"
