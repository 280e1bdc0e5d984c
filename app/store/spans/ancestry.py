"""From the span that sent a message to the message that its consumer handled; without I/O.

A message's ``traceparent`` names the span that sent it. Going from parent to parent leads to the
span of the consumer, whose own parent, or a link, is the span that sent the message that it
handled. Spans come in any order: a span is only passed once it is known, so that the answer never
depends on the order.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from app.stored.spans import Span, SpanKind

# Parents that a search passes.
MOST_STEPS = 64


class Carrier(NamedTuple):
    """A message with some context: a publish, or a delivery whose publish is not known."""

    event_id: int
    participant: int
    is_publish: bool


class Ancestry(NamedTuple):
    """The end of a search from a publish.

    Either ``handled`` contexts from the span ``consumer``; or a span that it ``waits_for``; or
    nothing.
    """

    handled: tuple[bytes, ...] = ()
    consumer: bytes | None = None
    waits_for: bytes | None = None


# Contexts of spans, and of messages, to be looked up.
Lookups: TypeAlias = tuple[Sequence[bytes], Sequence[bytes]]


def ancestry(
    context: bytes,
    spans: Mapping[bytes, Span | None],
    carriers: Mapping[bytes, Sequence[Carrier]],
) -> Generator[Lookups, None, Ancestry]:
    """Go from a publish's context to the consumer's span, and to the messages that it handled.

    Yields the contexts that it needs next among ``spans`` (None for one that is not stored) and
    ``carriers``.
    """
    current = context
    for _ in range(MOST_STEPS + 1):
        if current not in spans:
            yield [current], ()
        span = spans[current]
        if span is None:
            return Ancestry(waits_for=current)
        if span.kind is SpanKind.consumer:
            candidates = [(link.context, link.is_remote, True) for link in span.links]
            if span.parent is not None:
                candidates.append((span.parent, span.is_remote, False))
            unsure = [
                candidate
                for candidate, is_remote, linked in candidates
                if has_sent(None, span.service, is_remote=is_remote, linked=linked) is None
            ]
            yield unsure, ()
            senders = []
            for candidate, is_remote, linked in candidates:
                sender = spans.get(candidate)
                is_sender = has_sent(sender, span.service, is_remote=is_remote, linked=linked)
                if is_sender is None:
                    return Ancestry(waits_for=candidate)
                if is_sender:
                    senders.append(candidate)
            # No message was sent by its own effect.
            messages = [candidate for candidate in dict.fromkeys(senders) if candidate != context]
            yield (), messages
            if handled := tuple(candidate for candidate in messages if carriers[candidate]):
                return Ancestry(handled, span.context)
            if span.parent is None or span.parent in senders:
                return Ancestry()  # that message is not stored
        if span.parent is None:
            return Ancestry()  # no consumer's span led to it
        current = span.parent
    return Ancestry()


def has_sent(
    sender: Span | None, service: str | None, *, is_remote: bool | None, linked: bool
) -> bool | None:
    """Tell whether a consumer's parent, or a span that it has ``linked``, sent what it handled.

    Within a process a consumer's span may have another one as its parent, so a flag has to say that
    it is another process's, or the ``sender`` has to show it: None while that is needed and not
    known. RabbitMQ's client for .NET flags contexts that it has read from a message as its own.
    There a link says it, where it leads to a producer's span.
    """
    if is_remote or (linked and is_remote is None):
        return True
    if sender is None:
        return None
    if None not in (service, sender.service) and service != sender.service:
        return True
    return sender.kind is SpanKind.producer and (linked or is_remote is None)
