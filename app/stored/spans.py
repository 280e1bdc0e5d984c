"""Imported spans, and the messages' handling that they record.

A span is known by its context: the 16 bytes of its trace id and the 8 of its own. A message's
``traceparent`` holds its sender's context.
"""

from __future__ import annotations

import enum
import re

import msgspec

from model.times import Microseconds

MOST_LINKS = 64  # of one span; as many as a message may name causes

_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?"
)


def context_of(traceparent: object) -> bytes | None:
    """The context in a ``traceparent`` header; None if it is not one of W3C's."""
    if type(traceparent) is not str:
        return None
    match = _TRACEPARENT.fullmatch(traceparent)
    return None if match is None else bytes.fromhex(match[1] + match[2])


class SpanKind(enum.IntEnum):
    """OTLP's kinds."""

    unspecified = 0
    internal = 1
    server = 2
    client = 3
    producer = 4
    consumer = 5


class SpanLink(msgspec.Struct, frozen=True):
    """A link to another span; ``is_remote`` (another process's) is None if it does not say."""

    context: bytes
    is_remote: bool | None = None


class Span(msgspec.Struct, frozen=True):
    """The kept part of a span. Times are µs; ``is_remote`` is the parent's, as a link's."""

    context: bytes
    parent: bytes | None
    is_remote: bool | None
    kind: SpanKind
    started_at: int
    ended_at: int
    service: str | None = None
    links: tuple[SpanLink, ...] = ()


class Refusal(enum.StrEnum):
    """Reasons to refuse a span."""

    invalid = "invalid"  # invalid ids, times that contradict each other
    too_many_links = "too many links"
    too_old = "too old"
    in_the_future = "in the future"


class HandlingTime(msgspec.Struct, frozen=True):
    """The time of a consumer's handling, as its OpenTelemetry span says, by its own clock."""

    started_at: Microseconds = msgspec.field(name="from")
    ended_at: Microseconds = msgspec.field(name="to")
    service: str | None
