"""A delivery: a copy that was handed over, and what led to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, TypeAlias

from model.described import INNER
from model.happened import ConversationEvent
from model.times import Duration, Microseconds
from model.words import BACK, Disposition, Match

ActWord: TypeAlias = Literal["returned", "rejected", "overflow"]
HowWord: TypeAlias = Literal[
    "parent",
    "reply",
    "forward",
    "in_hand",
    "conversation",
    "any",
    "returned",
    "rejected",
    "overflow",
]


class How(NamedTuple):
    """By which rule a message names its cause, or what else led to it."""

    rule: str | None
    kind: HowWord


class BrokerAct(NamedTuple):
    """An act of the broker that led to a delivery: a copy's return, its rejection, an overflow."""

    cause: Annotated[
        int, "The delivery that was given back or rejected, or the publish that was one too many."
    ]
    kind: ActWord


@dataclass(frozen=True, slots=True)
class Delivery:
    """A copy that was handed over."""

    record: Annotated[ConversationEvent, INNER]
    offset: Annotated[Duration, "Seconds since the conversation began."]
    queued: Annotated[
        Duration,
        "Seconds since its publish; of one that was handed over again or had died, since the "
        "delivery that was given back or rejected, or else the same copy's before it.",
    ]
    handled: Annotated[
        Duration | None, "Seconds until the last publish that it led to, or as a span says."
    ]
    handled_until: Literal["published", "span"] | None
    slack: Duration
    critical: bool
    leads_to: Annotated[tuple[int, ...], "The publishes that it led to."]
    acts: Annotated[tuple[BrokerAct, ...], "What led to it beside its message."] = ()
    settled_after: Annotated[
        Duration | None,
        "Seconds until its consumer acknowledged, rejected or returned it, or its channel closed, "
        "as the broker plugin says; `null` where that is not known, and where the trace message "
        "came only later.",
    ] = None

    @property
    def settlement(self) -> Disposition | None:
        """Its settlement by its consumer; `null` where it is not known."""
        return self.record.settlement

    @property
    def event(self) -> int:
        """Its id."""
        return self.record.id

    @property
    def participant(self) -> int:
        """The participant that was handed it."""
        return self.record.participant

    @property
    def at(self) -> Microseconds:
        """The time at which it was handed over."""
        return self.record.recorded_at

    @property
    def match(self) -> Match:
        """The way its publish was found."""
        return self.record.match

    @property
    def redelivered(self) -> bool:
        """Tell whether the broker says that it was handed over before."""
        return self.record.redelivered

    @property
    def queue(self) -> str | None:
        """The queue that it came from."""
        return self.record.queue

    @property
    def mover(self) -> str | None:
        """The shovel or federation link that took it elsewhere, if one did."""
        is_back = self.settlement in (Disposition.rejected, *BACK)
        return None if self.leads_to or is_back else self.record.mover
