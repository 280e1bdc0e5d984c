"""The word for a message: from its copies, and from the broker's word on their queues."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from model.conversations.assembly import conversation_of
from model.deaths import Loss
from model.happened import ConversationEvent
from model.times import Microseconds
from model.where import ENQUEUED_WITHIN, Fact, QueueView, WhereWord, strongest, whereabouts
from model.words import Disposition, EventType, Match

SETTLED, HANDED_OVER, WAITING, DIED, NEVER, UNKNOWN = WhereWord
LONG = 10 * ENQUEUED_WITHIN
FULL, EMPTY = QueueView(5), QueueView(0)
PUBLISH = ConversationEvent(
    *(1, EventType.published, Match.none, None, 1, "shop", Microseconds(0)),
    *("x", ("k",), None, ("q",), False, "k"),
)


def handed(
    settlement: Disposition | None, queue: str = "q", number: int = 2, match: Match = Match.routed
) -> ConversationEvent:
    return ConversationEvent(
        *(number, EventType.received, match, 1, 2, "billing", Microseconds(number)),
        *("x", ("k",), queue, (), match is Match.redelivered, "k"),
        settlement=settlement,
    )


def word(
    *deliveries: ConversationEvent,
    queues: Mapping[str, QueueView | None],
    publish: ConversationEvent = PUBLISH,
    waited: int = LONG,
    is_whole: bool = True,
    loss: Loss | None = None,
) -> WhereWord:
    losses = {} if loss is None else {1: {"q": loss}}
    [message] = conversation_of(publish, [publish, *deliveries], {}, losses=losses).messages
    return whereabouts(message, queues, wait=waited, is_whole=is_whole).word


@pytest.mark.parametrize(
    ("settlement", "queue", "expected"),
    [
        (Disposition.acknowledged, EMPTY, SETTLED),
        (Disposition.auto, EMPTY, SETTLED),
        (Disposition.in_hand, EMPTY, WAITING),
        (None, EMPTY, HANDED_OVER),
        (Disposition.rejected, EMPTY, DIED),
        (Disposition.rejected, QueueView(0, has_dead_letters=True), UNKNOWN),
        (Disposition.returned, FULL, WAITING),
        (Disposition.returned, EMPTY, DIED),
    ],
)
def test_a_copy_that_was_handed_over(
    settlement: Disposition | None, queue: QueueView, expected: WhereWord
) -> None:
    assert word(handed(settlement), queues={"q": queue}) is expected


@pytest.mark.parametrize(
    ("queues", "waited", "expected"),
    [
        ({"q": FULL}, LONG, WAITING),
        ({"q": QueueView(None)}, LONG, UNKNOWN),
        ({"q": None}, LONG, DIED),
        ({}, LONG, UNKNOWN),  # the broker did not answer
        ({"q": EMPTY}, LONG, DIED),
        ({"q": EMPTY}, 1, UNKNOWN),  # its number may be of before the publish
        ({"q": QueueView(0, has_dead_letters=True)}, LONG, UNKNOWN),
        ({"q": QueueView(0, keeps=False)}, LONG, UNKNOWN),
        ({"q": QueueView(5, expected=6)}, LONG, UNKNOWN),
        ({"q": QueueView(5, is_limited=True)}, LONG, UNKNOWN),
        ({"q": QueueView(5, expected=5, is_limited=True)}, LONG, UNKNOWN),  # others came and went
        ({"q": QueueView(5, expected=5, is_still=True, is_limited=True)}, LONG, WAITING),
        ({"q": QueueView(5, is_still=True, expires_after=LONG - 1)}, LONG, UNKNOWN),
        ({"q": QueueView(5, is_still=True, expires_after=LONG + 1)}, LONG, WAITING),
        ({"q": QueueView(5, expires_after=LONG + 1)}, 1, UNKNOWN),  # traced late, and expired
    ],
)
def test_a_copy_that_nobody_was_handed(
    queues: Mapping[str, QueueView | None], waited: int, expected: WhereWord
) -> None:
    assert word(queues=queues, waited=waited) is expected


def test_where_something_may_be_missing_nothing_waits_for_certain() -> None:
    assert word(queues={"q": FULL}, is_whole=False) is UNKNOWN
    assert word(handed(Disposition.in_hand), queues={}, is_whole=False) is UNKNOWN
    assert word(handed(Disposition.rejected), queues={"q": EMPTY}, is_whole=False) is UNKNOWN
    assert word(handed(Disposition.acknowledged), queues={}, is_whole=False) is SETTLED


def test_a_message_with_a_time_to_live_of_its_own() -> None:
    mortal = PUBLISH._replace(expiration="1000")
    still = FULL._replace(is_still=True)
    assert word(publish=mortal, queues={"q": still}, waited=999_999) is WAITING
    assert word(publish=mortal, queues={"q": still}, waited=1_000_001) is UNKNOWN
    assert word(publish=mortal, queues={"q": FULL}, waited=999_999) is UNKNOWN


def test_a_copy_that_came_back_waits_beside_those_that_the_record_expects() -> None:
    for messages, expected in ((6, WAITING), (5, UNKNOWN)):
        queues: dict[str, QueueView | None] = {"q": QueueView(messages, expected=5)}
        assert word(handed(Disposition.returned), queues=queues) is expected


def test_what_the_record_knows_to_be_gone_needs_no_broker() -> None:
    assert word(queues={}, loss=Loss(Microseconds(9), "queue_deleted")) is DIED
    assert word(queues={}, loss=Loss(Microseconds(9), "left")) is UNKNOWN
    assert word(publish=PUBLISH._replace(routed_queues=()), queues={}) is DIED


def test_one_that_came_back_often_and_was_settled_is_settled() -> None:
    again = [handed(Disposition.returned, number=2 + n, match=Match.redelivered) for n in range(4)]
    last = handed(Disposition.acknowledged, number=9, match=Match.redelivered)
    assert word(*again, last, queues={"q": EMPTY}) is SETTLED


def test_of_several_the_one_stands_for_all_that_needs_somebody() -> None:
    two = PUBLISH._replace(routed_queues=("q", "other"))
    acknowledged = handed(Disposition.acknowledged)
    assert word(acknowledged, publish=two, queues={"other": FULL}) is WAITING
    assert strongest([SETTLED, HANDED_OVER, UNKNOWN]) is UNKNOWN
    assert strongest([SETTLED, WAITING, DIED]) is DIED


@pytest.mark.parametrize("settlement", [None, Disposition.acknowledged, Disposition.auto])
@pytest.mark.parametrize(
    ("onward", "expected"), [(SETTLED, SETTLED), (DIED, DIED), (None, UNKNOWN)]
)
def test_what_left_is_where_its_other_side_is(
    settlement: Disposition | None, onward: WhereWord | None, expected: WhereWord
) -> None:
    left = handed(settlement)._replace(mover="shovel s")
    [message] = conversation_of(PUBLISH, [PUBLISH, left], {}).messages
    facts = {} if onward is None else {2: Fact(onward, "there")}
    fact = whereabouts(message, {}, wait=LONG, is_whole=True, onward=facts)
    assert fact.word == expected
    assert (fact.reason or "").startswith("left q by shovel s: ")


def test_what_a_shovel_has_in_hand_still_waits() -> None:
    held = handed(Disposition.in_hand)._replace(mover="shovel s")
    assert word(held, queues={"q": EMPTY}) == WAITING
