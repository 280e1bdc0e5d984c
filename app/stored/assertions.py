"""Assertions that a service judges, their violations, and the webhook's notifications."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from app.stored.reading import VhostFilter
from model.assertions.assertion import (
    Acknowledged,
    Assertion,
    AtMost,
    Basis,
    InvalidAssertionError,
    LeadsTo,
    NeverConcurrent,
    Precedence,
    Requirement,
)
from model.assertions.judging import WatchedEvent
from model.assertions.language import from_json
from model.described import INNER
from model.times import Microseconds

# Effects or causes of one event that are read.
MOST_REACHED = 1_000
# Violations of an assertion in one minute that the webhook gets one by one. The others follow
# together, when the minute is over: anybody who may publish can violate an assertion as often as
# they like.
MOST_A_MINUTE = 10


class ViolationKind(enum.StrEnum):
    """Kinds of violations."""

    overdue = "overdue"  # it never led in time to what it should, or was not acknowledged
    unpreceded = "unpreceded"  # nothing that should have come before is in its past
    concurrent = "concurrent"  # two that must be in an order are in none
    storm = "storm"  # it caused more than it may


class WebhookState(enum.StrEnum):
    """The webhook's part in a violation."""

    none = "none"  # no webhook when it was found
    due = "due"
    delivered = "delivered"
    given_up = "given_up"


class Reach(NamedTuple):
    """An event, and its effects or causes in order, all of them if it ``is_whole``.

    ``has_equals``: it, or an effect, may also have led to deliveries of equal messages.
    """

    event: WatchedEvent
    events: Sequence[WatchedEvent]
    is_whole: bool
    has_equals: bool = False


class HeldAssertion(msgspec.Struct, frozen=True, kw_only=True):
    """An assertion of a virtual host, and its results since it was set; ``text`` is JSON."""

    trace_id: Annotated[int, INNER]
    vhost: str
    name: str
    text: Annotated[str, INNER]
    set_by: str
    set_at: Microseconds
    from_event_id: Annotated[int, "The first event that it is held against."]
    judged_id: Annotated[int, "All events up to this one are judged."]
    waiting: Annotated[
        int, "Events that are read and wait for their time, as of the last that was judged."
    ]
    held: Annotated[int, "For how many events it held."]
    violated: Annotated[int, "For how many it did not."]
    unknown: Annotated[
        int,
        "For how many nobody knows: by a gap, a doubt, a trace that lagged, or a conversation that "
        "is too large.",
    ]

    @property
    def assertion(self) -> dict[str, Any]:
        """The assertion, as in a file."""
        return msgspec.json.decode(self.text, type=dict[str, Any])

    @property
    def unwatched(self) -> str | None:
        """The reason why it is not held against events as they come; `null` if it is."""
        try:
            return explain_unwatched(from_json(self.assertion))
        except InvalidAssertionError as error:
            return f"this version does not know it: {error}"


def explain_unwatched(assertion: Assertion) -> str | None:
    """Explain why an assertion cannot be held against events while they come; None if it can."""
    condition = assertion.requirement
    match condition:
        case LeadsTo(limit=None):
            return "it says no time: `within` does"
        case Precedence(evidence=Basis.may_have):
            return "what clocks allow is looked for by rabbitmq-itc assert"
        case NeverConcurrent() if condition.key != "conversation":
            return f"what shares {condition.key} is looked for by rabbitmq-itc assert"
        case AtMost() if condition.causes_more_than >= MOST_REACHED:
            return f"only up to {MOST_REACHED - 1:,} messages are counted while they come"
    return None


_KINDS: dict[type[Requirement], ViolationKind] = {
    LeadsTo: ViolationKind.overdue,
    Precedence: ViolationKind.unpreceded,
    NeverConcurrent: ViolationKind.concurrent,
    AtMost: ViolationKind.storm,
    Acknowledged: ViolationKind.overdue,
}


