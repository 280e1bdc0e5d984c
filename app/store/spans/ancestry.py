"""From the span that sent a message to the message that its consumer handled; without I/O.

A message's ``traceparent`` names the span that sent it. Going from parent to parent leads to the
span of the consumer, whose own parent, or a link, is the span that sent the message that it
handled. Spans come in any order, so whatever is not there is waited for, and what is said never
depends on the order: a span is only passed once it is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.stored.spans import ResolutionOutcome, Span, SpanKind

# How many parents are gone through.
MOST_STEPS = 64


@dataclass(frozen=True, slots=True)
class Carrier:
    """A message with some context: a publish, or a delivery whose publish is not known."""

    event_id: int
    participant: int
    is_publish: bool


@dataclass(slots=True)
class AncestryWalk:
    """The way from one publish, as far as it is known.

    Once `advance` wants nothing more: where there are ``handled`` contexts, it has found them in
    the span ``consumer``; or it ``waits_for`` a span; or there is nothing to be found: ``outcome``.
    """

    context: bytes
    consumer: bytes | None = None
    handled: tuple[bytes, ...] = ()
    waits_for: bytes | None = None
    outcome: ResolutionOutcome | None = None
    wants_spans: list[bytes] = field(default_factory=list)
    wants_carriers: list[bytes] = field(default_factory=list)
    _at: bytes = b""
    _steps: int = 0

    def __post_init__(self) -> None:
        self._at = self.context

    @property
    def is_over(self) -> bool:
        return bool(self.handled or self.waits_for or self.outcome)

    def advance(
        self, spans: Mapping[bytes, Span | None], carriers: Mapping[bytes, Sequence[Carrier]]
    ) -> None:
        """Go on with what was looked up; None is a span that is not there."""
        self.wants_spans, self.wants_carriers = [], []
        while not self.is_over:
            if self._at not in spans:
                self.wants_spans = [self._at]
                return
            span = spans[self._at]
            if span is None:
                self.waits_for = self._at
                return
            if not self._pass(span, spans, carriers):
                return

    def _pass(
        self,
        span: Span,
        spans: Mapping[bytes, Span | None],
        carriers: Mapping[bytes, Sequence[Carrier]],
    ) -> bool:
        """Look at a span, and go on to its parent; False if something is wanted first."""
        if span.kind is SpanKind.consumer:
            named = [(link.context, link.is_remote, True) for link in span.links]
            if span.parent is not None:
                named.append((span.parent, span.is_remote, False))
            meant = []
            for context, is_remote, linked in named:
                sender = spans.get(context)
                is_meant = has_sent(sender, span.service, is_remote=is_remote, linked=linked)
                if is_meant is None:
                    if context in spans:
                        self.waits_for = context
                        return True
                    self.wants_spans.append(context)
                elif is_meant:
                    meant.append(context)
            if self.wants_spans:
                return False
            # Whatever a message led to, it was not sent by that.
            asked = [each for each in dict.fromkeys(meant) if each != self.context]
            self.wants_carriers = [each for each in asked if each not in carriers]
            if self.wants_carriers:
                return False
            self.consumer = span.context
            self.handled = tuple(each for each in asked if carriers[each])
            if self.handled:
                return True
            if span.parent is None or span.parent in meant:
                self.outcome = ResolutionOutcome.unseen
                return True
        if span.parent is None:
            self.outcome = ResolutionOutcome.first
            return True
        self._steps += 1
        if self._steps > MOST_STEPS:
            self.outcome = ResolutionOutcome.far
        self._at = span.parent
        return True


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
