"""A conversation, or a page of one: its messages, and what all of them come to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Literal, NamedTuple, TypeAlias

from model.conversations.clauses import Clause
from model.conversations.deliveries import Delivery
from model.conversations.messages import Message, Outcome
from model.conversations.states import Position, State
from model.times import Microseconds
from model.wording import Sentence

Basis: TypeAlias = Literal["settled", "by its key", "by links"]

_REASONS: Mapping[Basis, Sentence] = {
    "settled": Sentence.all_settled,
    "by its key": Sentence.key_at_rest,
    "by links": Sentence.links_at_rest,
}


class Involved(NamedTuple):
    """A participant in a conversation."""

    number: int
    name: str
    coverage: Annotated[
        float | None,
        "The share of its publishes that may have a cause which name it, between 0 and 1; `null` "
        "without any.",
    ] = None
    coverage_by_spans: Annotated[
        float | None, "The share of them that name none, and of which spans tell it."
    ] = None


class Counts(NamedTuple):
    """Numbers of a conversation's parts."""

    messages: int
    deliveries: int
    redeliveries: int
    deaths: Annotated[int, "Deliveries of messages that had died."]
    waiting: Annotated[int, "Copies in queues that were not handed over, or not again."]
    participants: int


class Loop(NamedTuple):
    """A message type in its own past: the messages of that type."""

    type: str
    events: tuple[int, ...]


class Amplification(NamedTuple):
    """The most messages that one led to directly, and which one."""

    most: int
    event: int | None


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation, or a page of it.

    On its critical path a publish waited for its cause. A delivery waited for its publish, or after
    a return or a death for the delivery that was given back or rejected, or the copy's last one.
    """

    root: int
    type: str
    outcome: Outcome
    state: State
    position: Annotated[
        Position | None,
        "Where it is; `null` of one that has ended, and where nobody was handed it.",
    ]
    clauses: Annotated[tuple[Clause, ...], "What its sentence says, one thing each."]
    began_at: Microseconds
    ended_at: Microseconds
    counts: Counts
    keys: Annotated[tuple[str, ...], "Values that its messages share, at most 5."]
    participants: tuple[Involved, ...]
    messages: tuple[Message, ...]
    critical_path: tuple[int, ...]
    amplification: Amplification
    loops: tuple[Loop, ...]
    truncated: bool

    def crossing_events(self) -> list[int]:
        """Deliveries that left by a shovel or a federation link, and publishes that came by one."""
        came = [m.event for m in self.messages if m.record.mover is not None and not m.led_by]
        return came + [delivery.event for delivery in self._deliveries if delivery.mover]

    def delivery_events(self) -> Iterator[int]:
        """The ids of its deliveries."""
        return (delivery.event for delivery in self._deliveries)

    @property
    def _deliveries(self) -> list[Delivery]:
        copies = chain.from_iterable(message.copies for message in self.messages)
        return [delivery for copy in copies for delivery in copy.deliveries]

    @property
    def sentence(self) -> str:
        """The clauses as one text."""
        return ". ".join(map(str, self.clauses))

    @property
    def seconds(self) -> float:
        """From the first publish to the last event."""
        return (self.ended_at - self.began_at) / 1e6

    @property
    def done_by(self) -> Basis | None:
        """By what it is `done`; `null` where it is not.

        All deliveries were settled, or all messages share a key, or else it is links alone.
        """
        if self.outcome is not Outcome.done:
            return None
        deliveries = self._deliveries
        if deliveries and all(delivery.settlement for delivery in deliveries):
            return "settled"
        keys = [{*message.record.keys} for message in self.messages if not message.unseen]
        return "by its key" if keys and set.intersection(*keys) else "by links"

    @property
    def reason(self) -> str | None:
        """The reason why it is `done`, or `unknown` where no clause says why; else `null`."""
        if self.done_by is not None:
            return _REASONS[self.done_by]
        return Sentence.no_record if self.state is State.unknown and not self.clauses[1:] else None
