"""Hidden ways: how an id came to whoever names it, where that was not through the broker."""

from __future__ import annotations

from typing import Annotated

import msgspec

from model.times import Microseconds
from model.who import Who
from model.words import EventType, LinkKind


class HiddenLink(msgspec.Struct, frozen=True, kw_only=True):
    """A publish that names a cause which reached no participant of its program."""

    effect: Annotated[int, "The publish."]
    cause: Annotated[int, "The event that it names."]
    rule: str
    kind: LinkKind
    recorded_at: Annotated[Microseconds, "When the effect was recorded."]
    giver: Annotated[Who, "Whom the id probably came from."] = msgspec.field(name="from")
    how: Annotated[
        EventType,
        "Whether they were handed the cause's message, last before the effect, or published it, "
        "and nobody was handed it.",
    ]
    taker: Annotated[Who, "Who published the effect."] = msgspec.field(name="to")


class HiddenWay(msgspec.Struct, frozen=True, kw_only=True):
    """The links of one rule from one participant to another."""

    rule: str
    giver: Who = msgspec.field(name="from")
    taker: Who = msgspec.field(name="to")
    links: int
    first_at: Microseconds
    last_at: Microseconds
    last_effect: Annotated[int, "The newest publish that came of it."]


class HiddenWays(msgspec.Struct, frozen=True):
    """Hidden ways, those used last first."""

    vhost: str
    links: Annotated[int, "How many links were counted, the newest."]
    truncated: Annotated[bool, "Whether there are older ones."]
    ways: list[HiddenWay]
