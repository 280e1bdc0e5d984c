"""A publish's fate: what became of its copy in each queue it was routed to."""

from __future__ import annotations

import enum

import msgspec

from model.event import Event


class CopyState(enum.StrEnum):
    """What became of one queue's copy."""

    handed_over = "handed_over"
    waiting = "waiting"
    dead_lettered = "dead_lettered"


class QueueFate(msgspec.Struct):
    """One queue's copy: handed over from it, and handed over after it died there."""

    queue: str
    deliveries: list[Event]
    dead_letters: list[Event]

    @property
    def state(self) -> CopyState:
        """What is known of it last."""
        if self.dead_letters:
            return CopyState.dead_lettered
        return CopyState.handed_over if self.deliveries else CopyState.waiting

    @property
    def dead_lettered_to(self) -> list[str]:
        """The queues it was handed over from after it died here."""
        return list(dict.fromkeys(event.queue for event in self.dead_letters if event.queue))


class Fate(msgspec.Struct, frozen=True):
    """A publish, the number of queues it was routed to, and each one's copy.

    ``heavy`` is that of `app.stored.pages.Found`.
    """

    publish: Event
    routed_queues: int
    queues: list[QueueFate]
    heavy: dict[int, int] = {}

    @property
    def sentence(self) -> str:
        """All of this in a sentence."""
        if not self.queues:
            return "routed to no queue: nobody was given it"
        noun = "queue" if self.routed_queues == 1 else "queues"
        return f"handed over for {self.handed_over} of {self.routed_queues} {noun}"

    @property
    def handed_over(self) -> int:
        """How many of the queues' copies were handed over, directly or as dead letters."""
        return sum(fate.state is not CopyState.waiting for fate in self.queues)
