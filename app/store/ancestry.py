"""From the span that sent a message to the message that its consumer handled; without I/O.

A message's ``traceparent`` names the span that sent it. Going from parent to parent leads to the
span of the consumer, whose own parent, or a link, is the span that sent the message that it
handled. Spans come in any order, so whatever is not there is waited for, and what is said never
depends on the order: a span is only passed once it is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.stored.spans import Outcome, Span, SpanKind

# How many parents are gone through.
MOST_STEPS = 64


@dataclass(frozen=True, slots=True)
class Carrier:
    """A message with some context: a publish, or a delivery whose publish is not known."""

    event_id: int
    participant: int
    is_publish: bool


@dataclass(slots=True)
class Walk:
    """The way from one publish, as far as it is known.

    Once `advance` wants nothing more: where there are ``handled`` contexts, it has found them in
    the span ``consumer``; or it ``waits_for`` a span; or there is nothing to be found: ``outcome``.
    """

    event_id: int
    participant: int
    context: bytes
    consumer: bytes | None = None
    handled: tuple[bytes, ...] = ()
    waits_for: bytes | None = None
    outcome: Outcome | None = None
    wants_spans: list[bytes] = field(default_factory=list)
    wants_carriers: list[bytes] = field(default_factory=list)
    _at: bytes = b""
    _steps: int = 0

    def __post_init__(self) -> None:
        self._at = self.context

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to look at."""
        return bool(self.handled or self.waits_for or self.outcome)

    def advance(
        self,
        spans: Mapping[bytes, Span | None],
        carriers: Mapping[bytes, Sequence[Carrier]],
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
            is_remote = span.is_remote
            if is_remote is None and span.parent is not None:
                if span.parent not in spans:
                    self.wants_spans = [span.parent]
                    return False
                parent = spans[span.parent]
                if parent is None:
                    self.waits_for = span.parent
                    return False
                is_remote = _is_elsewhere(span, parent)
            meant = [link.context for link in span.links if link.is_remote is not False]
            if span.parent is not None and is_remote:
                meant.append(span.parent)
            # Whatever a message led to, it was not sent by that.
            meant = [each for each in dict.fromkeys(meant) if each != self.context]
            self.wants_carriers = [each for each in meant if each not in carriers]
            if self.wants_carriers:
                return False
            self.consumer = span.context
            self.handled = tuple(each for each in meant if carriers[each])
            if self.handled:
                return True
            if span.parent is None or is_remote:
                self.outcome = Outcome.unseen
                return True
        if span.parent is None:
            self.outcome = Outcome.first
            return True
        self._steps += 1
        if self._steps > MOST_STEPS:
            self.outcome = Outcome.far
        self._at = span.parent
        return True


def _is_elsewhere(span: Span, parent: Span) -> bool:
    """Whether a consumer's parent is another process's span, where no flag says so.

    Within a process a consumer's span may have another one as its parent. What sent the message is
    a producer's span, or another service's.
    """
    if parent.kind is SpanKind.producer:
        return True
    return None not in (span.service, parent.service) and span.service != parent.service
