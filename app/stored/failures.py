"""Failures: messages that died, came back, reached nobody, failed at a consumer, or are late."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import Annotated, NamedTuple

import msgspec
from msgspec.structs import replace

from app.stored.reading import VhostFilter
from model.error_queues import exception_type
from model.times import Microseconds
from model.who import Who

# Counts over time have at most this many spans, of one of these lengths (s).
MOST_SPANS = 120
SPANS = (1, 5, 15, 60, 300, 900, 3_600, 21_600, 86_400, 604_800)
# Groups shown: those with the newest failures.
MOST_GROUPS = 500
# The first participants of a group, which are named.
MOST_NAMES = 5


class FailureKind(enum.StrEnum):
    """The way in which a message failed."""

    died = "died"
    error_queue = "error_queue"
    unroutable = "unroutable"
    came_back = "came_back"
    overdue = "overdue"
    gone = "gone"


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A failure, known by the event that tells of it."""

    event: Annotated[
        int,
        "A dead letter's delivery, the third redelivery, the publish that went nowhere or into an "
        "error queue, or of which a copy is gone; of `overdue` that for which an assertion did not "
        "hold in time.",
    ]
    message: Annotated[int | None, "The message's publish; `null` if not stored, or not known."]
    vhost: str
    kind: FailureKind
    queue: Annotated[str | None, "Where it failed."]
    reason: Annotated[
        str | None,
        "Of `died`, as the broker says it: `rejected`, `expired`, `maxlen` or `delivery_limit`; of "
        "`overdue` the assertion that says so; of `gone` `queue_deleted` or `not_there`.",
    ]
    type: Annotated[
        str | None,
        "The message's type: what it is called, or where it was sent. `null`, as `exception` and "
        "what an `error_queue` message says of where it failed, for whom the broker would not hand "
        "every message of the virtual host.",
    ]
    exception: Annotated[str | None, "Its type and its message, of `error_queue`."]
    at: Annotated[Microseconds, "When the event was recorded."]
    by: Annotated[
        Who | None, "Who was handed it last before; `null` if nobody was, or it is not certain."
    ]
    handed_over: Annotated[int | None, "By which event."]
    candidate: Annotated[
        int | None,
        "Of `error_queue`, where it is not known which message it is: the newest delivery of the "
        "same body to the reporting participant, of the last 64. It may be of another message.",
    ]
    times: Annotated[int, "How often it died or came back so, up to now."]
    to: Annotated[str | None, "The queue where it went from there."]
    publisher: Annotated[Who | None, "Who published the message."]
    exchange: Annotated[str, "Where it was published to."]
    routing_key: str
    put_back: Annotated[
        int | None, "Of `died`: the publish that put it back into the queue where it died."
    ] = None
    remedy: Annotated[
        str | None,
        "Of `died`: the command that does so, if nobody has; `null` where the body is not stored "
        "whole or has more than 4,096 bytes, and for whom the broker would not hand every message.",
    ] = None
    correlation_id: Annotated[
        str | None, "The message's, which an order's messages may share; withheld as `type` is."
    ] = None

    def without_content(self) -> Failure:
        """Without the message's content, for users who may not read every message.

        Of a message in an error queue, content may say where it failed and was published first.
        """
        if self.kind is not FailureKind.error_queue:
            return replace(self, type=None, exception=None, correlation_id=None)
        blanks = {"exchange": "", "routing_key": ""} if self.message is None else {}
        return replace(
            self,
            type=None,
            exception=None,
            correlation_id=None,
            queue=None,
            candidate=None,
            **blanks,
        )


class FailureDraft(NamedTuple):
    """A failure without names and types.

    ``path`` is where it was published to, None where the publish or the event says it.
    """

    event: int
    message: int | None
    kind: FailureKind
    queue: str | None = None
    reason: str | None = None
    exception: str | None = None
    by: int | None = None
    handed_over: int | None = None
    candidate: int | None = None
    times: int = 1
    to: str | None = None
    path: tuple[str, tuple[str, ...]] | None = None


class FailureFilter(VhostFilter, frozen=True, kw_only=True):
    """A choice of failures; None is no condition. Times in µs.

    ``exception`` is an exception's type, or its whole text. ``participant`` was handed the message
    last before it failed.
    """

    kind: FailureKind | None = None
    queue: str | None = None
    reason: str | None = None
    type: str | None = None
    exception: str | None = None
    participant: int | None = None
    since: int | None = None
    until: int | None = None

    def lets_through(self, failure: Failure) -> bool:
        exact = ("kind", "queue", "reason", "type")
        if any(getattr(self, name) not in (None, getattr(failure, name)) for name in exact):
            return False
        texts = (failure.exception, exception_type(failure.exception))
        if self.exception is not None and self.exception not in texts:
            return False
        if self.participant is not None and (
            failure.by is None or failure.by.number != self.participant
        ):
            return False
        return (self.since is None or failure.at >= self.since) and (
            self.until is None or failure.at < self.until
        )


class FailureGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Failures of one kind, queue, reason, message type and type of exception."""

    vhost: str
    kind: FailureKind
    queue: str | None
    reason: str | None
    type: str | None
    exception: Annotated[str | None, "Its type alone, where it has one."]
    count: int
    first_at: Microseconds
    last_at: Microseconds
    newest: Annotated[int, "The newest failure's event."]
    by: Annotated[list[str], "Who was handed the messages last, five names at most."]


class FailureSpan(msgspec.Struct, frozen=True):
    """The number of failures in a span of time."""

    at: Microseconds
    count: int


class OverTime(msgspec.Struct, frozen=True):
    """Failures over time, in spans of equal length."""

    seconds: Annotated[int, "How long each span is."]
    counts: Annotated[list[FailureSpan], "From the first to the last, none left out."]


class FailurePage(msgspec.Struct, frozen=True, kw_only=True):
    """Failures, newest first, and what all that were counted come to."""

    items: list[Failure]
    groups: Annotated[list[FailureGroup], "Those with the newest failures first."]
    groups_truncated: Annotated[bool, "Whether there are more groups than these."]
    over_time: OverTime
    counted: Annotated[int, "How many are in `groups` and `over_time`, the newest."]
    counted_all: Annotated[bool, "Whether there are no others."]
    truncated: Annotated[bool, "Whether there are more than `items`."]
    next: Annotated[int | None, "`before` for those."]


def page_of(
    newest_first: Sequence[Failure], limit: int, looked_at: int | None
) -> tuple[list[Failure], int | None]:
    """The first failures, and the event before which to go on; one event's stay together.

    ``looked_at`` is the last event that was read, None if there are no more.
    """
    size = limit
    while 0 < size < len(newest_first) and newest_first[size].event == newest_first[size - 1].event:
        size += 1
    items = [*newest_first[:size]]
    return items, items[-1].event if items and size < len(newest_first) else looked_at


def failure_page(newest_first: Sequence[Failure], limit: int, looked_at: int | None) -> FailurePage:
    """A page of failures, with the groups and counts of all; ``looked_at`` as in `page_of`."""
    items, next_id = page_of(newest_first, limit, looked_at)
    groups = _merge_groups(map(_group_of, newest_first))
    return FailurePage(
        items=items,
        groups=groups[:MOST_GROUPS],
        groups_truncated=len(groups) > MOST_GROUPS,
        over_time=over_time(newest_first),
        counted=len(newest_first),
        counted_all=looked_at is None,
        truncated=next_id is not None,
        next=next_id,
    )


def _group_of(failure: Failure) -> FailureGroup:
    fields = {name: getattr(failure, name) for name in ("vhost", "kind", "queue", "reason", "type")}
    return FailureGroup(
        **fields,
        exception=exception_type(failure.exception),
        count=1,
        first_at=failure.at,
        last_at=failure.at,
        newest=failure.event,
        by=[] if failure.by is None else [failure.by.name],
    )


def _merge_groups(groups: Iterable[FailureGroup]) -> list[FailureGroup]:
    # Equal groups become one: apart, they would reveal the content that is left out.
    groups_by_key: dict[tuple[object, ...], FailureGroup] = {}
    for group in groups:
        key = (group.vhost, group.kind, group.queue, group.reason, group.type, group.exception)
        first = groups_by_key.setdefault(key, group)  # the newest
        if first is not group:
            groups_by_key[key] = replace(
                first,
                count=first.count + group.count,
                first_at=min(first.first_at, group.first_at),
                last_at=max(first.last_at, group.last_at),
                by=[*dict.fromkeys(first.by + group.by)][:MOST_NAMES],
            )
    return [*groups_by_key.values()]


def over_time(failures: Sequence[Failure]) -> OverTime:
    if not failures:
        return OverTime(60, [])
    times = [failure.at for failure in failures]
    first, last = min(times), max(times)
    seconds = next(
        (
            span
            for span in SPANS
            if last // (span * 1_000_000) - first // (span * 1_000_000) < MOST_SPANS
        ),
        SPANS[-1] * -(-(last - first) // (SPANS[-1] * 1_000_000 * (MOST_SPANS - 1))),
    )
    length = seconds * 1_000_000
    counts = dict.fromkeys(range(first // length, last // length + 1), 0)
    for moment in times:
        counts[moment // length] += 1
    spans = [FailureSpan(Microseconds(n * length), count) for n, count in counts.items()]
    return OverTime(seconds, spans)
