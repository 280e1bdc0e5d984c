"""Hand-overs: deliveries that may come back, and copies that died or are lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from app.tracker import _copies
from app.tracker._copies import NOBODYS, Hold
from app.tracker._memories import KeyedFifo
from app.tracker.events import Handover, Influence, Reference
from app.tracker.records import Deliver
from app.tracker.reorder import handover_of
from model.words import EdgeKind

Key: TypeAlias = tuple[str, bytes]  # queue, fingerprint
Influences: TypeAlias = tuple[Influence, ...]

# The equal messages among which a redelivery looks back: enough for any sensible prefetch.
LOOK_BACK = 64

# Participants that may have published one of several equal messages, or held it; where there are
# more, the delivery is doubtful.
MOST_CANDIDATES = 16


class DeliveryCase(msgspec.Struct, gc=False):
    """A delivery whose origin is sought, at the tracker's time."""

    deliver: Deliver
    mark: bytes
    moment: int

    @property
    def key(self) -> Key:
        """The place of its handover: its offset in a stream, else the message."""
        return self.deliver.queue, handover_of(self.mark)

    @property
    def death_time(self) -> Any:
        """The time of its last death, as the broker wrote it; None if never, or unknown."""
        deaths = self.deliver.deaths
        return deaths[0].time if deaths else None


class Holds(_copies.Holds):
    """The last holds by queue and fingerprint; the oldest makes room."""

    def newest(self, key: Key, most: int = LOOK_BACK) -> list[Hold]:
        return self._holds.newest(key, most)

    def has_more(self, key: Key) -> bool:
        """Tell whether there are more than are looked at."""
        return self._holds.count(key) > LOOK_BACK

    def causes(self) -> Iterable[Reference]:
        return (hold.cause for hold in self._holds.values() if hold.candidates != 0)

    def forget_before(self, event_id: int) -> None:
        """Forget publishes with smaller ids; a delivery that stays stands for its own."""
        if not any(is_before(hold.cause, event_id) for hold in self._holds.values()):
            return
        holds, self._holds = self._holds, KeyedFifo()
        for key, hold in zip(holds.keys(), holds.values(), strict=True):
            if is_before(hold.cause, event_id):
                if hold.delivery is None or is_before(hold.delivery, event_id):
                    continue
                hold.cause, hold.candidates = hold.delivery, 0
            self.add(key, hold)


class Handovers(Holds):
    """The last deliveries; ``next`` becomes that of the delivery at hand."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.next = Hold(NOBODYS)
        # From before a restart none is known to be a dead letter.
        self._restored: KeyedFifo[bytes, Hold] = KeyedFifo()

    def restore(self, handovers: Iterable[Handover]) -> None:
        for number, handover in enumerate(handovers):
            cause, candidates = handover.cause, handover.candidates
            hold = Hold(cause, candidates, handover.delivery, handover.participant)
            hold.has_brought = handover.has_brought or candidates is not None  # nobody knows
            mark = handover_of(handover.fingerprint)
            self.add((handover.queue, mark), hold)
            if candidates != 0:
                self._restored.add(number, mark, Hold(cause, candidates))

    def siblings(self, marks: Iterable[bytes]) -> list[Hold]:
        """The copies of which dead letters were handed over before a restart, by these marks.

        One death may have made several: the others wait without the copy that died.
        """
        holds = [hold for mark in marks for hold in self._restored.newest(mark, LOOK_BACK)]
        return [*{hold.cause.identity: hold for hold in holds}.values()]


def is_before(reference: Reference, event_id: int) -> bool:
    # An event without an id yet is in the batch at hand, newer than anything stored.
    return reference.id is not None and reference.id < event_id


def by_copy(holds: Iterable[Hold]) -> dict[int, list[Hold]]:
    copies: dict[int, list[Hold]] = {}
    for hold in holds:
        copies.setdefault(hold.cause.identity, []).append(hold)
    return copies


def holders(
    copies: dict[int, list[Hold]], kind: EdgeKind, *, is_one: bool | None = None
) -> tuple[Influences, bool]:
    """Influences of the last holders of some copies; and whether others may have held one.

    Of each copy: its last certain delivery, and the uncertain ones since then.
    """
    if is_one is None:
        is_one = len(copies) == 1
    last: list[Hold] = []
    for deliveries in copies.values():
        for hold in deliveries:
            last.append(hold)
            if is_one or hold.candidates is None:
                break
    influences = tuple(
        Influence(kind, hold.delivery, hold.participant, is_one)
        for hold in last[:MOST_CANDIDATES]
        if hold.delivery is not None
    )
    return influences, len(last) > MOST_CANDIDATES


def uncertain(influences: Sequence[Influence]) -> Influences:
    return tuple(msgspec.structs.replace(influence, certain=False) for influence in influences)
