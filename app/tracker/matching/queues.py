"""Queues: who published to one last, and what it handed out last."""

from __future__ import annotations

from app.tracker._copies import QueueTrail
from app.tracker._memories import KeyedFifo
from app.tracker.events import Influence, PendingCopy
from app.tracker.matching.holds import DeliveryCase, Influences, Key
from model.words import EdgeKind

_OVERFLOW = EdgeKind.overflow

# Queues that are remembered, and publishers of each.
MOST_QUEUES = 10_000
MOST_PUSHERS = 64


class Queues:
    """The queues by name; ``first_tracked`` is the first copy since which all are known."""

    def __init__(self) -> None:
        self.states: dict[str, QueueTrail] = {}
        self.first_tracked = 1

    def add(self, name: str, number: int) -> QueueTrail:
        """Add a queue, known from a copy's number on."""
        if len(self.states) >= MOST_QUEUES:
            self.states.clear()
            self.first_tracked = number
        queue = self.states[name] = QueueTrail(self.first_tracked > 1)
        return queue

    def note_refill(self, name: str) -> None:
        """Note that a queue gets more than its publishes."""
        queue = self.states.get(name)
        if queue is not None:
            queue.is_refilled = True

    def note_letter(self, case: DeliveryCase) -> None:
        """Note that a queue hands out a dead letter."""
        self.note_refill(case.deliver.queue)
        queue = self.states.get(case.deliver.queue)
        if queue is not None and len(queue.letters_of) < MOST_PUSHERS:
            queue.letters_of.add(case.deliver.deaths[0].queue)

    def gets_letters(self, case: DeliveryCase) -> bool:
        """Tell whether a queue has handed out dead letters of the same queue."""
        queue = self.states.get(case.deliver.queue)
        return queue is not None and any(
            death.queue in queue.letters_of for death in case.deliver.deaths[:1]
        )

    def find_overflow(
        self,
        name: str,
        copies: KeyedFifo[Key, PendingCopy],
        copy: PendingCopy | None = None,
        *,
        is_one: bool = False,
    ) -> tuple[Influences, bool]:
        """Find the publishers that pushed a copy out of a full queue; and whether others may have.

        A copy that was alone in its queue was pushed out by the next one. A full queue may also
        refuse new copies: then earlier ones filled it, perhaps some that were given back.
        """
        queue = self.states.get(name)
        if queue is None:
            return (), True
        own_number = 0 if copy is None else copy.number
        is_known = own_number >= self.first_tracked
        is_alone = (
            is_one
            and is_known
            and queue.previous == own_number
            and queue.length == 1
            and not (queue.has_handed or queue.is_refilled or queue.is_crowded)
        )
        pushed = copies.get(queue.newest) if is_alone else None
        if pushed is not None:
            return (Influence(_OVERFLOW, pushed.cause, pushed.participant, True),), False
        influences = []
        for participant, number in queue.pushers.items():
            if number != own_number:
                pusher = copies.get(number)
                cause = None if pusher is None else pusher.cause
                influences.append(Influence(_OVERFLOW, cause, participant, False))
        is_more = queue.is_refilled or queue.is_crowded or not is_known
        return tuple(influences), is_more
