"""Messages in hand: of a publish, what its participant had been handed and had not settled.

Where exactly one was, that may be what led to the publish. It is a suggestion, and for each
participant it is measured how often links and keys confirm it. Nothing here does I/O.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from math import inf
from typing import NamedTuple, TypeAlias

from model.words import Disposition, EventType

MOST_HELD = 1_000
"""Of one participant's deliveries this many are kept, the newest."""

COLUMNS = "id, type, participant, channel, cause_id, settlement, hold"
"""What is read of an event, as a `HandRow`."""

HandRow: TypeAlias = tuple[int, int, int, int, int | None, int | None, int | None]


class AloneInHand(NamedTuple):
    """A publish, and the one message that its participant had in hand: by its newest delivery."""

    publish: int
    participant: int
    delivery: int
    message: int


def alone_in_hand(events: Iterable[HandRow]) -> Iterator[AloneInHand]:
    """The publishes of which exactly one message was in hand, from all events by id.

    Where a delivery's settlement is not known, it is taken to be settled when its channel is handed
    the next one, as it is with a prefetch of 1; how often that is right, the participant's own
    figures tell. While a participant holds one that is kept no more, nothing is said of it.
    """
    # By participant, of each delivery its message, and the last event before it was settled.
    hands: defaultdict[int, dict[int, tuple[int | None, int | None]]] = defaultdict(dict)
    newest: dict[int, int] = {}  # of channels of which no settlement is known
    # By participant, the last event before all that is kept no more was settled.
    unknown: defaultdict[int, float] = defaultdict(int)
    for event, kind, participant, channel, message, settlement, hold in events:
        hand = hands[participant]
        if kind == EventType.published:
            _remove_settled(hand, event)
            messages = {each for each, _ in hand.values()}
            is_known = unknown[participant] < event
            if is_known and len(messages) == 1 and (alone := messages.pop()) is not None:
                yield AloneInHand(event, participant, max(hand), alone)
        elif settlement != Disposition.auto:
            is_held = settlement == Disposition.in_hand
            if settlement is None or (hold is None and not is_held):
                hand.pop(newest.get(channel, 0), None)
                newest[channel] = event
            hand[event] = message, None if is_held else hold
            if len(hand) > MOST_HELD:
                _remove_settled(hand, event)
            if len(hand) > MOST_HELD:
                _, last = hand.pop(next(iter(hand)))
                unknown[participant] = max(unknown[participant], inf if last is None else last)


def _remove_settled(hand: dict[int, tuple[int | None, int | None]], event: int) -> None:
    """Remove what was settled before an event."""
    for each in [each for each, (_, last) in hand.items() if last is not None and last < event]:
        del hand[each]
