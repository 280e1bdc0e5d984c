"""Failures: messages that died, came back, reached nobody, failed at a consumer, or are late."""

from __future__ import annotations

import enum
from collections.abc import Sequence

import msgspec

from app.stored.hidden import Who
from model.deaths import exception_type

# Counts over time have at most this many spans, each as long as one of these (s).
MOST_SPANS = 120
SPANS = (1, 5, 15, 60, 300, 900, 3_600, 21_600, 86_400, 604_800)
# The groups with the newest failures are shown.
MOST_GROUPS = 500
# Of a group's participants the first so many are named.
MOST_NAMES = 5


class FailureKind(enum.StrEnum):
    """How a message failed."""

    died = "died"
    error_queue = "error_queue"
    unroutable = "unroutable"
    came_back = "came_back"
    overdue = "overdue"


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A failure, known by the event that tells of it, recorded at ``at`` (µs).

    ``message`` is the publish, None where it is not stored any more; ``publisher`` published it.
    ``queue`` is where it failed, ``to`` where it went from there. ``by`` was handed it last before,
    by the event ``handed_over``; both None where it is not certain. ``times``: how often, so far.
    Of one that is overdue ``reason`` is the assertion that says so.
    """

    event: int
    message: int | None
    vhost: str
    kind: FailureKind
    queue: str | None
    reason: str | None
    type: str
    exception: str | None
    at: int
    by: Who | None
    handed_over: int | None
    times: int
    to: str | None
    publisher: Who | None
    exchange: str
    routing_key: str


class FailureFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which failures; a field that is None asks for nothing. Times in µs.

    ``vhosts`` are those that the caller may see. ``exception`` is an exception's type, or all that
    is kept of it. ``participant`` was handed the message last before it failed.
    """

    vhosts: frozenset[str] | None = None
    vhost: str | None = None
    kind: FailureKind | None = None
    queue: str | None = None
    reason: str | None = None
    type: str | None = None
    exception: str | None = None
    participant: int | None = None
    since: int | None = None
    until: int | None = None

    @property
    def visible(self) -> frozenset[str] | None:
        """The virtual hosts that it lets through; None for all."""
        if self.vhost is None:
            return self.vhosts
        only = frozenset({self.vhost})
        return only if self.vhosts is None else only & self.vhosts

    def lets_through(self, failure: Failure) -> bool:
        """Whether a failure of a visible virtual host is asked for."""
        exact = ("kind", "queue", "reason", "type")
        if any(getattr(self, name) not in (None, getattr(failure, name)) for name in exact):
            return False
        said = (failure.exception, exception_type(failure.exception))
        if self.exception is not None and self.exception not in said:
            return False
        if self.participant is not None and (
            failure.by is None or failure.by.participant != self.participant
        ):
            return False
        return (self.since is None or failure.at >= self.since) and (
            self.until is None or failure.at < self.until
        )


class FailureGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Failures of one kind: of one queue, reason, message type and type of exception.

    ``newest`` is the newest failure's event, ``by`` are the names of the participants who were
    handed the messages last, at most `MOST_NAMES`. Times in µs.
    """

    vhost: str
    kind: FailureKind
    queue: str | None
    reason: str | None
    type: str
    exception: str | None
    count: int
    first_at: int
    last_at: int
    newest: int
    by: list[str]


class Span(msgspec.Struct, frozen=True):
    """How many there were from ``at`` (µs) on."""

    at: int
    count: int


class FoundFailures(msgspec.Struct, frozen=True):
    """A page of failures, newest first, and what all that were counted come to.

    ``counted`` is how many were counted, from the newest on or from where the page begins;
    ``counted_all``: there are no others. ``next``: the page goes on before this event.
    """

    items: list[Failure]
    groups: list[FailureGroup]
    groups_truncated: bool
    seconds: int
    over_time: list[Span]
    counted: int
    counted_all: bool
    next: int | None


def page_of(
    newest_first: Sequence[Failure], limit: int, looked_at: int | None
) -> tuple[list[Failure], int | None]:
    """The first failures, and where to go on; what one event tells of stays together.

    ``looked_at`` is the last event that was looked at, None where there are no more.
    """
    size = limit
    while 0 < size < len(newest_first) and newest_first[size].event == newest_first[size - 1].event:
        size += 1
    items = [*newest_first[:size]]
    return items, items[-1].event if items and size < len(newest_first) else looked_at


def found(newest_first: Sequence[Failure], limit: int, looked_at: int | None) -> FoundFailures:
    """A page, groups and counts of what was counted; ``looked_at`` as `page_of`."""
    items, following = page_of(newest_first, limit, looked_at)
    groups = groups_of(newest_first)
    seconds, spans = over_time(newest_first)
    return FoundFailures(
        items=items,
        groups=groups[:MOST_GROUPS],
        groups_truncated=len(groups) > MOST_GROUPS,
        seconds=seconds,
        over_time=spans,
        counted=len(newest_first),
        counted_all=looked_at is None,
        next=following,
    )


def groups_of(newest_first: Sequence[Failure]) -> list[FailureGroup]:
    """The groups, those with the newest failures first."""
    by_key: dict[tuple[object, ...], list[Failure]] = {}
    for each in newest_first:
        said = exception_type(each.exception)
        key = (each.vhost, each.kind, each.queue, each.reason, each.type, said)
        by_key.setdefault(key, []).append(each)
    return [_group(of_one) for of_one in by_key.values()]


def _group(newest_first: Sequence[Failure]) -> FailureGroup:
    newest = newest_first[0]
    times = [each.at for each in newest_first]
    names = dict.fromkeys(each.by.name for each in newest_first if each.by is not None)
    return FailureGroup(
        vhost=newest.vhost,
        kind=newest.kind,
        queue=newest.queue,
        reason=newest.reason,
        type=newest.type,
        exception=exception_type(newest.exception),
        count=len(newest_first),
        first_at=min(times),
        last_at=max(times),
        newest=newest.event,
        by=[*names][:MOST_NAMES],
    )


def over_time(failures: Sequence[Failure]) -> tuple[int, list[Span]]:
    """How long a span is (s), and the spans from the first failure to the last, none left out."""
    if not failures:
        return 60, []
    times = [each.at for each in failures]
    first, last = min(times), max(times)
    seconds = next(
        (
            each
            for each in SPANS
            if last // (each * 1_000_000) - first // (each * 1_000_000) < MOST_SPANS
        ),
        SPANS[-1] * -(-(last - first) // (SPANS[-1] * 1_000_000 * (MOST_SPANS - 1))),
    )
    length = seconds * 1_000_000
    counts = dict.fromkeys(range(first // length, last // length + 1), 0)
    for at in times:
        counts[at // length] += 1
    return seconds, [Span(number * length, count) for number, count in counts.items()]
