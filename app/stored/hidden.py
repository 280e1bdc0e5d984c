"""Hidden ways: how an id came to whoever names it, where that was not through the broker."""

from __future__ import annotations

import msgspec

from model.words import EventType, LinkKind


class Who(msgspec.Struct, frozen=True):
    """A participant, by its number and by what people read."""

    participant: int
    name: str


class HiddenLink(msgspec.Struct, frozen=True):
    """A publish that names a cause which reached no participant of its program.

    ``giver`` is whom the id probably came from: who was handed the cause's message last before the
    effect, or who published it, if nobody was; ``how`` says which. ``taker`` published the effect,
    at ``recorded_at`` (µs).
    """

    effect: int
    cause: int
    rule: str
    kind: LinkKind
    recorded_at: int
    giver: Who
    how: EventType
    taker: Who


class HiddenWay(msgspec.Struct, frozen=True):
    """The links of one rule from one participant to another: how many, the first and the last.

    ``first_at`` and ``last_at`` are when the effects were recorded (µs).
    """

    rule: str
    giver: Who
    taker: Who
    links: int
    first_at: int
    last_at: int
    last_effect: int


class HiddenWays(msgspec.Struct, frozen=True):
    """The ways of a trace's newest hidden links, those used last first.

    ``links`` is how many links were looked at; ``truncated``: there are older ones.
    """

    links: int
    truncated: bool
    ways: list[HiddenWay]
