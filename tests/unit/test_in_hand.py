"""Of a publish, what its participant had in hand: held against a plain model that knows all."""

from __future__ import annotations

import random

import pytest

from model import in_hand
from model.in_hand import HandRow, alone_in_hand
from model.words import Disposition, EventType

WHO, OTHER, CHANNEL = 1, 2, 7
HELD, DONE, AUTO = Disposition.in_hand, Disposition.acknowledged, Disposition.auto


def published(event: int, who: int = WHO) -> HandRow:
    return event, EventType.published, who, 9, None, None, None


def handed(
    event: int,
    message: int | None,
    settlement: Disposition | None = None,
    before: int | None = None,
    channel: int = CHANNEL,
) -> HandRow:
    return event, EventType.received, WHO, channel, message, settlement, before


def found(*rows: HandRow) -> dict[int, int]:
    return {each.publish: each.message for each in alone_in_hand(rows)}


def test_what_is_settled_before_a_publish_is_not_in_hand_then() -> None:
    first, second = handed(1, 10, DONE, before=3), handed(2, 20, DONE, before=5)
    assert found(first, second, published(3), published(4), published(6)) == {4: 20}


def test_what_was_never_settled_is_in_hand_and_what_is_settled_at_once_never() -> None:
    assert found(handed(1, 10, HELD, before=8 * 3 + 1), published(2)) == {2: 10}
    assert found(handed(1, 10, AUTO), published(2)) == {}
    assert found(handed(1, 10, HELD), published(2, OTHER)) == {}


def test_of_a_message_that_is_not_known_nothing_is_said() -> None:
    assert found(handed(1, None, HELD), published(2)) == {}
    assert found(handed(1, None, HELD), handed(2, 20, HELD), published(3)) == {}


def test_one_message_handed_over_twice_is_one() -> None:
    [one] = alone_in_hand([handed(1, 10, HELD), handed(2, 10, HELD), published(3)])
    assert (one.publish, one.participant, one.delivery, one.message) == (3, WHO, 2, 10)


def test_without_settlements_a_channel_has_in_hand_what_it_was_handed_last() -> None:
    assert found(handed(1, 10), handed(2, 20), published(3)) == {3: 20}
    assert found(handed(1, 10), handed(2, 20, channel=8), published(3)) == {}
    # It was settled, and when is not known.
    assert found(handed(1, 10, DONE), handed(2, 20, DONE), published(3)) == {3: 20}


def test_what_is_held_for_long_is_known_whatever_was_settled_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(in_hand, "MOST_HELD", 3)
    quick = [handed(event, 10 * event, DONE, before=event) for event in range(2, 9)]
    assert found(handed(1, 10, DONE, before=20), *quick, published(9)) == {9: 10}
    beside = handed(9, 90, DONE, before=20)
    assert found(handed(1, 10, DONE, before=20), *quick, beside, published(10)) == {}


@pytest.mark.parametrize(("settled", "last", "known"), [(DONE, 8, {9: 50}), (HELD, None, {})])
def test_nothing_is_said_while_more_is_held_than_is_kept(
    monkeypatch: pytest.MonkeyPatch,
    settled: Disposition,
    last: int | None,
    known: dict[int, int],
) -> None:
    monkeypatch.setattr(in_hand, "MOST_HELD", 3)
    quick = [handed(event, 10 * event, DONE, before=6) for event in (2, 3, 4)]
    held = handed(5, 50, DONE, before=20)
    rows = [handed(1, 10, settled, before=last), *quick, held]
    assert found(*rows, published(8), published(9)) == known


def test_it_is_what_a_model_says_that_keeps_every_hand() -> None:
    dice = random.Random(5)
    for _ in range(200):
        hand: dict[int, int] = {}  # delivery -> message
        handovers: dict[int, tuple[int, int | None]] = {}
        truth, publishes, last = {}, [], 0
        for event in range(1, 40):
            for each in [*hand]:
                if dice.random() < 0.3:
                    handovers[each] = hand.pop(each), last
            if dice.random() < 0.5:
                hand[event] = 1_000 + event
                handovers[event] = hand[event], None
            else:
                publishes.append(published(event))
                if len(hand) == 1:
                    truth[event] = next(iter(hand.values()))
            last = event
        rows = publishes + [
            handed(event, message, HELD if before is None else DONE, before)
            for event, (message, before) in handovers.items()
        ]
        assert found(*sorted(rows)) == truth