@dataclass(frozen=True, slots=True)
class AssertionScope:
    """The events by which an assertion is judged, and the time it has after each (µs)."""

    what: Requirement
    within: int = 0

    @property
    def kind(self) -> ViolationKind:
        return _KINDS[type(self.what)]

    def picks(self, event: WatchedEvent) -> bool:
        condition = self.what
        match condition:
            case LeadsTo() | Acknowledged():
                return event.is_publish and condition.subject.fits(event.message_type)
            case Precedence():
                return not event.is_publish and condition.subject.fits(event.message_type)
            case NeverConcurrent():
                return event.is_publish and any(
                    message_type.fits(event.message_type) for message_type in condition.types
                )
            case AtMost():
                return event.is_publish  # any may have been caused by something


def subject_of(text: str) -> AssertionScope | None:
    """A stored assertion's scope; None if it cannot be judged as events come.

    Raises `ValueError` for one of another version.
    """
    assertion = from_json(msgspec.json.decode(text))
    if explain_unwatched(assertion) is not None:
        return None
    condition = assertion.requirement
    within = condition.limit or 0 if isinstance(condition, LeadsTo | Acknowledged) else 0
    return AssertionScope(condition, within)


class NewViolation(msgspec.Struct, frozen=True, kw_only=True):
    """An event for which an assertion does not hold. Times in µs.

    ``last_id`` is the last event that was read, ``root`` begins the event's conversation, and
    ``type`` is its message's.
    """

    event: int
    last_id: int
    root: int | None
    kind: ViolationKind
    type: str
    recorded_at: int
    sentence: str


class JudgingStep(msgspec.Struct, frozen=True, kw_only=True):
    """The result of judging the events after ``before`` up to ``judged_id`` by an assertion."""

    name: str
    text: str
    before: int
    judged_id: int
    waiting: int = 0
    held: int = 0
    unknown: int = 0
    violations: tuple[NewViolation, ...] = ()


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """An event for which an assertion does not hold.

    ``text`` is the assertion's. With a ``summary``, the number of a minute, the webhook is told of
    it with the others of that minute.
    """

    id: int
    trace_id: Annotated[int, INNER]
    vhost: str
    assertion: Annotated[str, "Its name."]
    text: Annotated[str, INNER]
    event: int
    last_id: Annotated[int, INNER]
    root: Annotated[int | None, "Where the event's conversation begins, if it is known."]
    kind: ViolationKind
    type: Annotated[
        str | None,
        "The type of the event's message. `null`, as `sentence`, for whom the broker would not "
        "hand every message of the virtual host.",
    ]
    recorded_at: Annotated[Microseconds, "When the event was recorded."] = msgspec.field(name="at")
    found_at: Microseconds
    sentence: str | None
    delivery: Annotated[WebhookState, "Whether the webhook has taken it."]
    attempts: Annotated[int, "How often the webhook was tried."]
    delivered_at: Microseconds | None
    error: Annotated[str | None, "Why the webhook did not take it, the last time."]
    summary: Annotated[int | None, INNER] = None
    complete: Annotated[bool, "Whether no gap has turned up where it was looked for."] = True

    def without_content(self) -> Violation:
        """Without the message's content, for users who may not read every message."""
        return replace(self, type=None, sentence=None)


class ViolationPage(msgspec.Struct, frozen=True):
    """Violations, newest first."""

    items: list[Violation]
    truncated: Annotated[bool, "Whether there are more."]

    @property
    def next(self) -> int | None:
        """`before` for those."""
        return self.items[-1].id if self.truncated else None


class Notification(msgspec.Struct, frozen=True):
    """A request to the webhook: an assertion's ``count`` violations, ``first`` to ``last``."""

    first: Violation
    count: int
    last: int


class ViolationFilter(VhostFilter, frozen=True, kw_only=True):
    """A choice of violations, by the times (µs) when they were found; None is no condition."""

    assertion: str | None = None
    kind: ViolationKind | None = None
    since: int | None = None
    until: int | None = None
