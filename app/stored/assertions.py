"""Assertions that a service holds, what did not hold, and what the webhook was told of it."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

MOST_REACHED = 1_000
"""From one event so many others are looked at."""


MOST_A_MINUTE = 10
"""Of so many violations of an assertion the webhook is told one by one in a minute.

Of the others it is told at once, when the minute is over: anybody who may publish can have an
assertion be violated as often as they like.
"""

MINUTE = 60_000_000
"""In µs."""


class ViolationKind(enum.StrEnum):
    """What did not hold."""

    overdue = "overdue"  # it never led to what it should lead to in time
    unpreceded = "unpreceded"  # what should have come before is not in its past
    concurrent = "concurrent"  # two that must be in an order are in none
    storm = "storm"  # it caused more than it may


class Delivery(enum.StrEnum):
    """Whether the webhook has taken a violation."""

    none = "none"  # there was no webhook when it was found
    due = "due"
    delivered = "delivered"
    given_up = "given_up"


class Seen(NamedTuple):
    """What is read of an event: its id, when it was recorded (µs), and its message's type.

    ``message`` is the publish of one that was received; None where that was not seen.
    """

    id: int
    recorded_at: int
    is_publish: bool
    type: str
    message: int | None = None


class Reach(NamedTuple):
    """An event, and those that it led to, or that led to it, in order; and whether that is all."""

    event: Seen
    events: Sequence[Seen]
    is_whole: bool


class HeldAssertion(msgspec.Struct, frozen=True, kw_only=True):
    """An assertion of a trace, and what came of it since it was set. ``set_at`` in µs.

    ``text`` is JSON. It is judged by the events from ``from_event_id`` on, and has been by all up
    to ``judged_id``; ``waiting`` are those read already that wait for their time.
    """

    trace_id: int
    vhost: str
    name: str
    text: str
    set_by: str
    set_at: int
    from_event_id: int
    judged_id: int
    waiting: int
    held: int
    violated: int
    unknown: int


class NewViolation(msgspec.Struct, frozen=True, kw_only=True):
    """An event for which an assertion does not hold. Times in µs.

    ``last_id`` is the last event that was looked at, ``root`` begins the event's conversation, and
    ``type`` is its message's type.
    """

    event: int
    last_id: int
    root: int | None
    kind: ViolationKind
    type: str
    recorded_at: int
    sentence: str


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What came of looking at an assertion's events from ``before`` up to ``judged_id``.

    ``name`` and ``text`` say by which assertion they were judged.
    """

    name: str
    text: str
    before: int
    judged_id: int
    waiting: int = 0
    held: int = 0
    unknown: int = 0
    violations: tuple[NewViolation, ...] = ()


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """A stored one; ``text`` is that of the assertion which it was judged by. Times in µs.

    ``attempts`` to tell the webhook were made; ``error`` is why the last one failed. With a
    ``summary``, the number of a minute, it is told with the others of that minute. It is not
    ``complete`` if a gap turned up where it was looked for.
    """

    id: int
    trace_id: int
    vhost: str
    assertion: str
    text: str
    event: int
    last_id: int
    root: int | None
    kind: ViolationKind
    type: str
    recorded_at: int
    found_at: int
    sentence: str
    delivery: Delivery
    attempts: int
    delivered_at: int | None
    error: str | None
    summary: int | None = None
    complete: bool = True


class Telling(msgspec.Struct, frozen=True):
    """What the webhook is told in one request: a violation, or all of a summary.

    Those are ``count`` of its assertion, from the ``first`` to the one with the id ``last``.
    """

    first: Violation
    count: int
    last: int


class ViolationFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which violations; None asks for nothing. Times (µs) are of when they were found.

    ``vhosts`` are those that the caller may see.
    """

    vhosts: frozenset[str] | None = None
    vhost: str | None = None
    assertion: str | None = None
    kind: ViolationKind | None = None
    since: int | None = None
    until: int | None = None

    @property
    def visible(self) -> frozenset[str] | None:
        """The virtual hosts that it lets through; None for all."""
        if self.vhost is None:
            return self.vhosts
        only = frozenset({self.vhost})
        return only if self.vhosts is None else only & self.vhosts
