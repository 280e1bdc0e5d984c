"""What an assertion says, as far as it is held against events while they come."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import msgspec

from app.stored.assertions import Seen, ViolationKind
from model.words import Via

_ANY = "*"
_UNITS = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_SPAN = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(ms|s|m|h|d)")


@dataclass(frozen=True, slots=True)
class Subject:
    """An assertion: which events it is about, and what must be so of them.

    ``one`` and ``other`` are types of messages, ``within`` in µs; ``most`` is what one may cause.
    """

    kind: ViolationKind
    one: str
    other: str = ""
    within: int = 0
    via: Via = Via.links
    most: int = 0

    def picks(self, event: Seen) -> bool:
        """Whether it is judged by an event."""
        match self.kind:
            case ViolationKind.overdue:
                return event.is_publish and self.is_one(event)
            case ViolationKind.unpreceded:
                return not event.is_publish and self.is_one(event)
            case ViolationKind.concurrent:
                return event.is_publish and (self.is_one(event) or self.is_other(event))
            case ViolationKind.storm:
                return event.is_publish  # whatever it is, something may have caused it

    def is_one(self, event: Seen) -> bool:
        """Whether an event is of the first type."""
        return self.one in (_ANY, event.type)

    def is_other(self, event: Seen) -> bool:
        """Whether it is of the second."""
        return self.other in (_ANY, event.type)


def microseconds_in(span: object) -> int:
    """How long a span such as ``30s`` is (µs). Raises `ValueError`."""
    found = _SPAN.fullmatch(span.strip()) if isinstance(span, str) else None
    if found is None:
        raise ValueError(f"expected a time such as 30s, 5m or 2h, not {span!r}")
    return int(float(found[1]) * _UNITS[found[2]])


def unwatched(said: dict[str, Any]) -> str | None:
    """Why an assertion cannot be held against events while they come; None if it can."""
    if "never_concurrent" in said and said.get("per", "conversation") != "conversation":
        return (
            f"per: {said['per']} is looked for by rabbitmq-itc assert alone; with a rule of links "
            "that makes it a conversation, per: conversation is held live"
        )
    return None


def subject_of(text: str) -> Subject | None:
    """What a stored assertion says; None if it cannot be held against events while they come.

    Raises `ValueError` for one of another version.
    """
    said = msgspec.json.decode(text, type=dict[str, Any])
    if unwatched(said) is not None:
        return None
    via = Via(said.get("via", "links"))
    try:
        if "leads_to" in said:
            within = microseconds_in(said["within"])
            return Subject(ViolationKind.overdue, said["every"], said["leads_to"], within, via)
        if "after" in said:
            return Subject(ViolationKind.unpreceded, said["every"], said["after"], 0, via)
        if "never_concurrent" in said:
            one, other = said["never_concurrent"]
            return Subject(ViolationKind.concurrent, one, other, 0, via)
        return Subject(ViolationKind.storm, said["no"], most=int(said["causes_more_than"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"this version does not know it: {text}") from error
