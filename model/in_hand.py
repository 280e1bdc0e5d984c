"""Messages in hand: at a publish, those that its participant had been handed and had not settled.

Where it is exactly one, that may have led to the publish: a suggestion, whose agreement with links
and keys is measured for each participant. Nothing here does I/O.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from math import inf
from typing import NamedTuple, TypeAlias

from model.words import Disposition, EventType

MOST_HELD = 1_000
"""The most deliveries of a participant that are kept, the newest."""

COLUMNS = "id, type, participant, channel, cause_id, settlement, hold"
"""The columns of a `HandRow`."""

HandRow: TypeAlias = tuple[int, int, int, int, int | None, int | None, int | None]


class AloneInHand(NamedTuple):
    """A publish, and the one message that its participant had in hand: by its newest delivery."""

    publish: int
    participant: int
    delivery: int
    message: int


def alone_in_hand(events: Iterable[HandRow]) -> Iterator[AloneInHand]:
    """The publishes with exactly one message in hand, from all events by id.

    A delivery of unknown settlement counts as settled when its channel is handed the next one, as
    with a prefetch of 1; a participant's figures tell how often that is right. While it holds a
    delivery that is no longer kept, none of its publishes are given.
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
            messages = {message for message, _ in hand.values()}
            is_known = unknown[participant] < event
            if is_known and len(messages) == 1 and (alone := messages.pop()) is not None:
                yield AloneInHand(event, participant, max(hand), alone)
        elif settlement != Disposition.auto:
            is_held = settlement == Disposition.in_hand
            if settlement is None or (hold is None and not is_held):
                hand.pop(newest.get(channel, 0), None)
                newest[channel] = event
            hand[event] = message, None if is_held or settlement is None else hold
            if len(hand) > MOST_HELD:
                _remove_settled(hand, event)
            if len(hand) > MOST_HELD:
                _, last = hand.pop(next(iter(hand)))
                unknown[participant] = max(unknown[participant], inf if last is None else last)


def _remove_settled(hand: dict[int, tuple[int | None, int | None]], event: int) -> None:
    for delivery in [
        delivery for delivery, (_, last) in hand.items() if last is not None and last < event
    ]:
        del hand[delivery]
