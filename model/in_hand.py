"""Messages in hand: of a publish, what its participant had been handed and had not settled.

Where exactly one was, that may be what led to the publish. It is a suggestion, and for each
participant it is measured how often links and keys confirm it. Nothing here does I/O.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from model.words import Disposition, EventType

MOST_HELD = 1_000
"""Of one participant's deliveries so many are kept, the newest."""

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
    figures tell.
    """
    # By participant, of each delivery its message, and the last event before it was settled.
    hands: defaultdict[int, dict[int, tuple[int | None, int | None]]] = defaultdict(dict)
    newest: dict[int, int] = {}  # of channels of which no settlement is known
    for event, kind, participant, channel, message, settlement, hold in events:
        hand = hands[participant]
        if kind == EventType.published:
            for each in [
                each for each, (_, last) in hand.items() if last is not None and last < event
            ]:
                del hand[each]
            messages = {each for each, _ in hand.values()}
            if len(messages) == 1 and (alone := messages.pop()) is not None:
                yield AloneInHand(event, participant, max(hand), alone)
        elif settlement != Disposition.auto:
            is_held = settlement == Disposition.in_hand
            if settlement is None or (hold is None and not is_held):
                hand.pop(newest.get(channel, 0), None)
                newest[channel] = event
            hand[event] = message, None if is_held else hold
            if len(hand) > MOST_HELD:
                del hand[next(iter(hand))]
