"""What normally follows in a conversation that is under way, and since when it is overdue."""

from __future__ import annotations

from model.conversations.assembly import conversation_of
from model.happened import Cause, ConversationEvent
from model.remaining import Norm, RemainingStep, remaining_steps
from model.times import Microseconds
from model.words import EventType, Match

SECOND = 1_000_000
LEARNT = Microseconds(7)


def publish(number: int, name: str, *queues: str) -> ConversationEvent:
    """A publish, a second after the one of the number before."""
    at = Microseconds(number * SECOND)
    nobody = (EventType.published, Match.none, None, 1, "shop", at)
    return ConversationEvent(number, *nobody, "", (name,), None, queues, False, name)


ORDER, PAID = publish(1, "order", "orders"), publish(2, "paid", "books")
SHIPPED = publish(3, "shipped", "mail")
CAUSES = {2: (Cause(1, "parent", "parent"),), 3: (Cause(2, "parent", "parent"),)}
NORMS = [
    Norm("order", "paid", SECOND),
    Norm("order", "shipped", 3 * SECOND),
    Norm("order", "invoiced", SECOND),
    Norm("paid", "booked", None),
    Norm("shipped", "arrived", 90 * SECOND),
    Norm("returned", "refunded", SECOND),
]


def test_steps_that_did_not_come_are_named_those_that_are_overdue_first() -> None:
    whole = conversation_of(ORDER, [ORDER, PAID, SHIPPED], CAUSES)
    found = remaining_steps(whole, NORMS, 10 * SECOND, LEARNT)

    assert found is not None
    assert found.learnt_until == LEARNT
    assert found.steps == [
        RemainingStep("invoiced", 1, "order", Microseconds(2 * SECOND)),
        RemainingStep("shipped", 1, "order", Microseconds(4 * SECOND)),  # not directly
        RemainingStep("booked", 2, "paid", None),  # too few tell when it is late
        RemainingStep("arrived", 3, "shipped", None),
    ]
    assert found.sentence == (
        "Normally follows: invoiced after order (1), overdue since 1970-01-01 00:00:02 UTC; "
        "shipped after order (1), overdue since 1970-01-01 00:00:04 UTC; booked after paid (2); "
        "and 1 more"
    )


def test_there_are_none_of_what_has_ended_is_cut_or_lacks_nothing() -> None:
    nowhere = publish(3, "shipped")
    ended = conversation_of(ORDER, [ORDER, PAID, nowhere], CAUSES)
    assert ended.position is None
    assert remaining_steps(ended, NORMS, 10 * SECOND, LEARNT) is None
    cut = conversation_of(ORDER, [ORDER, PAID, SHIPPED], CAUSES, truncated=True)
    assert remaining_steps(cut, NORMS, 10 * SECOND, LEARNT) is None
    whole = conversation_of(ORDER, [ORDER, PAID, SHIPPED], CAUSES)
    assert remaining_steps(whole, NORMS[:1], 10 * SECOND, LEARNT) is None
